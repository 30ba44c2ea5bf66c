from __future__ import annotations

import pytest
from pa_spec import (
    ContractViolation,
    ElementType,
    GroupKind,
    StateGroup,
    StateManifest,
    check_manifest,
)


def paged(*layers: int, row: tuple[int, ...] = (2, 64), caches: int = 2) -> StateGroup:
    return StateGroup(GroupKind.PAGED_KV, layers, row, ElementType.BFLOAT16, caches)


CONV = StateGroup(GroupKind.FIXED_CONV, (1, 2), (8, 3), ElementType.FLOAT32, 1)


@pytest.mark.spec("E6", "V82")
def test_one_paged_group_with_fixed_groups_beside_it_passes() -> None:
    check_manifest(StateManifest((CONV, paged(0, 3))), num_layers=4)
    check_manifest(StateManifest((paged(7, row=(1, 576), caches=1),)))


@pytest.mark.spec("E6")
@pytest.mark.rule("V82")
@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ((), "state_groups: expected exactly one group of kind paged_kv, got 0 of them (V82)"),
        ((CONV,), "state_groups: expected exactly one group of kind paged_kv, got 0 of them (V82)"),
        (
            (paged(0), paged(1)),
            "state_groups: expected exactly one group of kind paged_kv, got 2 of them (V82)",
        ),
        (
            (paged(0, row=(2, 0)),),
            (
                "row_shape: expected at least one cache and extents of at least 1, "
                "got paged_kv: 2 caches of rows [2, 0] (V82)"
            ),
        ),
        (
            (paged(0, row=()),),
            (
                "row_shape: expected at least one cache and extents of at least 1, "
                "got paged_kv: 2 caches of rows [] (V82)"
            ),
        ),
        (
            (paged(0, caches=0),),
            (
                "row_shape: expected at least one cache and extents of at least 1, "
                "got paged_kv: 0 caches of rows [2, 64] (V82)"
            ),
        ),
    ],
)
def test_groups_that_no_cache_can_hold_are_refused(
    groups: tuple[StateGroup, ...], message: str
) -> None:
    check_manifest(StateManifest((paged(0, row=(1, 1), caches=1),)))

    with pytest.raises(ContractViolation) as caught:
        check_manifest(StateManifest(groups))

    assert str(caught.value) == message


@pytest.mark.rule("V77")
@pytest.mark.parametrize(
    ("layers", "legal", "message"),
    [
        ((), (0,), "expected at least one layer id, got paged_kv: []"),
        ((-1,), (0,), "expected layer ids from 0 to 3, got paged_kv: [-1]"),
        ((4,), (3,), "expected layer ids from 0 to 3, got paged_kv: [4]"),
        ((0, 0), (0, 1), "expected each layer id once, got paged_kv: [0, 0]"),
    ],
)
def test_layers_that_are_not_there_or_twice_are_refused(
    layers: tuple[int, ...], legal: tuple[int, ...], message: str
) -> None:
    check_manifest(StateManifest((paged(*legal),)), num_layers=4)

    with pytest.raises(ContractViolation) as caught:
        check_manifest(StateManifest((paged(*layers),)), num_layers=4)

    assert str(caught.value) == f"layer_ids: {message} (V77)"
