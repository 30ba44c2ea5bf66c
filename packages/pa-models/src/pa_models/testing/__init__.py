"""Tiny random checkpoints and a paged cache made by hand: for tests, examples and benchmarks."""

from pa_models.testing.paged_run import PagedRun
from pa_models.testing.tiny_checkpoint import (
    random_tensors,
    tiny_config,
    tiny_tokenizer,
    write_checkpoint,
)
from pa_models.testing.tiny_gguf import write_gguf

__all__ = [
    "PagedRun",
    "random_tensors",
    "tiny_config",
    "tiny_tokenizer",
    "write_checkpoint",
    "write_gguf",
]
