from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pa_cache import (
    CacheGeometry,
    PagedCacheManager,
    block_bytes,
    blocks_for_budget,
    plan_geometry,
    sizing,
)
from pa_spec import (
    ElementType,
    EngineConfig,
    GroupKind,
    InputUnusable,
    StateGroup,
    StateManifest,
)

# Two layers of 4 heads of 8 numbers, key and value, 16 slots of 2 bytes: 4096 B a block.
GROUP = StateGroup(GroupKind.PAGED_KV, (0, 3), (4, 8), ElementType.FLOAT16)
MANIFEST = StateManifest((GROUP,))
STATELESS = StateManifest(())
BLOCK_BYTES = 4096


def group(**changes: object) -> StateManifest:
    values = {name: getattr(GROUP, name) for name in GROUP.__slots__} | changes
    return StateManifest((StateGroup(**values),))


def test_a_block_holds_keys_and_values_of_all_layers() -> None:
    assert block_bytes(MANIFEST, 16) == BLOCK_BYTES
    assert block_bytes(MANIFEST, 64) == 4 * BLOCK_BYTES
    assert block_bytes(STATELESS, 16) == 0


def test_a_block_counts_values_of_another_width_and_caches_without_values() -> None:
    assert block_bytes(group(v_head_size=24), 16) == BLOCK_BYTES // 16 * (8 + 24)
    assert block_bytes(group(v_head_size=4, caches_per_layer=1), 16) == BLOCK_BYTES // 2


@given(st.integers(BLOCK_BYTES, 2**40))
def test_a_budget_holds_as_many_whole_blocks_as_fit(budget_bytes: int) -> None:
    blocks = blocks_for_budget(MANIFEST, 16, budget_bytes)

    assert blocks * BLOCK_BYTES <= budget_bytes < (blocks + 1) * BLOCK_BYTES


def test_a_budget_below_one_block_names_both_numbers() -> None:
    with pytest.raises(InputUnusable) as refused:
        blocks_for_budget(MANIFEST, 16, 1000)

    assert str(refused.value) == (
        "memory_budget_bytes: 1000 B holds 0 blocks of 4096 B; allowed: at least 4096 B"
    )


def test_a_budget_for_a_decoder_without_paged_state_is_refused() -> None:
    with pytest.raises(InputUnusable, match="memory_budget_bytes: the decoder has no paged_kv"):
        plan_geometry(STATELESS, EngineConfig(memory_budget_bytes=2**20), 100)


def test_a_given_number_of_blocks_is_taken_and_bounds_the_tables() -> None:
    config = EngineConfig(num_blocks=7, max_batch_size=3)

    assert plan_geometry(MANIFEST, config, 100) == CacheGeometry(7, 16, 3, 7)
    assert plan_geometry(MANIFEST, config, 50) == CacheGeometry(7, 16, 3, 4)


def test_tables_are_as_wide_as_the_session_limit() -> None:
    config = EngineConfig(num_blocks=90, max_session_tokens=33)

    assert plan_geometry(MANIFEST, config, 1000).table_columns == 3
    assert plan_geometry(MANIFEST, config, 5).table_columns == 1


def test_a_budget_decides_the_number_of_blocks() -> None:
    config = EngineConfig(memory_budget_bytes=10 * BLOCK_BYTES + 5)

    assert plan_geometry(MANIFEST, config, 1000).num_blocks == 10


def test_blocks_over_the_budget_are_refused_with_all_numbers() -> None:
    config = EngineConfig(num_blocks=11, memory_budget_bytes=10 * BLOCK_BYTES)

    with pytest.raises(InputUnusable) as refused:
        plan_geometry(MANIFEST, config, 1000)

    assert str(refused.value) == (
        "num_blocks: 11 blocks of 4096 B need 45056 B, memory_budget_bytes is 40960 B; "
        "allowed: at most 10 blocks"
    )


def test_an_automatic_pool_is_what_a_full_batch_of_full_sessions_uses() -> None:
    config = EngineConfig(max_batch_size=3, max_session_tokens=33)

    assert plan_geometry(MANIFEST, config, 1000).num_blocks == 9
    assert plan_geometry(STATELESS, config, 1000).num_blocks == 9


def test_an_automatic_pool_takes_a_share_of_the_free_memory_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sizing, "available_bytes", lambda device: 20 * BLOCK_BYTES)

    assert plan_geometry(MANIFEST, EngineConfig(), 100_000).num_blocks == 10


def test_no_memory_for_one_block_is_refused_with_all_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sizing, "available_bytes", lambda device: 5000)

    with pytest.raises(InputUnusable) as refused:
        plan_geometry(MANIFEST, EngineConfig(), 100)

    assert str(refused.value) == (
        "memory of cpu: 2500 B (50% of 5000 B free) holds 0 blocks of 4096 B; "
        "allowed: more memory, a smaller block_size, or num_blocks"
    )


def test_the_free_memory_of_this_machine_is_a_plausible_number() -> None:
    assert 2**20 < sizing.available_bytes() < 2**50


@pytest.mark.spec("E2")
def test_several_paged_groups_are_refused() -> None:
    with pytest.raises(InputUnusable, match=r"2 paged_kv groups; allowed: exactly one \(E2\)"):
        block_bytes(StateManifest((GROUP, GROUP)), 16)


@pytest.mark.parametrize(
    "changes",
    [{"row_shape": (8,)}, {"row_shape": (0, 8)}, {"layer_ids": ()}, {"caches_per_layer": 3}],
)
def test_a_group_without_a_usable_geometry_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InputUnusable, match=r"manifest\.paged_kv"):
        block_bytes(group(**changes), 16)


@pytest.mark.parametrize(
    ("sizes", "named"),
    [
        ((0, 16, 1, 1), "num_blocks"),
        ((1, 24, 1, 1), "block_size"),
        ((1, 8, 1, 1), "block_size"),
        ((1, 16, 0, 1), "max_batch_size"),
        ((1, 16, 1, 0), "table_columns"),
    ],
)
def test_a_size_outside_its_range_is_refused_by_name(
    sizes: tuple[int, int, int, int], named: str
) -> None:
    with pytest.raises(InputUnusable, match=named):
        CacheGeometry(*sizes)


def test_a_context_of_no_token_is_refused() -> None:
    with pytest.raises(InputUnusable, match="context_length: 0; allowed: an integer from 1"):
        plan_geometry(MANIFEST, EngineConfig(num_blocks=1), 0)


def test_a_sequence_can_be_as_long_as_table_and_pool_allow() -> None:
    assert PagedCacheManager(CacheGeometry(9, 16, 1, 4)).max_sequence_tokens == 64
    assert PagedCacheManager(CacheGeometry(3, 16, 1, 4)).max_sequence_tokens == 48
