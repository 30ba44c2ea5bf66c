"""Hugging Face folders: what config.json means, and whether the weights agree."""
