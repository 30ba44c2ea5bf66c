"""Exported folders: genai_config.json against the graphs that it names."""
