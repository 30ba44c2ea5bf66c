"""The benchmark measures what it says, and its calls do not grow with the rows."""

from __future__ import annotations

import json
import sys
from types import FrameType

import pytest
from pa_scheduler.bench import Case, decode_case, main


def test_each_line_is_an_object_with_case_rows_and_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["--rows", "4", "16", "--steps", "5"])

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["case"], each["rows"]) for each in lines] == [
        (case, rows) for case in ("decode", "mixed", "admission") for rows in (4, 16)
    ]
    assert all(each["us_per_step"] > 0 for each in lines)


def test_a_decode_step_makes_the_same_number_of_calls_at_any_number_of_rows() -> None:
    counts = {_calls(decode_case(rows)) for rows in (16, 256, 1024)}

    assert len(counts) == 1


def _calls(case: Case) -> int:
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    case.step()
    sys.setprofile(count)
    try:
        case.step()
    finally:
        sys.setprofile(None)
    return calls
