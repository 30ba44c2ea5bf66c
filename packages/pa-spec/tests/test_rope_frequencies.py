"""Frequencies by what each kind of rotary embedding promises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pa_spec.checker import RopeMeaning
from pa_spec.checker.huggingface.rope.frequency import (
    ROPE_KINDS,
    inverse_frequencies,
)

PLAIN = RopeMeaning("default", 10000.0, 64, trained_tokens=4096, original_tokens=4096)
LAST_BITS = 2e-7
"""Relative: each of two float32 values may be half a last bit off, 6e-8, and so may their ratio."""

SHORT, LONG = (1.0,) * 32, (4.0,) * 32


def test_default_frequencies_fall_geometrically_from_one() -> None:
    frequencies, factor = inverse_frequencies(PLAIN, 1)

    assert frequencies.shape == (32,)
    assert frequencies[0] == 1.0
    np.testing.assert_allclose(frequencies[1:] / frequencies[:-1], 10000.0 ** (-1 / 32), LAST_BITS)
    assert factor == 1.0


def test_linear_divides_every_frequency() -> None:
    frequencies, _ = inverse_frequencies(replace(PLAIN, kind="linear", factor=4.0), 1)

    np.testing.assert_array_equal(frequencies, inverse_frequencies(PLAIN, 1)[0] / 4.0)


def test_dynamic_is_plain_up_to_the_trained_length_and_covers_longer_ones() -> None:
    rope = replace(PLAIN, kind="dynamic", factor=2.0)
    plain, _ = inverse_frequencies(PLAIN, 1)

    np.testing.assert_allclose(inverse_frequencies(rope, 4096)[0], plain)
    longer, _ = inverse_frequencies(rope, 8192)
    # growth = 2 * 2 - 1 = 3: the slowest channel turns a third as far.
    assert longer[-1] == pytest.approx(plain[-1] / 3.0)
    assert longer[0] == 1.0


@pytest.mark.parametrize("tokens", [63, 64, 65])
def test_longrope_takes_long_factors_beyond_the_original_length_only(tokens: int) -> None:
    parameters = (("short_factor", SHORT), ("long_factor", LONG))
    rope = replace(PLAIN, kind="longrope", original_tokens=64, factor=8.0, parameters=parameters)

    frequencies, factor = inverse_frequencies(rope, tokens)

    plain, _ = inverse_frequencies(PLAIN, 1)
    np.testing.assert_allclose(frequencies, plain / (4.0 if tokens == 65 else 1.0))
    # sqrt(1 + log 8 / log 64)
    assert factor == pytest.approx(1.5**0.5)


def test_llama3_keeps_fast_channels_and_divides_slow_ones() -> None:
    parameters = (("low_freq_factor", 1.0), ("high_freq_factor", 4.0))
    rope = replace(PLAIN, kind="llama3", factor=8.0, original_tokens=1024, parameters=parameters)

    frequencies, _ = inverse_frequencies(rope, 1)

    ratio = frequencies / inverse_frequencies(PLAIN, 1)[0]
    turns = 1024 * inverse_frequencies(PLAIN, 1)[0] / (2 * np.pi)
    np.testing.assert_allclose(ratio[turns > 4.0], 1.0)
    np.testing.assert_allclose(ratio[turns < 1.0], 1.0 / 8.0)
    assert np.all(np.diff(ratio) <= 1e-12)


def test_yarn_blends_between_plain_and_divided() -> None:
    rope = replace(PLAIN, kind="yarn", factor=4.0, original_tokens=1024)

    frequencies, factor = inverse_frequencies(rope, 1)

    ratio = frequencies / inverse_frequencies(PLAIN, 1)[0]
    assert ratio[0] == pytest.approx(1.0)
    assert ratio[-1] == pytest.approx(0.25)
    # 0.1 * log 4 + 1
    assert factor == pytest.approx(1.1386294361)


def test_yarn_temperatures_divide_each_other() -> None:
    equal = (("mscale", 1.0), ("mscale_all_dim", 1.0))
    rope = replace(PLAIN, kind="yarn", factor=40.0, original_tokens=1024, parameters=equal)

    assert inverse_frequencies(rope, 1)[1] == 1.0
    written = replace(rope, parameters=(*equal, ("attention_factor", 1.25)))
    assert inverse_frequencies(written, 1)[1] == 1.25


def test_proportional_leaves_the_last_pairs_standing() -> None:
    rope = replace(PLAIN, kind="proportional", parameters=(("rotated_pairs", 8.0),))

    frequencies, _ = inverse_frequencies(rope, 1)

    np.testing.assert_array_equal(frequencies[:8], inverse_frequencies(PLAIN, 1)[0][:8])
    assert not frequencies[8:].any()


_ROPES = st.builds(
    RopeMeaning,
    kind=st.sampled_from([kind for kind in ROPE_KINDS if kind != "longrope"]),
    theta=st.floats(1.001, 1e30),
    rotary_dim=st.just(64),
    trained_tokens=st.integers(1, 2**31 - 1),
    original_tokens=st.integers(1, 2**31 - 1),
    factor=st.floats(1e-30, 1e30),
)


@given(_ROPES, st.integers(0, 2**40))
def test_any_numbers_in_range_give_frequencies_without_an_exception(
    rope: RopeMeaning, tokens: int
) -> None:
    frequencies, attention_factor = inverse_frequencies(rope, tokens)

    assert frequencies.shape == (32,)
    assert frequencies.dtype == np.float32
    assert isinstance(attention_factor, float)
    assert isinstance(rope.context_tokens, int)
