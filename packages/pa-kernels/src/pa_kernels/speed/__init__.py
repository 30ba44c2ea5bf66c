"""What `python -m pa_kernels.bench` is made of: workloads, peers, time, verdicts."""

from pa_kernels.speed.case import Case, Limit, all_cases, type_name
from pa_kernels.speed.layers import last_level_cache_bytes, make_layers
from pa_kernels.speed.machine import Machine
from pa_kernels.speed.measurement import Measurement, measure
from pa_kernels.speed.timing import Budget, interleave
from pa_kernels.speed.torch_path import dense_attention, gather_and_attend
from pa_kernels.speed.verdict import Verdict, verdict_table, verdicts

__all__ = [
    "Budget",
    "Case",
    "Limit",
    "Machine",
    "Measurement",
    "Verdict",
    "all_cases",
    "dense_attention",
    "gather_and_attend",
    "interleave",
    "last_level_cache_bytes",
    "make_layers",
    "measure",
    "type_name",
    "verdict_table",
    "verdicts",
]
