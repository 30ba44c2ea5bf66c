"""Calls of every instruction-set unit with all tensors between forbidden pages: a test's child.

    python guarded_calls.py (or "fault": commit one and die)

A wrong access ends this process, and the last line that it printed says in which call. What comes
back from one of the units, another one for each call, is compared with the oracle's, which had
ordinary memory.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from every_backend import KERNELS, LATENT, Kernel, bits, in_every_type, int32, with_inputs
from guarded_memory import PAGE, GuardedMemory, allow, forbid
from pa_kernels import signature_of
from pa_kernels.geometry import CallGeometry
from pa_kernels.testing import PagedProblem, ProblemOptions, random_paged_problem
from pa_kernels.testing.whole import random_whole_options
from pa_spec import PagedAttentionAttributes, PagedAttentionInputs, PagedAttentionOutputs
from torch import Tensor
from whole_problems import Examination

AT_END, AT_START = GuardedMemory(is_at_end=True), GuardedMemory(is_at_end=False)
INT_MAX, INT_MIN = 2**31 - 1, -(2**31)
WRITTEN = {"key_cache", "value_cache"}
FEATURES: dict[str, ProblemOptions] = {
    "decode": ProblemOptions(rows=((17, 1), (0, 1), (0, 0), (47, 1)), has_sink=True),
    "prefill": ProblemOptions(
        rows=((0, 37), (30, 5), (47, 1)), rotary_dim=16, rotary_offset=16, has_qk_norm=True
    ),
    "packed": ProblemOptions(rows=((15, 1), (3, 4)), is_packed=True, rotary_dim=32),
    "strided": ProblemOptions(rows=((15, 1), (3, 4)), is_strided=True, softcap=5.0),
    "window": ProblemOptions(rows=((90, 1), (70, 9)), window_tokens=20),
    "slots": ProblemOptions(rows=((9, 8), (33, 1)), has_slot_mapping=True, rotary_dim=8),
    "positions": ProblemOptions(rows=((9, 8), (33, 1)), has_query_positions=True, rotary_dim=8),
    "splits": ProblemOptions(rows=((700, 1), (300, 3)), num_heads=3, kv_num_heads=1),
    "size-8": ProblemOptions(rows=((15, 1), (0, 17)), head_size=8, has_qk_norm=True),
    "size-72": ProblemOptions(rows=((15, 1), (0, 17)), head_size=72, rotary_dim=40),
}
HOSTILE = ProblemOptions(rows=((40, 1), (20, 30), (63, 1)), num_heads=6, rotary_dim=16)
# Each pair of types reads and writes with code of its own; the rest is shared by all of them.
IN_EVERY_TYPE = ("prefill", "slots", "latent")
FEW_TYPES = ("float32", "bfloat16-int8-channel", "float16-fp8-channel")
RANDOM_PROBLEMS = 6
Change = Callable[[PagedProblem], PagedProblem]


def with_block_id(block_id: int | None) -> Change:
    """Replace ids of every row, used and unused ones; None: the first id behind the pool."""

    def change(problem: PagedProblem) -> PagedProblem:
        table = problem.inputs.block_table.clone()
        found = problem.inputs.key_cache.shape[0] if block_id is None else block_id
        for row in range(table.shape[0]):
            table[row, row] = found
        table[:, 3:] = found
        return with_inputs(problem, block_table=table)

    return change


def with_slots(problem: PagedProblem) -> PagedProblem:
    """Send the first tokens to slots that no pool has."""
    num_slots = problem.inputs.key_cache.shape[0] * problem.options.block_size
    slots = torch.arange(problem.inputs.query.shape[0], dtype=torch.int32)
    slots[:6] = int32(num_slots, INT_MAX, INT_MIN, -2, -1, num_slots + 15)
    return with_inputs(problem, slot_mapping=slots)


def with_bounds(*bounds: int) -> Change:
    """Promise lengths that the rows do not keep."""
    return lambda problem: with_inputs(problem, attention_metadata=int32(*bounds))


def with_full_rows(problem: PagedProblem) -> PagedProblem:
    """Cut the table after the block that the longest rows fill to the last slot."""
    columns = -(-64 // problem.options.block_size)
    wide = torch.full((3, columns + 5), 10**6, dtype=torch.int32)
    wide[:, :columns] = problem.inputs.block_table[:, :columns]
    return with_inputs(problem, block_table=wide[:, :columns])


def with_window(tokens: int) -> Change:
    """Ask for a window that reaches beyond the table."""

    def change(problem: PagedProblem) -> PagedProblem:
        attributes = replace(problem.attributes, local_window_size=tokens)
        return replace(with_full_rows(problem), attributes=attributes)

    return change


CHANGES: dict[str, Change] = {
    **{f"id {block_id}": with_block_id(block_id) for block_id in (-1, -7, INT_MAX, INT_MIN, None)},
    "slots": with_slots,
    "bounds too small": with_bounds(1, 1),
    "bounds unknown": with_bounds(0, 0, 0),
    "bounds too large": with_bounds(INT_MAX, INT_MAX, INT_MAX),
    "full rows": with_full_rows,
    "full rows, window": with_window(1000),
    "full rows, window of one": with_window(1),
}


def problems() -> Iterator[tuple[str, PagedProblem]]:
    """Yield every call with its name; what a unit does not serve is passed over later."""
    features = {**FEATURES, "latent": replace(LATENT, rows=((17, 1), (3, 20)))}
    for feature, options in features.items():
        for kind, typed in in_every_type(options).items():
            if kind in FEW_TYPES or feature in IN_EVERY_TYPE:
                yield f"{feature} {kind}", random_paged_problem(3, typed)
    for name, change in CHANGES.items():
        for kind, typed in in_every_type(HOSTILE).items():
            if kind in FEW_TYPES[:2]:
                yield f"{name} {kind}", change(random_paged_problem(5, typed))
    for seed in range(RANDOM_PROBLEMS):
        options = replace(random_whole_options(seed), has_bias=False, qk_output=0)
        yield f"random {seed}", random_paged_problem(seed, options)


@dataclass(frozen=True, slots=True)
class GuardedRun:
    """A kernel whose tensors lie between forbidden pages, and come back to ordinary memory.

    dead: blocks of the caches that nobody may touch.
    """

    kernel: Kernel
    memory: GuardedMemory
    dead: tuple[int, ...] = ()

    def __call__(
        self, inputs: PagedAttentionInputs[Tensor], attributes: PagedAttentionAttributes
    ) -> PagedAttentionOutputs[Tensor]:
        """Run a call on copies of its tensors, and copy what it wrote."""
        memory = self.memory
        placed: PagedAttentionInputs[Tensor] = PagedAttentionInputs(
            **{  # type: ignore[arg-type]
                name: None if tensor is None else memory.place(tensor, is_written=name in WRITTEN)
                for name, tensor in inputs.named()
            }
        )
        signature = signature_of(placed, attributes)
        shape = CallGeometry.of(signature).output_shape
        unwritten = torch.full(shape, torch.nan, dtype=placed.query.dtype)
        output = memory.place(unwritten, is_written=True)
        plan = self.kernel.backend.prepare(signature)
        caches = [
            (getattr(inputs, name), cache)
            for name in WRITTEN
            if (cache := getattr(placed, name)) is not None
        ]
        blocks = [cache[block] for _, cache in caches for block in self.dead]
        for block in blocks:
            forbid(block)
        plan.run(placed, PagedAttentionOutputs(output))
        for block in blocks:
            allow(block)
        found = PagedAttentionOutputs(output.clone())
        for ordinary, cache in caches:
            ordinary.copy_(cache)
        memory.reuse()
        return found


def run_guarded(name: str, problem: PagedProblem, kernel: Kernel) -> None:
    """Run a call on either side of the pages; both give the same bits."""
    outputs = []
    for side, memory in (("end", AT_END), ("start", AT_START)):
        sys.stdout.write(f"{name}, {kernel}, {side}\n")
        found = GuardedRun(kernel, memory)(problem.clone().inputs, problem.attributes)
        outputs.append(bits(found.output))
    if not torch.equal(*outputs):
        raise AssertionError("the place in memory changes the output")


def live_blocks(problem: PagedProblem) -> set[int]:
    """Return the blocks that some token's window reaches, or that it is stored in."""
    inputs, size = problem.inputs, problem.options.block_size
    new = inputs.cumulative_sequence_length.diff().tolist()
    live = set()
    for row, past in enumerate(inputs.past_seqlens.tolist()):
        oldest = max(0, past + 1 - problem.options.window_tokens) if new[row] else past
        columns = range(oldest // size, -(-(past + new[row]) // size))
        live |= {int(inputs.block_table[row, column]) for column in columns}
    return live


def run_with_dead_blocks(kind: str, options: ProblemOptions, kernel: Kernel) -> None:
    """Run with every block forbidden that the window has left."""
    itemsize = (options.cache_dtype or options.dtype).itemsize
    head_size = 128 // itemsize
    block_size = max(16, PAGE // (2 * head_size * itemsize))
    rows = ((9 * block_size, 1), (5 * block_size + 3, 20), (block_size, 1), (block_size - 1, 2))
    options = replace(
        options, head_size=head_size, block_size=block_size, rows=rows, window_tokens=block_size + 5
    )
    problem = random_paged_problem(2, options)
    if not kernel.serves(problem.signature):
        return
    sys.stdout.write(f"dead blocks {kind}, {kernel}\n")
    dead = set(range(problem.inputs.key_cache.shape[0])) - live_blocks(problem)
    if len(dead) < 6:
        raise AssertionError(f"only {dead} are dead")
    run = GuardedRun(kernel, AT_END, dead=tuple(dead))
    Examination(problem).examine(run, rounds_weights=True)


def commit_a_fault() -> None:
    """Read the first number behind a tensor."""
    tensor = AT_END.place(torch.zeros(3), is_written=False)
    sys.stdout.write("fault\n")
    sys.stdout.flush()
    ctypes.c_float.from_address(tensor.data_ptr() + 12).value.is_integer()


def main() -> None:
    """Run every call that a unit serves; print each before it runs."""
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    if sys.argv[1:] == ["fault"]:
        commit_a_fault()
        return
    kernels = [each for each in KERNELS if each.name.startswith("cpu-")]
    for number, (name, problem) in enumerate(problems()):
        serving = [each for each in kernels if each.serves(problem.signature)]
        for kernel in serving:
            run_guarded(name, problem, kernel)
        if serving:
            run = GuardedRun(serving[number % len(serving)], AT_END)
            Examination(problem).examine(run, rounds_weights=True)
    for number, (kind, typed) in enumerate(in_every_type(ProblemOptions()).items()):
        run_with_dead_blocks(kind, typed, kernels[number % len(kernels)])
        run_with_dead_blocks(kind, typed, kernels[(number + 1) % len(kernels)])
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main()
