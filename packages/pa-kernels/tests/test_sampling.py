"""Sampling against a slow plain implementation, against its distribution, and row by row."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pa_kernels import sample_tokens, uniform_from_counter
from pa_spec import InputUnusable, SamplingBatch
from torch import Tensor


def plain_choice(logits: list[float], row: dict[str, Any]) -> int:
    """One row's token, the way one would explain it."""
    logits = list(logits)
    for token in row.get("banned", ()):
        logits[token] = -math.inf
    for token in set(row.get("penalized", ())):
        penalty = row["penalty"]
        logits[token] = logits[token] / penalty if logits[token] > 0 else logits[token] * penalty
    order = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
    temperature = row.get("temperature", 0.0)
    if temperature == 0:
        return order[0]
    weight = [math.exp((each - logits[order[0]]) / temperature) for each in logits]
    top_k, top_p = row.get("top_k", 0), row.get("top_p", 1.0)
    kept = order[:top_k] if top_k else order
    if top_p < 1:
        wanted, mass = top_p * math.fsum(weight[token] for token in kept), 0.0
        for count, token in enumerate(kept, start=1):
            mass += weight[token]
            if mass >= wanted:
                kept = kept[:count]
                break
    kept = kept if 0 < top_k < len(logits) or top_p < 1 else sorted(kept)
    target, mass = row["uniform"] * math.fsum(weight[token] for token in kept), 0.0
    for token in kept:
        mass += weight[token]
        if mass > target:
            return token
    return kept[-1]


def batch_of(rows: list[dict[str, Any]]) -> SamplingBatch:
    """The columns of some rows, every column present."""
    pairs = {
        name: [(i, token) for i, row in enumerate(rows) for token in row.get(name, ())]
        for name in ("banned", "penalized")
    }
    return SamplingBatch(
        temperature=np.array([row.get("temperature", 0.0) for row in rows], dtype=np.float32),
        top_k=np.array([row.get("top_k", 0) for row in rows], dtype=np.int32),
        top_p=np.array([row.get("top_p", 1.0) for row in rows], dtype=np.float32),
        uniform=np.array([row.get("uniform", 0.0) for row in rows], dtype=np.float64),
        penalty=np.array([row.get("penalty", 1.0) for row in rows], dtype=np.float32),
        penalized_row=np.array([row for row, _ in pairs["penalized"]], dtype=np.int32),
        penalized_token=np.array([token for _, token in pairs["penalized"]], dtype=np.int32),
        banned_row=np.array([row for row, _ in pairs["banned"]], dtype=np.int32),
        banned_token=np.array([token for _, token in pairs["banned"]], dtype=np.int32),
    )


def choose(logits: Tensor, rows: list[dict[str, Any]]) -> list[int]:
    tokens, faulty = sample_tokens(logits.clone(), batch_of(rows))
    assert faulty is None
    chosen: list[int] = tokens.tolist()
    return chosen


VOCABULARY = 400

row_strategy = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]),
        "top_k": st.sampled_from([0, 1, 2, 5, 50, 399, 400, 1000]),
        "top_p": st.sampled_from([0.0, 0.125, 0.5, 0.875, 1.0]),
        "penalty": st.sampled_from([1.0, 1.5, 0.5]),
        "penalized": st.lists(st.integers(0, VOCABULARY - 1), max_size=5),
        "banned": st.lists(st.integers(0, VOCABULARY - 1), max_size=5),
    },
)


