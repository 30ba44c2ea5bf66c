"""The pages of docs/reference/: one module for each, a function that returns its parts."""

from pa_spec.reference.page import pages

__all__ = ["pages"]
