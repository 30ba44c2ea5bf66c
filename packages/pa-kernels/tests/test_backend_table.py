"""Goal: the contract's table of backends says what the backends of this release say themselves.

Method: compare word for word, over the golden vectors, the matrix and drawn calls.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pa_kernels import explain
from pa_kernels.backends.missing import MissingBackend
from pa_kernels.backends.reference import OUTPUT_QK_LIMIT_VARIABLE
from pa_kernels.backends.table import BACKENDS
from pa_spec import (
    CallSignature,
    FeatureRecord,
    RuleStatus,
    backend_features,
    backend_reasons,
    backends,
    validate,
    vectors,
)
from pa_spec.testing import example_call

PRESENT = {each.name: each for each in BACKENDS if not isinstance(each, MissingBackend)}


@pytest.fixture(autouse=True, scope="module")
def _default_limit() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(OUTPUT_QK_LIMIT_VARIABLE, raising=False)
        yield


def assert_agreement(call: CallSignature) -> None:
    """Compare every backend's reason and the selected backend with the contract's."""
    reasons = backend_reasons(call)

    found = {name: backend.unsupported(call) or "" for name, backend in PRESENT.items()}
    selected = [verdict.backend for verdict in explain(call) if verdict.is_selected]

    assert found == {name: reasons[name] for name in PRESENT}
    assert selected == [name for name in PRESENT if not reasons[name]][:1]


def test_active_backends_of_the_contract_are_those_of_the_table_in_its_order() -> None:
    active = [name for name, row in backends().items() if row.status is RuleStatus.ACTIVE]
    absent = {each.name for each in BACKENDS} - set(PRESENT)

    assert [name for name in active if name not in absent] == list(PRESENT)


@pytest.mark.parametrize(
    "case",
    [case for case in vectors("validation") if not case["violations"]],
    ids=lambda case: str(case["id"]),
)
def test_vectors_are_served_as_the_contract_says(case: Any) -> None:
    assert_agreement(example_call(case["mode"], case["changes"]))


@pytest.mark.parametrize(
    "case",
    [case for case in vectors("validation") if case["violations"]],
    ids=lambda case: str(case["id"]),
)
def test_legal_neighbours_are_served_as_the_contract_says(case: Any) -> None:
    assert_agreement(example_call(case["mode"], case["changes"] | case["neighbour"]))


@pytest.mark.parametrize("feature", backend_features().values(), ids=lambda row: str(row.name))
def test_matrix_says_what_the_backends_say(feature: FeatureRecord) -> None:
    call = example_call(feature.example["mode"], feature.example["changes"])

    verdicts = {each.backend: each.reason for each in explain(call)}

    eligible = {"selected", "eligible, tried later"}
    served = {name: verdicts[name] in eligible for name in PRESENT}
    assert served == {name: feature.backends[name] != "no" for name in PRESENT}


def test_score_matrix_above_the_limit_is_refused_in_the_same_words() -> None:
    changes = {"query": {"shape": [2**20, 128]}, "qk_output": 1, "output_qk_type": "float32"}

    assert_agreement(example_call("packed", {**changes, "block_table": {"shape": [2, 64]}}))


def _typed(mode: str, name: str) -> dict[str, Any]:
    """Return the changes that give a mode's activations and caches another element type."""
    tensors = example_call(mode).inputs
    floats = ("query", "key", "value", "key_cache", "value_cache")
    return {each: {"element_type": name} for each in floats if getattr(tensors, each) is not None}


def _on(mode: str, device: str) -> dict[str, Any]:
    present = [name for name, tensor in example_call(mode).inputs.named() if tensor is not None]
    return {name: {"device": device} for name in present}


def _quantized(mode: str, name: str) -> dict[str, Any]:
    sides = ("k",) if mode == "latent" else ("k", "v")
    caches = {"k": "key_cache", "v": "value_cache"}
    changes: dict[str, Any] = {}
    for side in sides:
        changes[caches[side]] = {"element_type": name}
        changes[f"{side}_scale"] = {"shape": [1]}
        changes[f"{side}_quant_type"] = "PER_TENSOR"
    return changes


def _merged(parts: list[dict[str, Any]]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for part in parts:
        for name, change in part.items():
            both = isinstance(change, dict) and isinstance(changes.get(name), dict)
            changes[name] = {**changes[name], **change} if both else change
    return changes


@st.composite
def calls(draw: st.DrawFn) -> CallSignature:
    """Draw a valid call with any of the features that backends tell apart."""
    mode = draw(st.sampled_from(["separate", "packed", "latent"]))
    floats = draw(st.sampled_from(["float32", "bfloat16", "float16"]))
    bias = {"attention_bias": {"shape": [1, 4, 5, 64], "element_type": floats}}
    choices: tuple[dict[str, Any], ...] = (
        bias,
        {"query_positions": {"shape": [5]}},
        {"slot_mapping": {"shape": [5]}, "local_window_size": 3},
        {"qk_output": 1, "output_qk_type": "float16"},
        {"softcap": 30.0},
        {"block_table": {"shape": [2, 2**24]}},
    )
    cache = draw(st.sampled_from(["", "int8", "float8e4m3fn"]))
    parts = [_typed(mode, floats), _quantized(mode, cache) if cache else {}]
    parts += [part for part in choices if draw(st.booleans())]
    changes = _merged(parts)
    device = {"device": draw(st.sampled_from(["cpu", "cuda", "meta"]))}
    added = {name: device for name, change in changes.items() if isinstance(change, dict)}
    return example_call(mode, _merged([_on(mode, device["device"]), added, changes]))


@given(calls())
def test_any_call_is_served_as_the_contract_says(call: CallSignature) -> None:
    assert validate(call) == ()
    assert_agreement(call)
