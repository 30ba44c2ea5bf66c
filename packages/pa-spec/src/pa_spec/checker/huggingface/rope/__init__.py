"""Rotary embeddings: how configurations write them, and the frequencies that follow."""
