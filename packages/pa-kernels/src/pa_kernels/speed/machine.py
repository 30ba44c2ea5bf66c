"""What figures depend on beside the code: the machine, and whether it has other work."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch

from pa_kernels.speed.layers import last_level_cache_bytes

_IDLE_LOAD = 0.7
"""Load of the last minute that is left of whatever prepared the run."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Sizes of the machine when a run begins. load: runnable threads over the last minute."""

    cores: int
    threads: int
    last_level_cache_bytes: int
    torch_version: str
    load: float

    @classmethod
    def here(cls) -> Machine:
        """Look at this machine."""
        return cls(
            cores=os.cpu_count() or 1,
            threads=torch.get_num_threads(),
            last_level_cache_bytes=last_level_cache_bytes(),
            torch_version=torch.__version__,
            load=round(os.getloadavg()[0], 2),
        )

    def warning(self, load_at_end: float) -> str:
        """Return a sentence where other work has run beside the benchmark, "" where none has."""
        if self.load <= _IDLE_LOAD and load_at_end <= self.threads + _IDLE_LOAD:
            return ""
        loads = f"{self.load:.1f} before the run and {load_at_end:.1f} behind it"
        return f"load {loads} on {self.cores} cores: other work has disturbed these figures"
