"""Tokenizer files, and the ids that end a turn."""
