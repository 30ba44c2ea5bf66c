"""Tables of angles; the frequencies themselves are pa-spec's, and tested there."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from pa_models.rope import depends_on_length, rotary_frequencies, rotary_tables
from pa_spec.checker import RopeMeaning

PLAIN = RopeMeaning("default", 10000.0, 64, trained_tokens=4096, original_tokens=4096)
SHORT, LONG = (1.0,) * 32, (4.0,) * 32


def longrope(short: tuple[float, ...], long: tuple[float, ...]) -> RopeMeaning:
    lists = (("short_factor", short), ("long_factor", long))
    return replace(PLAIN, kind="longrope", original_tokens=64, parameters=lists)


def test_tables_hold_the_angle_of_every_position() -> None:
    cos, sin = rotary_tables(PLAIN, 3)

    assert cos.dtype == sin.dtype == torch.float32
    angles = torch.tensor([[place * 10000.0 ** (-pair / 32) for pair in range(32)]
                           for place in range(3)])  # fmt: skip
    torch.testing.assert_close(cos, angles.cos())
    torch.testing.assert_close(sin, angles.sin())


def test_yarn_scales_cos_and_sin() -> None:
    cos, sin = rotary_tables(replace(PLAIN, kind="yarn", factor=4.0), 2)

    expected = 0.1 * math.log(4) + 1
    assert float(cos[0, 0]) == pytest.approx(expected)
    assert float(cos[1, 0]) == pytest.approx(expected * math.cos(1.0))
    assert float(sin[1, 0]) == pytest.approx(expected * math.sin(1.0))


def test_frequencies_follow_the_length_of_the_sequence() -> None:
    short, _ = rotary_frequencies(longrope(SHORT, LONG), 64)
    long, _ = rotary_frequencies(longrope(SHORT, LONG), 65)

    assert torch.equal(short, long * 4.0)


@pytest.mark.parametrize(
    ("rope", "depends"),
    [
        (PLAIN, False),
        (replace(PLAIN, kind="linear", factor=2.0), False),
        (replace(PLAIN, kind="yarn", factor=2.0), False),
        (replace(PLAIN, kind="dynamic", factor=2.0), True),
        (longrope(SHORT, LONG), True),
        (longrope(SHORT, SHORT), False),
    ],
)
def test_only_some_kinds_depend_on_the_length(rope: RopeMeaning, *, depends: bool) -> None:
    assert depends_on_length(rope) == depends
