"""The benchmark's command line and verdicts: what is judged, what is refused, what is said."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import pytest
import torch
from pa_kernels import bench, speed
from pa_kernels.speed import Case, Limit, Measurement, measurement

TINY = Case(
    "decode", 3, 37, 1, torch.float32, num_heads=4, kv_num_heads=2, head_size=16, block_size=16
)


@pytest.fixture(autouse=True)
def _small_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "last_level_cache_bytes", lambda: 1 << 16)


def test_the_workloads_are_those_that_limits_were_set_for() -> None:
    cases = list(speed.all_cases())
    grid = set(product((512, 2048, 8192), (1, 8, 32)))

    def figures(dtype: torch.dtype, figure: str) -> set[tuple[int, int]]:
        return {
            (case.context, case.rows)
            for case in cases
            if (case.cache_dtype or case.dtype) == dtype
            and figure in {limit.figure for limit in case.limits}
            and (case.num_heads, case.kv_num_heads, case.head_size, case.block_size)
            == (32, 8, 128, 16)
        }

    assert figures(torch.float32, "of_read") == grid
    assert figures(torch.bfloat16, "of_read") == grid
    for dtype in (torch.float32, torch.bfloat16, torch.int8, torch.float8_e4m3fn):
        assert figures(dtype, "over_gather") == grid
    for dtype in (torch.int8, torch.float8_e4m3fn):
        assert figures(dtype, "over_unquantized") == grid
    for dtype in (torch.float32, torch.bfloat16):
        assert figures(dtype, "over_dense") == {(2048, 1)}


def test_limits_are_those_that_were_set() -> None:
    decode = {Limit("of_read", 0.7), Limit("over_gather", 3.0)}
    quantized = {Limit("over_unquantized", 1.6), Limit("over_gather", 3.0)}
    expected = {
        ("call", torch.bfloat16): {Limit("run_us", 15.0, is_most=True)},
        ("decode", torch.float32): decode,
        ("decode", torch.bfloat16): decode,
        ("decode", torch.float16): {Limit("over_gather", 3.0)},
        ("quantized", torch.int8): quantized,
        ("quantized", torch.float8_e4m3fn): quantized,
        ("prefill", torch.float32): {Limit("over_dense", 0.9)},
        ("prefill", torch.bfloat16): {Limit("over_dense", 0.7)},
    }
    for case in speed.all_cases():
        key = case.kind, case.cache_dtype or case.dtype
        assert set(case.limits) == expected.get(key, set()), case.label


def test_unserved_workload_says_why_and_is_short() -> None:
    case = replace(TINY, dtype=torch.float64, limits=(Limit("of_read", 0.7),))
    found = Measurement(case, skipped="float64: none computes it")

    (verdict,) = speed.verdicts([found])

    assert found.line["skipped"] == "float64: none computes it"
    assert (verdict.figure, verdict.found, verdict.word) == (
        "of_read",
        "float64: none computes it",
        "SHORT",
    )
    assert next(speed.verdicts([replace(found, case=TINY)])).is_met is None


def test_a_limit_on_a_figure_that_is_absent_is_short() -> None:
    limits = (Limit("of_read", 0.7), Limit("over_gather", 3.0), Limit("nothing", 1.0))
    found = Measurement(replace(TINY, limits=limits), figures={"over_gather": 4.0})

    rows = [(each.figure, each.found, each.word) for each in speed.verdicts([found])]

    assert rows == [
        ("of_read", "not measured", "SHORT"),
        ("over_gather", "4.00", "met"),
        ("nothing", "not measured", "SHORT"),
    ]
    assert speed.verdict_table([found]).endswith("1 of 3 limits are met")


def test_a_limit_on_a_figure_that_is_not_shown_is_judged() -> None:
    case = replace(TINY, limits=(Limit("gb_per_s", 10.0),))
    found = [Measurement(case, figures={"gb_per_s": value}) for value in (9.0, 11.0)]

    assert [each.is_met for each in speed.verdicts(found)] == [False, True]


@pytest.mark.parametrize(
    ("found", "is_most", "word"),
    [(0.71, False, "met"), (0.69, False, "SHORT"), (0.69, True, "met"), (0.71, True, "SHORT")],
)
def test_limits_are_least_or_most(found: float, *, is_most: bool, word: str) -> None:
    case = replace(TINY, limits=(Limit("of_read", 0.7, is_most),))

    table = speed.verdict_table([Measurement(case, figures={"of_read": found})])

    row = table.splitlines()[1]
    assert row.endswith(word)
    assert f"{found:.2f}" in row
    assert table.endswith(f"{int(word == 'met')} of 1 limits are met")


@pytest.mark.parametrize(("least", "status"), [(0.0, 0), (1e9, 1)])
def test_the_command_prints_lines_then_the_table(
    least: float, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    case = replace(TINY, limits=(Limit("over_gather", least),))
    options = ["--check", "--rounds", "2", "--round-ms", "0.1", "--case", "decode"]

    assert bench.main(options, [case, replace(case, kind="prefill")]) == status

    machine, line, empty, *rows = capsys.readouterr().out.splitlines()
    assert json.loads(machine)["threads"] == torch.get_num_threads()
    assert json.loads(line)["figures"]["over_gather"] > 0
    assert empty == ""
    assert rows[0].split() == ["workload", "figure", "found", "limit"]
    assert f"{1 - status} of 1 limits are met" in rows


def test_filters_that_leave_nothing_are_an_error_with_what_there_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--case", "decode", "--dtype", "int8", "--rows", "7", "--quick", "--check"]

    with pytest.raises(SystemExit) as ended:
        bench.main(options, [TINY, replace(TINY, rows=2), replace(TINY, kind="latent")])

    printed = capsys.readouterr()
    assert ended.value.code == 2
    assert printed.out == ""
    assert printed.err.splitlines()[-1].endswith(
        "no workload for --case decode --dtype int8 --rows 7 --quick; there are, with rows x "
        "context: decode float32 (3 x 38, 2 x 38); latent float32 (3 x 38)"
    )


@pytest.mark.parametrize(("options", "status"), [(["--check"], 1), ([], 0)])
def test_a_check_that_judges_no_limit_fails_and_says_so(
    options: list[str], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.main([*options, "--rounds", "1", "--round-ms", "0.1"], [TINY]) == status

    printed = capsys.readouterr().out
    assert "0 of 0 limits are met" in printed
    said = "--check judged nothing: none of these workloads has a limit"
    assert printed.endswith(f"{said}\n") is bool(options)


@pytest.mark.parametrize("option", ["rounds", "threads", "context", "rows", "round-ms", "seconds"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "many"])
def test_numbers_out_of_range_are_refused_with_the_range(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        bench.main([f"--{option}={value}"], [TINY])

    kind = "number above 0" if option in {"round-ms", "seconds"} else "whole number of at least 1"
    message = f"argument --{option}: expected a {kind}, got {value}\n"
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(message)


def test_filters_choose_workloads(capsys: pytest.CaptureFixture[str]) -> None:
    cases = [TINY, replace(TINY, rows=2), replace(TINY, past=5), replace(TINY, past=200_000)]

    bench.main(["--rounds", "1", "--quick", "--rows", "3", "--context", "38"], cases)

    printed = capsys.readouterr().out.splitlines()
    _, *lines = [json.loads(each) for each in printed if each.startswith("{")]
    assert [(each["rows"], each["past"]) for each in lines] == [(3, 37)]


@pytest.mark.parametrize(
    ("before", "behind", "is_disturbed"),
    [(0.3, 2.1, False), (1.9, 2.1, True), (0.3, 3.4, True)],
)
def test_a_machine_with_other_work_is_reported(
    before: float, behind: float, *, is_disturbed: bool
) -> None:
    machine = replace(speed.Machine.here(), cores=2, threads=2, load=before)

    warning = machine.warning(behind)

    words = f"load {before} before the run and {behind} behind it on 2 cores: other work has "
    assert warning == (f"{words}disturbed these figures" if is_disturbed else "")