@given(
    st.lists(row_strategy, min_size=1, max_size=6), st.integers(0, 2**20), st.sampled_from([0, 4])
)
def test_rows_equal_the_plain_implementation(
    rows: list[dict[str, Any]], seed: int, levels: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(len(rows), VOCABULARY, generator=generator) * 3
    if levels:  # many equal logits
        logits = logits.mul(levels).round().div(levels)
    uniforms = torch.rand(len(rows), dtype=torch.float64, generator=generator).tolist()
    rows = [
        {"penalty": 1.0, **row, "uniform": uniform}
        for row, uniform in zip(rows, uniforms, strict=True)
    ]

    chosen = choose(logits, rows)

    expected = [plain_choice(logits[i].tolist(), row) for i, row in enumerate(rows)]
    assert chosen == expected


@pytest.mark.spec("E75")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_is_drawn_alike_alone_in_any_place_and_beside_any_mates(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    vocabulary = 50000
    kinds: tuple[dict[str, Any], ...] = (
        {"temperature": 1.0},
        {"temperature": 0.7, "top_k": 40},
        {"temperature": 1.3, "top_k": 7, "top_p": 0.5},
        {"temperature": 1.0, "top_p": 0.9},
        {"temperature": 8.0, "top_p": 0.99},
        {},
    )
    logits = (torch.randn(24, vocabulary, generator=generator) * 3).to(dtype)
    rows = [{**kinds[i % len(kinds)], "uniform": (i + 0.5) / 24} for i in range(24)]

    together = choose(logits, rows)
    backwards = choose(logits.flip(0), rows[::-1])[::-1]
    alone = [choose(logits[i : i + 1], [row])[0] for i, row in enumerate(rows)]

    assert together == alone
    assert together == backwards


def test_an_empty_batch_description_is_arg_max_with_the_lowest_id_among_equals() -> None:
    logits = torch.tensor([[1.0, 5.0, 5.0, 0.0], [-1.0, -3.0, -1.0, -2.0]])

    tokens, faulty = sample_tokens(logits, SamplingBatch())

    assert tokens.tolist() == [1, 0]
    assert tokens.dtype == torch.int32
    assert faulty is None


def test_logits_of_an_inference_context_and_read_only_columns_are_taken() -> None:
    with torch.inference_mode():
        logits = torch.tensor([[1.0, 3.0, 2.0]]) * 2
    batch = batch_of([{"temperature": 1.0, "top_k": 1, "banned": [1], "penalized": [0]}])
    for field in fields(batch):
        getattr(batch, field.name).flags.writeable = False

    assert sample_tokens(logits, batch)[0].tolist() == [2]


def test_temperature_none_is_greedy_whatever_else_is_asked() -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0]])
    batch = SamplingBatch(top_k=np.array([3], dtype=np.int32), uniform=np.array([0.999]))

    assert sample_tokens(logits, batch)[0].tolist() == [1]


@pytest.mark.parametrize("poison", [math.nan, math.inf])
@pytest.mark.parametrize("row", [{}, {"temperature": 1.0}, {"temperature": 1.0, "top_k": 2}])
def test_a_row_with_nan_or_infinity_is_faulty_and_alone_in_it(
    poison: float, row: dict[str, Any]
) -> None:
    logits = torch.randn(3, 100, generator=torch.Generator().manual_seed(1))
    healthy = choose(logits, [row] * 3)
    logits[1, 7] = poison

    tokens, faulty = sample_tokens(logits, batch_of([row] * 3))

    assert faulty is not None
    assert faulty.tolist() == [False, True, False]
    assert tokens.tolist() == [healthy[0], 0, healthy[2]]


def test_a_ban_hides_no_nan() -> None:
    logits = torch.tensor([[1.0, math.nan, 0.0]])

    _, faulty = sample_tokens(logits, batch_of([{"banned": [1]}]))

    assert faulty is not None
    assert faulty.tolist() == [True]


def test_a_row_whose_every_token_is_banned_is_faulty() -> None:
    logits = torch.zeros(2, 3)

    tokens, faulty = sample_tokens(logits, batch_of([{"banned": [0, 1, 2]}, {"banned": [0]}]))

    assert faulty is not None
    assert faulty.tolist() == [True, False]
    assert tokens.tolist() == [0, 1]


def test_minus_infinity_in_the_logits_is_never_drawn() -> None:
    logits = torch.full((1, 500), -math.inf)
    logits[0, [3, 70, 400]] = 0.0
    for options in ({}, {"top_k": 50}, {"top_p": 0.999}, {"top_k": 50, "top_p": 0.999}):
        drawn = {
            choose(logits, [{"temperature": 1.0, "uniform": u, **options}])[0]
            for u in (0.0, 0.34, 0.67, 1 - 2**-53)
        }
        assert drawn == {3, 70, 400}, options


