"""What a config.json says: its family, its keys, and what they resolve to."""
