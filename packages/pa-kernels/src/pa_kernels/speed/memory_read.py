"""Plain reads of a layer's memory: how fast they can be, as far as Python reaches."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from pa_kernels.speed.timing import Work


def read_works(memory: Sequence[Tensor], pool: ThreadPoolExecutor) -> dict[str, Work]:
    """Return ways to read all bytes of a layer; the fastest is the one compared.

    memory: [n] int64 each, because the same bits as floats may be NaN or denormals, which cost
    some processors time. pool: with as many threads as torch has.
    """
    threads = torch.get_num_threads()
    floats = [each.view(torch.float32) for each in memory]
    parts = [np.array_split(each.numpy(), threads) for each in memory]
    count = len(memory)
    return {
        "sum of int64": lambda turn: memory[turn % count].sum(),
        "sum of float32": lambda turn: floats[turn % count].sum(),
        "maximum of int64": lambda turn: memory[turn % count].amax(),
        "or in threads": lambda turn: list(pool.map(np.bitwise_or.reduce, parts[turn % count])),
    }
