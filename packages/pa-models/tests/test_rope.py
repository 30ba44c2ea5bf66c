"""Frequencies equal formulas written independently, with numpy in float64, channel by channel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pa_models.fields import Fields
from pa_models.rope import (
    RopeConfig,
    attention_factor,
    inverse_frequencies,
    rope_kind,
    rotary_tables,
)
from pa_models.rope_reader import read_rope
from pa_spec import InputUnusable

HEAD = 64
Frequencies = NDArray[np.float64]


def read(trained: int = 4096, head: int = HEAD, **config: Any) -> RopeConfig:
    return read_rope(Fields("config.json", config), head, trained)


def plain(theta: float = 10000.0, dim: int = HEAD) -> Frequencies:
    return np.array([theta ** (-2.0 * pair / dim) for pair in range(dim // 2)])


def llama3(theta: float, factor: float, low: float, high: float, original: int) -> Frequencies:
    result = []
    for frequency in plain(theta):
        wavelength = 2 * math.pi / frequency
        if wavelength < original / high:
            result.append(frequency)
        elif wavelength > original / low:
            result.append(frequency / factor)
        else:
            share = (original / wavelength - low) / (high - low)
            result.append((1 - share) * frequency / factor + share * frequency)
    return np.array(result)


def yarn(theta: float, factor: float, original: int, *, fast: float = 32, slow: float = 1,
         whole: bool = True) -> Frequencies:  # fmt: skip
    def channel(rotations: float) -> float:
        return HEAD / 2 * math.log(original / (2 * math.pi * rotations)) / math.log(theta)

    first, last = channel(fast), channel(slow)
    if whole:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, HEAD - 1)
    result = []
    for pair, frequency in enumerate(plain(theta)):
        stretched = min(max((pair - first) / (last - first), 0.0), 1.0)
        result.append(frequency / factor * stretched + frequency * (1 - stretched))
    return np.array(result)


def dynamic(theta: float, factor: float, trained: int, length: int) -> Frequencies:
    growth = factor * max(length, trained) / trained - (factor - 1)
    return plain(theta * growth ** (HEAD / (HEAD - 2)))


LLAMA31 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}
QWEN_YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
GPT_OSS_YARN = {
    "rope_type": "yarn",
    "factor": 32.0,
    "original_max_position_embeddings": 4096,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
}
SHORT = [1.0 + 0.05 * pair for pair in range(HEAD // 2)]
LONG = [1.0 + 1.5 * pair for pair in range(HEAD // 2)]
LONGROPE = {"type": "su", "short_factor": SHORT, "long_factor": LONG}

CASES: dict[str, tuple[dict[str, Any], Callable[[], Frequencies]]] = {
    "nothing written": ({}, plain),
    "null scaling": ({"rope_theta": 5e5, "rope_scaling": None}, lambda: plain(5e5)),
    "theta inside rope_parameters": (
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
        lambda: plain(1e6),
    ),
    "inner theta wins": (
        {"rope_theta": 5.0, "rope_parameters": {"rope_theta": 1e6}},
        lambda: plain(1e6),
    ),
    "rope_scaling wins over rope_parameters": (
        {"rope_parameters": {"rope_theta": 1e6}, "rope_scaling": {"type": "linear", "factor": 2.0}},
        lambda: plain() / 2,
    ),
    "rope_parameters serves where rope_scaling is empty": (
        {"rope_parameters": {"rope_theta": 1e6}, "rope_scaling": {}},
        lambda: plain(1e6),
    ),
    "linear": ({"rope_scaling": {"type": "linear", "factor": 8.0}}, lambda: plain() / 8),
    "llama3": (
        {"rope_theta": 5e5, "rope_scaling": LLAMA31},
        lambda: llama3(5e5, 8.0, 1.0, 4.0, 8192),
    ),
    "yarn": (
        {"rope_theta": 1e6, "rope_scaling": QWEN_YARN},
        lambda: yarn(1e6, 4.0, 32768),
    ),
    "yarn without whole ends": (
        {"rope_theta": 150000, "rope_scaling": GPT_OSS_YARN},
        lambda: yarn(150000, 32.0, 4096, whole=False),
    ),
    "dynamic within the trained length": (
        {"rope_scaling": {"type": "dynamic", "factor": 4.0}},
        plain,
    ),
    "partial": (
        {"partial_rotary_factor": 0.25},
        lambda: plain(dim=16),
    ),
    "partial inside rope_parameters": (
        {"rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 1e7}},
        lambda: plain(1e7, dim=32),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_spelling_gives_the_formulas_frequencies(case: str) -> None:
    config, expected = CASES[case]

    found = inverse_frequencies(read(**config)).double().numpy()

    np.testing.assert_allclose(found, expected(), rtol=2e-6)


@pytest.mark.parametrize(("length", "base"), [(4096, None), (4097, 4097), (16384, 16384)])
def test_dynamic_stretches_the_base_beyond_the_trained_length(
    length: int, base: int | None
) -> None:
    rope = read(rope_scaling={"type": "dynamic", "factor": 4.0})

    found = inverse_frequencies(rope, length).double().numpy()

    expected = plain() if base is None else dynamic(10000.0, 4.0, 4096, base)
    np.testing.assert_allclose(found, expected, rtol=2e-6)


@pytest.mark.parametrize(("length", "divisors"), [(4095, SHORT), (4096, SHORT), (4097, LONG)])
def test_longrope_switches_right_after_the_original_length(
    length: int, divisors: list[float]
) -> None:
    rope = read(131072, rope_scaling=LONGROPE, original_max_position_embeddings=4096)

    found = inverse_frequencies(rope, length).double().numpy()

    np.testing.assert_allclose(found, plain() / np.array(divisors), rtol=2e-6)
    expected = math.sqrt(1 + math.log(32) / math.log(4096))
    assert attention_factor(rope) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        ({}, 0.1 * math.log(4) + 1),
        ({"attention_factor": 1.5}, 1.5),
        ({"mscale": 1.0, "mscale_all_dim": 1.0}, 1.0),
        ({"mscale": 1.0}, 0.1 * math.log(4) + 1),
        (
            {"mscale": 0.707, "mscale_all_dim": 0.5},
            (0.0707 * math.log(4) + 1) / (0.05 * math.log(4) + 1),
        ),
    ],
)
def test_yarn_scales_cos_and_sin(scaling: dict[str, float], expected: float) -> None:
    rope = read(rope_scaling=QWEN_YARN | scaling)

    cos, sin = rotary_tables(rope, 2)

    assert float(cos[0, 0]) == pytest.approx(expected)
    assert float(cos[1, 0]) == pytest.approx(expected * math.cos(1.0))
    assert float(sin[1, 0]) == pytest.approx(expected * math.sin(1.0))


@pytest.mark.parametrize(
    ("trained", "scaling", "context"),
    [
        (32768, QWEN_YARN, 131072),  # written before stretching: the factor counts
        (131072, QWEN_YARN, 131072),  # written after stretching: it does not count again
        (4096, {"type": "linear", "factor": 4.0}, 16384),
        (4096, {"type": "dynamic", "factor": 2.0}, 8192),
        (131072, LLAMA31, 131072),
        (131072, LONGROPE | {"original_max_position_embeddings": 4096}, 131072),
        (8192, None, 8192),
    ],
)
def test_a_stretching_factor_counts_once(
    trained: int, scaling: dict[str, Any] | None, context: int
) -> None:
    assert read(trained, rope_scaling=scaling).context_tokens == context


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"rope_scaling": {"type": "mrope"}}, ["'mrope'", "yarn", "longrope", "llama3"]),
        ({"rope_parameters": {"rope_type": "proportional"}}, ["'proportional'", "linear"]),
        ({"rope_scaling": {"type": "linear"}}, ["factor", "linear"]),
        ({"rope_scaling": {"type": "linear", "factor": 0}}, ["factor", "above 0"]),
        ({"rope_scaling": {"type": "yarn", "factor": float("nan")}}, ["factor", "nan"]),
        ({"rope_scaling": 3}, ["rope_scaling", "object"]),
        ({"rope_scaling": LONGROPE | {"long_factor": [1.0]}}, ["long_factor", "32 numbers"]),
        ({"rope_scaling": LONGROPE | {"short_factor": [0.0] * 32}}, ["short_factor", "above 0"]),
        ({"rope_scaling": LLAMA31 | {"high_freq_factor": 1.0}}, ["high_freq_factor"]),
        ({"partial_rotary_factor": 0.001}, ["partial_rotary_factor", "0 channels"]),
        ({"partial_rotary_factor": 1.5}, ["partial_rotary_factor", "96 channels"]),
        ({"rope_theta": "big"}, ["rope_theta", "'big'"]),
        (
            {"rope_parameters": {"full_attention": {"rope_theta": 1e6}}},
            ["full_attention", "one for all layers"],
        ),
    ],
)
def test_unusable_rope_is_named(config: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputUnusable) as caught:
        read(**config)

    for word in words:
        assert word in str(caught.value)


def test_su_is_longrope() -> None:
    assert rope_kind("su") == rope_kind("longrope") == "longrope"
