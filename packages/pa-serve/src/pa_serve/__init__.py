"""The pa command: generate text and measure, with paged attention."""

from pa_serve._version import __version__

__all__ = ["__version__"]
