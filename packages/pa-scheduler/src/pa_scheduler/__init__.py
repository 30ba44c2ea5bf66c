"""Scheduling policies for continuous batching: order, budgets, packing."""

from pa_scheduler._version import __version__

__all__ = ["__version__"]
