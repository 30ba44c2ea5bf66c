"""Weights: headers of safetensors files against the tensors that a model needs."""
