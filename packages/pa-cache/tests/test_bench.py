"""The benchmark measures what it says, and a step's calls grow with nothing."""

from __future__ import annotations

import itertools
import json
import sys
from types import FrameType

import pytest
from pa_cache.bench import PHASES, DecodeBench, main


def test_each_line_is_an_object_with_case_rows_and_times(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["--rows", "4", "16", "--context-tokens", "32", "--steps", "5"])

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["case"], each["rows"]) for each in lines] == [("decode", 4), ("decode", 16)]
    for each in lines:
        assert each["us_per_step"] == pytest.approx(sum(each[name] for name in PHASES), abs=0.05)


@pytest.mark.spec("E81")
def test_a_decode_step_makes_the_same_calls_for_any_rows_context_and_table_width() -> None:
    counts = {
        _calls(DecodeBench(rows, context_tokens, 4, columns))
        for rows in (16, 256, 1024)
        for context_tokens in (64, 2048)
        for columns in (0, 1000)
    }

    assert len(counts) == 1


def test_every_step_of_the_benchmark_enters_new_blocks() -> None:
    bench = DecodeBench(32, 64, 8)

    used = [bench.cache.usage.committed]
    for _ in range(4):
        bench.step()
        used.append(bench.cache.usage.committed)

    assert [after - before for before, after in itertools.pairwise(used)] == [2] * 4
    assert bench.cache.audit.check_all() == []


def _calls(bench: DecodeBench) -> int:
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    bench.step()
    sys.setprofile(count)
    try:
        bench.step()
    finally:
        sys.setprofile(None)
    return calls
