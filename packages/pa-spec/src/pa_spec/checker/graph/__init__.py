"""ONNX graphs: reading them and checking their nodes."""
