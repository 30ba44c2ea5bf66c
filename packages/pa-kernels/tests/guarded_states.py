"""Calls of the state operators with all tensors between forbidden pages: a child of a test.

    python guarded_states.py

A wrong access ends this process, and the last line that it printed says in which call. Results are
compared with the oracle's, which had ordinary memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from itertools import product
from typing import Any, TypeVar

import torch
from guarded_memory import GuardedMemory
from pa_kernels import CausalConvInputs, GatedDeltaNetInputs, StatePool
from pa_kernels.state.backend import ReferenceStates, StateBackend
from pa_kernels.state.inputs import GatedDeltaNetAttributes, StateOutputs
from pa_kernels.testing import expect_close
from pa_spec import InputUnusable
from state_problem import (
    COMPILED,
    DTYPES,
    ConvOptions,
    DeltaOptions,
    in_pool,
    int32,
    random_conv,
    random_delta,
)
from torch import Tensor

Inputs = TypeVar("Inputs", CausalConvInputs, GatedDeltaNetInputs)

MEMORIES = {
    "end": GuardedMemory(is_at_end=True),
    "start": GuardedMemory(is_at_end=False),
}
READ, WRITE, SLOTS = (5, 0, -1, 3, 9), (4, 0, 2, -1, 9), 5
OUTSIDE = (-2, 2 * SLOTS, 2**31 - 1, -(2**31))
BAD_BOUNDARIES = ((1, 2, 3, 4, 5, 6), (0, 9, 3, 4, 5, 6), (0, 2**31 - 1, 3, 4, 5, 6), (0,) * 6)


def conv_cases() -> Iterator[tuple[str, CausalConvInputs]]:
    """Yield convolutions of every size of channels, taps and type."""
    for dtype in DTYPES:
        for channels, taps in ((70, 4), (8, 2), (1, 3), (33, 1)):
            own = ConvOptions(channels=channels, taps=taps, dtype=dtype, has_bias=channels > 8)
            inputs = random_conv(1, own)
            name = f"conv {dtype} {channels} {taps}"
            yield name, inputs
            yield f"{name} from zeros", replace(inputs, initial_state=None)
            yield f"{name} strided", replace(inputs, input=widened(inputs.input))
            if taps > 1:
                assert inputs.initial_state is not None
                pool = in_pool(inputs.initial_state, SLOTS, READ, WRITE)
                yield f"{name} pool", replace(inputs, initial_state=None, pool=pool)


def delta_cases() -> Iterator[tuple[str, GatedDeltaNetInputs]]:
    """Yield delta rules of every size of heads and type, in chunks and in steps."""
    for dtype in DTYPES:
        for key_size, value_size in ((24, 20), (8, 8), (128, 64), (5, 3)):
            own = DeltaOptions(
                tokens=(3, 0, 1, 70, 4),
                key_size=key_size,
                value_size=value_size,
                dtype=dtype,
                has_rates=key_size == 8,
            )
            inputs = random_delta(2, own)
            name = f"delta {dtype} {key_size} {value_size}"
            yield name, inputs
            strided = replace(
                inputs,
                query=widened(inputs.query),
                key=widened(inputs.key),
                value=widened(inputs.value),
                initial_state=None,
            )
            yield f"{name} strided from zeros", strided
            assert inputs.initial_state is not None
            pool = in_pool(inputs.initial_state, SLOTS, READ, WRITE)
            yield f"{name} pool", replace(inputs, initial_state=None, pool=pool)


def widened(tensor: Tensor) -> Tensor:
    """Return the same numbers as the beginning of longer rows."""
    flat = tensor.flatten(1)
    wide = torch.cat((flat, torch.full_like(flat[:, :3], torch.nan)), dim=1)
    shape, row = tensor.shape, wide.shape[1]
    inner = tensor.stride()[1:]
    return wide.as_strided(shape, (row, *inner))


def guarded(inputs: Inputs, memory: GuardedMemory) -> Inputs:
    """Return the call with every tensor between forbidden pages; only states can be written."""
    placed: dict[str, Any] = {}
    for field in fields(inputs):
        value = getattr(inputs, field.name)
        if isinstance(value, Tensor):
            placed[field.name] = memory.place(value, is_written=False)
        elif value is not None:
            numbers = (memory.place(each, is_written=False) for each in row_numbers(value))
            placed[field.name] = StatePool(memory.place(value.states, is_written=True), *numbers)
    return replace(inputs, **placed)


def row_numbers(pool: StatePool) -> tuple[Tensor, Tensor]:
    """Return the row numbers of a pool."""
    return pool.read_rows, pool.write_rows


def cloned(inputs: Inputs) -> Inputs:
    """Return the call with a pool of its own."""
    if inputs.pool is None:
        return inputs
    return replace(inputs, pool=replace(inputs.pool, states=inputs.pool.states.clone()))


def run(backend: StateBackend, inputs: CausalConvInputs | GatedDeltaNetInputs) -> StateOutputs:
    """Run either operator."""
    if isinstance(inputs, CausalConvInputs):
        return backend.causal_conv(inputs, "silu")
    return backend.gated_delta_net(inputs, GatedDeltaNetAttributes(qk_l2norm=True))


def examine(name: str, inputs: Inputs) -> None:
    """Compare a call of every unit with the oracle's, on both sides."""
    wanted_inputs = cloned(inputs)
    wanted = run(ReferenceStates(), wanted_inputs)
    for (unit, backend), (side, memory) in product(COMPILED.items(), MEMORIES.items()):
        sys.stdout.write(f"{name}, {unit}, {side}\n")
        own = guarded(inputs, memory)
        found = run(backend, own)
        expect_close(found.output, wanted.output)
        if found.final_state is not None and wanted.final_state is not None:
            expect_close(found.final_state, wanted.final_state, inputs_type(inputs))
        if own.pool is not None and wanted_inputs.pool is not None:
            expect_close(own.pool.states, wanted_inputs.pool.states, inputs_type(inputs))
        memory.reuse()


