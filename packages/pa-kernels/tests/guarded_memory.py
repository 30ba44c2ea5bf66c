"""Tensors that end where a page begins that nobody may touch: a wrong access ends the process."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections import defaultdict

import torch
from torch import Tensor

PAGE = mmap.PAGESIZE
NOTHING, READ, READ_AND_WRITE = 0, mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE

_LIBRARY = ctypes.CDLL(None, use_errno=True)


class GuardedMemory:
    """Places for copies of tensors.

    is_at_end: tensors end at the forbidden page behind them; otherwise they begin after the one
    before them. Either way the first byte outside, on that side, is forbidden. Life cycle: `place`
    any number of times, `reuse` when none of the copies is needed any more, and again.
    """

    def __init__(self, *, is_at_end: bool) -> None:
        self._is_at_end = is_at_end
        self._memory: list[mmap.mmap] = []  # mapped as long as this object lives
        self._free: dict[int, list[int]] = defaultdict(list)  # addresses by size
        self._taken: list[tuple[int, int]] = []
        self._read_only: list[tuple[int, int]] = []

    def place(self, tensor: Tensor, *, is_written: bool) -> Tensor:
        """Return a copy with the same strides between forbidden pages.

        is_written: whether it may be written; other copies may only be read.
        """
        if tensor.numel() == 0:
            return tensor
        steps = zip(tensor.shape, tensor.stride(), strict=True)
        elements = 1 + sum((extent - 1) * stride for extent, stride in steps)
        size = elements * tensor.element_size()
        inner = -(-size // PAGE) * PAGE
        begin = self._free[inner].pop() if self._free[inner] else self._map(inner)
        self._taken.append((inner, begin))
        first = begin + (inner - size if self._is_at_end else 0)
        flat = torch.frombuffer((ctypes.c_uint8 * size).from_address(first), dtype=torch.uint8)
        placed = flat.view(tensor.dtype).as_strided(tensor.shape, tensor.stride())
        placed.copy_(tensor)
        if not is_written:
            _protect(begin, inner, READ)
            self._read_only.append((begin, inner))
        return placed

    def reuse(self) -> None:
        """Take all places back."""
        for begin, inner in self._read_only:
            _protect(begin, inner, READ_AND_WRITE)
        for inner, begin in self._taken:
            self._free[inner].append(begin)
        self._read_only, self._taken = [], []

    def _map(self, inner: int) -> int:
        memory = mmap.mmap(-1, inner + 2 * PAGE)
        self._memory.append(memory)
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        _protect(base, PAGE, NOTHING)
        _protect(base + PAGE + inner, PAGE, NOTHING)
        return base + PAGE


def forbid(tensor: Tensor) -> None:
    """Forbid every access to a contiguous tensor of GuardedMemory that fills whole pages."""
    size = tensor.numel() * tensor.element_size()
    if tensor.data_ptr() % PAGE or size % PAGE or not tensor.is_contiguous():
        raise ValueError(f"no whole pages: {size} bytes at {tensor.data_ptr():#x}")
    _protect(tensor.data_ptr(), size, NOTHING)


def allow(tensor: Tensor) -> None:
    """Take `forbid` back."""
    _protect(tensor.data_ptr(), tensor.numel() * tensor.element_size(), READ_AND_WRITE)


def _protect(address: int, size: int, allowed: int) -> None:
    if _LIBRARY.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), allowed) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"mprotect: {os.strerror(code)} ({errno.errorcode.get(code)})")
