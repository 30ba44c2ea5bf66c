"""A window in ceil(W / S) + 1 blocks, recycled, against a cache that keeps everything.

Method: sequences that begin at different steps grow one token a step. Run one stores derived slots
into a full table; run two has the ring of contract section 8.8 only, slots by slot_mapping and -1
where a block has been left. Outputs must be the same bits at every step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
import torch
from every_backend import (
    KERNELS,
    LATENT,
    Kernel,
    bits,
    each_eligible,
    in_every_type,
    int32,
    with_inputs,
)
from pa_kernels.testing import PagedProblem, ProblemOptions, random_paged_problem
from torch import Tensor

STEPS = 66
DELAYS = (0, 9, 30)
"""Steps at which the sequences begin, so that batches mix lengths and rows without tokens."""
CHUNK = 19
PREFILL_STEPS = (3, 30, 51)
"""Steps in which a further row, whose table is full in both runs, takes a chunk of a prompt."""

ROLLING = ProblemOptions(window_tokens=20)
CASES: Mapping[str, ProblemOptions] = (
    in_every_type(ROLLING)
    | {f"window-{w}": replace(ROLLING, window_tokens=w) for w in (1, 15, 16, 17, 32)}
    | {
        "window-beyond-every-length": replace(ROLLING, window_tokens=STEPS + 60),
        "sink-softcap": replace(ROLLING, has_sink=True, softcap=5.0),
        "rope-norm": replace(ROLLING, rotary_dim=16, has_qk_norm=True, window_tokens=31),
        "sink-softcap-rope-fp8": replace(
            ROLLING,
            has_sink=True,
            softcap=5.0,
            rotary_dim=16,
            cache_dtype=torch.float8_e4m3fn,
            quant_type="PER_CHANNEL",
        ),
        "latent": replace(LATENT, window_tokens=20),
        "latent-fp8": replace(
            LATENT,
            window_tokens=20,
            cache_dtype=torch.float8_e4m3fn,
            quant_type="PER_TENSOR",
        ),
    }
)


ORACLE = ("float32", "float32-int8-channel", "latent-fp8")


@dataclass(frozen=True)
class Sequences:
    """Every token of every row; base holds what all steps share (scales, sinks, rotary tables)."""

    base: PagedProblem
    tokens: tuple[Mapping[str, Tensor], ...]
    columns: int
    ring_blocks: int

    def lengths(self, step: int) -> list[tuple[int, int]]:
        """Return (past, new) of every row in a step."""
        done = sum(each < step for each in PREFILL_STEPS)
        return [
            *((max(0, step - delay), int(step >= delay)) for delay in DELAYS),
            (CHUNK * done, CHUNK if step in PREFILL_STEPS else 0),
        ]

    def caches(self, num_blocks: int) -> dict[str, Tensor]:
        """Return caches in which every slot is junk: NaN, and -1 of int8."""
        made = {}
        for name in ("key_cache", "value_cache"):
            cache = getattr(self.base.inputs, name)
            if cache is not None:
                made[name] = torch.empty((num_blocks, *cache.shape[1:]), dtype=cache.dtype)
                made[name].view(torch.uint8).fill_(0xFF)
        return made

    def step(self, step: int, **memory: Tensor) -> PagedProblem:
        """Return one step's call; memory: caches, block_table and perhaps slot_mapping."""
        lengths = self.lengths(step)
        parts = [
            {name: rows[past : past + new] for name, rows in tokens.items()}
            for tokens, (past, new) in zip(self.tokens, lengths, strict=True)
        ]
        drawn = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        return with_inputs(
            self.base,
            **drawn,
            cumulative_sequence_length=int32(0, *(new for _, new in lengths)).cumsum(0).int(),
            past_seqlens=int32(*(past for past, _ in lengths)),
            **memory,
        )

    def full_table(self) -> Tensor:
        """Return blocks of their own for every column of every row."""
        rows = len(self.tokens)
        return torch.arange(rows * self.columns - 1, -1, -1, dtype=torch.int32).view(rows, -1)

    def ring_memory(self, step: int) -> tuple[Tensor, Tensor]:
        """Return the table with only live blocks, and the slots of the step's tokens."""
        options, count = self.base.options, self.ring_blocks
        size, window = options.block_size, options.window_tokens
        table = torch.full((len(self.tokens), self.columns), -1, dtype=torch.int32)
        slots = []
        for row, (past, new) in enumerate(self.lengths(step)):
            is_ring = row < len(DELAYS)
            first = max(0, past - window + 1) // size if is_ring else 0
            for column in range(first, -(-(past + new) // size)):
                # The rings lie behind each other, then the blocks of the row with a full table.
                place = column % count if is_ring else column
                table[row, column] = row * count + place
            slots += [int(table[row, p // size]) * size + p % size for p in range(past, past + new)]
        return table, int32(*slots)


def sequences(options: ProblemOptions) -> Sequences:
    base = random_paged_problem(3, replace(options, rows=((STEPS + 8, 1),)))
    generator = torch.Generator().manual_seed(5)
    names = ("query", "key", "value")[: 2 if options.v_head_size else 3]
    widths = {"query": options.num_heads * options.head_size}
    tokens = tuple(
        {
            name: torch.randn(
                STEPS,
                widths.get(name, options.kv_num_heads * options.head_size),
                generator=generator,
            ).to(options.dtype)
            for name in names
        }
        for _ in range(len(DELAYS) + 1)
    )
    size = options.block_size
    # Contract section 8.8: ceil(W / S) + 1 blocks for each ring.
    return Sequences(base, tokens, -(-STEPS // size), -(-options.window_tokens // size) + 1)


def expect_the_same_bits_at_every_step(all_rows: Sequences, kernel: Kernel) -> None:
    table = all_rows.full_table()
    full = all_rows.caches(table.numel())
    rings = len(DELAYS) * all_rows.ring_blocks
    rolling = all_rows.caches(rings + all_rows.columns)
    for step in range(STEPS):
        live, slots = all_rows.ring_memory(step)
        calls = (
            all_rows.step(step, block_table=table, **full),
            all_rows.step(step, block_table=live, slot_mapping=slots, **rolling),
        )

        outputs = [kernel.output(call) for call in calls]

        assert torch.equal(bits(outputs[0]), bits(outputs[1])), step
        assert outputs[0].isfinite().all(), step


@each_eligible(CASES, ORACLE)
def test_a_recycled_ring_gives_the_bits_of_the_full_cache_at_every_decode_step(
    options: ProblemOptions, kernel: Kernel
) -> None:
    # The row with a full table has no tokens in most steps; beside its chunks the others decode.
    expect_the_same_bits_at_every_step(sequences(options), kernel)


def test_these_rings_are_recycled_and_most_lengths_pass_the_window() -> None:
    for name, options in CASES.items():
        rows = sequences(options)
        is_short = options.window_tokens > STEPS
        table, slots = rows.ring_memory(STEPS - 1)

        assert (rows.ring_blocks < rows.columns) is not is_short, name
        assert bool((table[0] == -1).any()) is not is_short, name
        assert int(slots.max()) < len(DELAYS) * rows.ring_blocks * options.block_size, name
        assert [new for _, new in rows.lengths(STEPS - 1)] == [1, 1, 1, 0]
        assert [new for _, new in rows.lengths(PREFILL_STEPS[-1])] == [1, 1, 1, CHUNK]


@pytest.mark.parametrize("kernel", KERNELS[:1], ids=str)
def test_a_ring_that_is_smaller_than_the_window_is_noticed(kernel: Kernel) -> None:
    # Position 32 overwrites position 0, which a window of 33 still sees.
    whole = sequences(replace(ROLLING, window_tokens=33))

    with pytest.raises(AssertionError, match=r"^32\b"):
        expect_the_same_bits_at_every_step(replace(whole, ring_blocks=2), kernel)
