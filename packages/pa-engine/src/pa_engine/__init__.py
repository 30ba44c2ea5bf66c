"""Continuous batching in which every step is a transaction."""

from pa_engine._version import __version__

__all__ = ["__version__"]
