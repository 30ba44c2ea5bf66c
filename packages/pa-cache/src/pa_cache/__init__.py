"""Paged KV cache: block pool, block tables, transactional reservations."""

from pa_cache._version import __version__

__all__ = ["__version__"]