def test_top_k_keeps_exactly_k_and_the_lowest_ids_among_equals() -> None:
    logits = torch.zeros(1, 5000)
    drawn = {
        choose(logits, [{"temperature": 1.0, "top_k": 4, "uniform": u}])[0]
        for u in np.linspace(0, 0.999, 50)
    }
    assert drawn == {0, 1, 2, 3}


def test_top_p_keeps_the_fewest_tokens_that_reach_the_mass() -> None:
    logits = torch.tensor([[0.5, 0.25, 0.125, 0.125]]).log()

    def kept(top_p: float) -> set[int]:
        row = {"temperature": 1.0, "top_p": top_p}
        return {choose(logits, [{**row, "uniform": u}])[0] for u in np.linspace(0, 0.999, 40)}

    assert kept(0.0) == {0}
    assert kept(0.49) == {0}
    assert kept(0.51) == {0, 1}
    assert kept(0.76) == {0, 1, 2}
    assert kept(0.99) == {0, 1, 2, 3}


def test_a_tiny_temperature_does_not_overflow() -> None:
    logits = torch.tensor([[1e4, 9e3, -1e4]])
    assert choose(logits, [{"temperature": 1e-30, "uniform": 0.9999}]) == [0]


def test_the_penalty_divides_positive_and_multiplies_negative_logits_once() -> None:
    logits = torch.tensor([[4.0, 3.0, -5.0], [-1.0, -1.5, -9.0]])
    rows = [
        {"penalized": [0, 0, 0], "penalty": 1.3},
        {"penalized": [0, 0], "penalty": 1.3},
    ]
    assert choose(logits, rows) == [0, 0]
    rows = [{"penalized": [0], "penalty": 1.4}, {"penalized": [0], "penalty": 1.6}]
    assert choose(logits, rows) == [1, 1]


@pytest.mark.parametrize(
    "options",
    [{}, {"top_k": 6}, {"top_p": 0.8}, {"top_k": 6, "top_p": 0.8}],
    ids=lambda options: "-".join(options) or "temperature",
)
def test_tokens_come_as_often_as_their_probability_says(options: dict[str, Any]) -> None:
    draws, vocabulary, temperature = 20000, 12, 1.5
    logits = torch.randn(vocabulary, generator=torch.Generator().manual_seed(5))
    count = np.arange(draws, dtype=np.int64)
    uniform = uniform_from_counter(np.full(draws, 11), np.zeros(draws, np.int64), count)
    rows = [{"temperature": temperature, "uniform": u, **options} for u in uniform]

    chosen = choose(logits.expand(draws, -1).contiguous(), rows)

    probability = torch.softmax(logits.double() / temperature, 0).numpy()
    order = np.argsort(-probability)
    kept = order[: options.get("top_k", vocabulary)]
    mass = probability[kept] / probability[kept].sum()
    kept = kept[: int(np.searchsorted(np.cumsum(mass), options.get("top_p", 1.0))) + 1]
    expected = probability[kept] / probability[kept].sum() * draws
    observed = np.bincount(chosen, minlength=vocabulary)
    assert observed.sum() == observed[kept].sum()
    chi_square = float(((observed[kept] - expected) ** 2 / expected).sum())
    # The 99.99 % point of chi-square with 11 degrees of freedom is 37.4; fewer have a lower one.
    assert chi_square < 37.4


@pytest.mark.parametrize(
    ("batch", "name"),
    [
        (SamplingBatch(temperature=np.ones(2, dtype=np.float32)), "uniform"),
        (
            SamplingBatch(temperature=np.ones(3, dtype=np.float32), uniform=np.ones(2)),
            "temperature",
        ),
        (SamplingBatch(banned_row=np.zeros(1, dtype=np.int32)), "banned_row, banned_token"),
        (
            SamplingBatch(
                penalized_row=np.zeros(1, dtype=np.int32),
                penalized_token=np.zeros(1, dtype=np.int32),
            ),
            "penalty",
        ),
    ],
)
def test_a_column_without_the_one_it_needs_is_named(batch: SamplingBatch, name: str) -> None:
    logits = torch.zeros(2, 5)

    with pytest.raises(InputUnusable, match=name):
        sample_tokens(logits, batch)

    assert not logits.any()
