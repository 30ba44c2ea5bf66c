"""Goal: the tables of backends and features agree. The kernels compare them with their own."""

from __future__ import annotations

import pytest
from pa_spec import (
    FeatureRecord,
    RuleStatus,
    backend_features,
    backend_reasons,
    backends,
    feature_tests,
    validate,
    vectors,
)
from pa_spec.contract.data import table
from pa_spec.testing import example_call

ACTIVE = [name for name, row in backends().items() if row.status is RuleStatus.ACTIVE]


def test_backends_stand_in_the_order_of_trial_with_the_oracle_last() -> None:
    assert list(backends()) == [
        "cuda_latent",
        "cuda_decode",
        "cuda_flash_varlen",
        "cuda_unfused",
        "cpu",
        "reference",
    ]


@pytest.mark.parametrize("feature", backend_features().values(), ids=lambda row: str(row.name))
def test_matrix_says_of_active_backends_what_their_limits_say(feature: FeatureRecord) -> None:
    call = example_call(feature.example["mode"], feature.example["changes"])

    reasons = backend_reasons(call)

    assert validate(call) == ()
    assert {name: reasons[name] == "" for name in ACTIVE} == {
        name: feature.backends[name] != "no" for name in ACTIVE
    }


def test_every_cell_of_an_active_backend_has_its_tests() -> None:
    cells = {(feature, name) for feature in backend_features() for name in ACTIVE}

    assert set(feature_tests()) == cells
    for (feature, name), nodes in feature_tests().items():
        is_refused = backend_features()[feature].backends[name] == "no"
        assert len(nodes) == (1 if is_refused else 3), (feature, name)


def test_only_features_of_the_matrix_have_tests() -> None:
    rows = table("operator/feature_tests.toml")["feature"]

    assert [row["feature"] for row in rows] == list(backend_features())


def test_backend_of_a_later_release_is_not_eligible_and_says_so() -> None:
    reasons = backend_reasons(example_call("latent"))

    assert reasons["cuda_latent"] == "pending: CUDA attention backends"
    assert [name for name, reason in reasons.items() if not reason] == ["cpu", "reference"]


def test_reason_names_the_value_that_is_not_served() -> None:
    scores = {"qk_output": 2, "output_qk_type": "float32"}

    reasons = backend_reasons(example_call("separate", scores))

    assert reasons["cpu"] == "qk_output 2: the cpu backend keeps no score matrix"
    assert reasons["reference"] == ""


@pytest.mark.parametrize(
    ("metadata", "found"),
    [(None, 2**31), ([0, 0], 2**31), ([0, 32], 2**30), ([0, 33], 2**30 + 2**25)],
)
def test_score_matrix_counts_as_wide_as_its_bound(metadata: list[int] | None, found: int) -> None:
    changes = {"query": {"shape": [2**20, 128]}, "num_heads": 4, "qk_output": 1}
    rows = {"block_table": {"shape": [2, 4]}, "output_qk_type": "float64"}
    bounds = {"metadata": metadata} if metadata else {}
    limit = 2**30

    reason = backend_reasons(example_call("packed", {**changes, **rows, **bounds}))["reference"]

    words = f"output_qk: {found} bytes, at most {limit} (PA_KERNEL_OUTPUT_QK_LIMIT_BYTES, V70)"
    assert reason == (words if found > limit else "")


def test_every_valid_vector_has_a_backend() -> None:
    for case in vectors("validation"):
        if not case["violations"]:
            reasons = backend_reasons(example_call(case["mode"], case["changes"]))
            assert "" in reasons.values(), case["id"]
