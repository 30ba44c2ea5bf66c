"""What fits in a memory: exact integers, also where they are enormous."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pa_spec import ElementType, GroupKind, InputUnusable, StateGroup, StateManifest
from pa_spec.checker import FixedRow, LayerKind, LayerMeaning, ModelMeaning
from pa_spec.checker.capacity import capacity_of, parse_memory

FULL = LayerMeaning(LayerKind.ATTENTION, num_heads=4, kv_num_heads=2, head_size=8)
WINDOWED = replace(FULL, window=20)
FIXED = LayerMeaning(
    LayerKind.CONV, fixed=(FixedRow(GroupKind.FIXED_CONV, (4, 2), ElementType.FLOAT16),)
)
KEPT = StateManifest((StateGroup(GroupKind.PAGED_KV, (0,), (2, 8), ElementType.FLOAT16),))
# One token of one layer: 2 heads of 8 channels, keys and values, 2 bytes each.
TOKEN_BYTES = 2 * 8 * 2 * 2


def meaning(*layers: LayerMeaning, weight_bytes: int | None = None) -> ModelMeaning:
    return ModelMeaning(
        model_type="llama",
        architecture="LlamaForCausalLM",
        family="llama",
        vocab_size=10,
        hidden_size=32,
        context_tokens=1000,
        layers=layers,
        ropes=(),
        has_tied_embeddings=True,
        element_type=ElementType.FLOAT16,
        cache_element_type=ElementType.FLOAT16,
        manifest=KEPT,
        weight_bytes=weight_bytes,
    )


def test_sequence_takes_whole_blocks() -> None:
    capacity = capacity_of(meaning(FULL, FULL), 10 * 2 * 32 * TOKEN_BYTES, 17)

    assert capacity.full.kv_bytes == 2 * 32 * TOKEN_BYTES
    assert capacity.sequences == 10


def test_weights_are_subtracted() -> None:
    memory = 1000 + 16 * TOKEN_BYTES

    fits = capacity_of(meaning(FULL, weight_bytes=1000), memory, 16)
    does_not = capacity_of(meaning(FULL, weight_bytes=1001), memory, 16)

    assert (fits.sequences, does_not.sequences) == (1, 0)


def test_weights_that_do_not_fit_leave_room_for_nothing() -> None:
    capacity = capacity_of(meaning(FULL, weight_bytes=2**40), 2**30, 16)

    assert capacity.free_bytes < 0
    assert (capacity.sequences, capacity.ring_sequences) == (0, 0)


@pytest.mark.parametrize(
    ("changed", "obstacle"),
    [
        pytest.param(
            {"manifest": None}, "no state groups hold what its layers keep", id="no groups"
        ),
        pytest.param({"backends": {"a": "x", "b": "y"}}, "no backend serves it", id="refused"),
        pytest.param({"backends": {"a": "", "b": "y"}}, "", id="served by one"),
        pytest.param({"backends": {}}, "", id="nobody asked"),
    ],
)
def test_nothing_fits_that_cannot_be_served(changed: dict[str, Any], obstacle: str) -> None:
    capacity = capacity_of(replace(meaning(FULL), **changed), 4 * 16 * TOKEN_BYTES, 16)

    assert capacity.obstacle == obstacle
    assert capacity.full.kv_bytes == 16 * TOKEN_BYTES
    fit = 0 if obstacle else 4
    assert (capacity.sequences, capacity.ring_sequences) == (fit, fit)


@pytest.mark.parametrize(("window", "blocks"), [(1, 1), (17, 2), (18, 3), (33, 3), (34, 4)])
def test_ring_holds_a_window_and_a_chunk_without_the_token_that_both_count(
    window: int, blocks: int
) -> None:
    # E102: ceil((16 + window - 1) / 16) blocks.
    capacity = capacity_of(meaning(replace(FULL, window=window)), 2**30, 1600)

    assert capacity.ring.kv_bytes == blocks * 16 * TOKEN_BYTES


def test_windowed_layers_are_rings_only_where_that_is_asked() -> None:
    # E102: ceil((16 + 20 - 1) / 16) = 3 blocks.
    capacity = capacity_of(meaning(FULL, WINDOWED), 2**30, 160)

    assert capacity.full.kv_bytes == 2 * 160 * TOKEN_BYTES
    assert capacity.ring.kv_bytes == (160 + 3 * 16) * TOKEN_BYTES


def test_ring_is_never_longer_than_its_sequence() -> None:
    capacity = capacity_of(meaning(WINDOWED), 2**30, 16, chunk_tokens=2048)

    assert capacity.ring.kv_bytes == capacity.full.kv_bytes


def test_fixed_state_counts_twice() -> None:
    capacity = capacity_of(meaning(FULL, FIXED), 2**30, 16)

    assert capacity.full.fixed_bytes == 2 * 4 * 2 * 2
    assert capacity.full.total_bytes == 16 * TOKEN_BYTES + 32


def test_fixed_state_alone_limits_how_many_fit() -> None:
    capacity = capacity_of(meaning(FIXED), 320, 16)

    assert (capacity.full.kv_bytes, capacity.sequences) == (0, 10)


def test_model_without_any_state_fits_no_number() -> None:
    assert capacity_of(meaning(LayerMeaning(LayerKind.NONE)), 2**30, 16).sequences == 0


def test_enormous_numbers_stay_exact() -> None:
    capacity = capacity_of(meaning(FULL), 2**62, 2**62)

    assert capacity.full.kv_bytes == 2**62 * TOKEN_BYTES
    assert capacity.sequences == 0


@pytest.mark.parametrize(
    ("memory", "length", "block_size"), [(0, 1, 16), (1, 0, 16), (1, 1, 0), (1, -1, 16)]
)
def test_numbers_that_are_not_positive_are_refused(
    memory: int, length: int, block_size: int
) -> None:
    with pytest.raises(InputUnusable, match="allowed: a positive number"):
        capacity_of(meaning(FULL), memory, length, block_size)


@given(st.integers(1, 2**50), st.integers(1, 5000), st.sampled_from([16, 32, 256]))
def test_what_fits_fits_and_one_more_does_not(memory: int, length: int, block_size: int) -> None:
    capacity = capacity_of(meaning(FULL, WINDOWED), memory, length, block_size)

    for count, cost in (
        (capacity.sequences, capacity.full),
        (capacity.ring_sequences, capacity.ring),
    ):
        assert count * cost.total_bytes <= memory < (count + 1) * cost.total_bytes
    assert capacity.sequences <= capacity.ring_sequences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("24GiB", 24 * 2**30),
        ("80GB", 80 * 10**9),
        ("512MiB", 512 * 2**20),
        ("1.5 GiB", 3 * 2**29),
        ("0.1GB", 10**8),
        ("100", 100),
        ("7kb", 7000),
        ("2TiB", 2**41),
        ("3g", 3 * 10**9),
    ],
)
def test_amounts_of_memory_are_read_exactly(text: str, expected: int) -> None:
    assert parse_memory(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "GiB", "-1GiB", "1e3", "24 GiB x", "nan", "inf", "0", "9" * 30, "4TiBB", "\u0661"],
)
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(InputUnusable):
        parse_memory(text)


def test_more_memory_than_there_can_be_is_refused() -> None:
    with pytest.raises(InputUnusable, match="at most 4611686018427387904 bytes"):
        parse_memory("9999999999TiB")