def inputs_type(inputs: CausalConvInputs | GatedDeltaNetInputs) -> torch.dtype:
    """Return the element type that decides how close is close."""
    return inputs.input.dtype if isinstance(inputs, CausalConvInputs) else inputs.query.dtype


def expect_refusal(backend: StateBackend, name: str, inputs: Inputs) -> None:
    """Demand that numbers which address nothing are refused, and that no state changes."""
    sys.stdout.write(f"{name}\n")
    memory = MEMORIES["end"]
    own = guarded(inputs, memory)
    try:
        run(backend, own)
    except InputUnusable:
        assert own.pool is not None
        assert inputs.pool is not None
        if not torch.equal(own.pool.states.nan_to_num(9), inputs.pool.states.nan_to_num(9)):
            raise AssertionError("a refused call changed a state") from None
    else:
        raise AssertionError("accepted")
    memory.reuse()


def refuse_all(backend: StateBackend, make: Callable[[], Inputs]) -> None:
    """Try every number that addresses nothing."""
    for outside in OUTSIDE:
        for field in ("read_rows", "write_rows"):
            inputs = make()
            assert inputs.pool is not None
            pool = replace(inputs.pool, **{field: int32(0, 1, outside, 3, 4)})
            expect_refusal(backend, f"{field} {outside}", replace(inputs, pool=pool))
    for ends in BAD_BOUNDARIES:
        changed = replace(make(), cumulative_sequence_length=int32(*ends))
        expect_refusal(backend, f"boundaries {ends}", changed)


def main() -> None:
    """Run every call on every unit; print each before it runs."""
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    for name, conv in conv_cases():
        examine(name, conv)
    for name, delta in delta_cases():
        examine(name, delta)
    pooled_conv = next(each for name, each in conv_cases() if name.endswith("pool"))
    pooled_delta = next(each for name, each in delta_cases() if name.endswith("pool"))
    for backend in COMPILED.values():
        refuse_all(backend, lambda: cloned(pooled_conv))
        refuse_all(backend, lambda: cloned(pooled_delta))
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main()
