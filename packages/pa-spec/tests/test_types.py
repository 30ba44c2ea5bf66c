"""Small promises of the boundary types: element types, state, plans, signatures, protocols."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from pa_spec import (
    NO_TURN,
    UNMAPPED,
    Decoder,
    ElementType,
    GroupKind,
    ModelExecutor,
    SchedulerPolicy,
    StateGroup,
    StateManifest,
    StepCache,
    StepObserver,
    StepPlan,
    StepReservation,
    operator_inputs,
)
from pa_spec.testing import example_call


def test_element_types_know_their_width() -> None:
    widths = {each.value: each.itemsize for each in ElementType}

    for name in ("float32", "float16", "int8", "uint8", "int32", "int64", "float64", "bool"):
        assert widths[name] == np.dtype(name).itemsize
    assert (widths["bfloat16"], widths["float8e4m3fn"]) == (2, 1)


def test_row_bytes_count_layers_caches_and_elements() -> None:
    group = StateGroup(GroupKind.PAGED_KV, (0, 2, 5), (3, 64), ElementType.BFLOAT16)
    latent = StateGroup(GroupKind.PAGED_KV, (0,), (1, 576), ElementType.FLOAT16, 1, 512)

    assert group.row_bytes == 3 * 2 * 3 * 64 * 2
    assert latent.row_bytes == 576 * 2


@pytest.mark.spec("E6")
def test_manifest_finds_its_paged_group() -> None:
    paged = StateGroup(GroupKind.PAGED_KV, (1,), (1, 8), ElementType.FLOAT32)
    conv = StateGroup(GroupKind.FIXED_CONV, (0,), (8, 3), ElementType.FLOAT32, 1)

    assert StateManifest((conv, paged)).paged is paged
    assert StateManifest((conv,)).paged is None


def test_signature_reads_its_sizes_from_the_tensors() -> None:
    call = example_call("latent", {"query": {"device": "cuda"}})

    assert (call.device, call.num_tokens, call.batch_size, call.head_size) == ("cuda", 5, 2, 40)


def test_inputs_are_named_in_the_order_of_their_indices() -> None:
    named = example_call("packed").inputs.named()

    assert [name for name, _ in named] == [row.name for row in operator_inputs()]


def test_plan_counts_its_rows() -> None:
    ids, row = np.array([7, 8]), np.array([0, 1], np.int32)
    flags = np.array([False, True])
    plan = StepPlan(
        request=ids,
        resident=row,
        rank=row,
        tokens=row,
        packed_offset=row,
        past_tokens=ids,
        target_tokens=ids,
        is_prefill=flags,
        is_new=flags,
        drafts=None,
        logits_rows=row,
        logits_offsets=row,
        deferred=ids,
        unserviceable=ids,
        total_tokens=2,
        table_columns=1,
        padded_rows=2,
        capture_key=0,
    )

    assert plan.num_rows == 2


@pytest.mark.spec("E12")
def test_ids_that_mean_nothing_are_no_valid_ids() -> None:
    assert NO_TURN == 0
    assert UNMAPPED < 0


@pytest.mark.parametrize(
    "protocol",
    [SchedulerPolicy, StepReservation, StepCache, Decoder, ModelExecutor, StepObserver],
)
def test_protocols_have_at_most_six_methods(protocol: type) -> None:
    methods = [
        name for name, each in vars(protocol).items() if inspect.isfunction(each) and name[0] != "_"
    ]

    assert 1 <= len(methods) <= 6, methods
    assert protocol.__doc__
