"""Decoders of real model families on paged attention, and their checkpoints."""

from pa_models._version import __version__

__all__ = ["__version__"]
