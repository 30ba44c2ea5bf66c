"""Scheduling policies for continuous batching: order, budgets, packing."""

from pa_scheduler._version import __version__
from pa_scheduler.contract import IMPLEMENTS_CONTRACT
from pa_scheduler.decode_first import DecodeFirstPolicy
from pa_scheduler.packing import bucket_columns

__all__ = ["IMPLEMENTS_CONTRACT", "DecodeFirstPolicy", "__version__", "bucket_columns"]
