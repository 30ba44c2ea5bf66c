"""The benchmark compares like with like, says which limits are met, and leaves nothing out."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from itertools import product

import pytest
import torch
from pa_kernels import bench, prepare, signature_of, speed
from pa_kernels.speed import Budget, Case, Limit, Measurement, layers, measurement, timing
from pa_kernels.testing import expect_close

SHORT = Budget(rounds=2, round_s=1e-4, total_s=0.1, fewest=1)
TINY = Case(
    "decode", 3, 37, 1, torch.float32, num_heads=4, kv_num_heads=2, head_size=16, block_size=16
)
LATENT = replace(TINY, kind="latent", kv_num_heads=1, head_size=24, v_head_size=16)
COMPARED = (
    TINY,
    replace(TINY, kind="prefill", past=0, new=19),
    replace(TINY, kind="chunk", past=21, new=5),
    LATENT,
    *(
        replace(TINY, dtype=torch.bfloat16, cache_dtype=cache, quant_type=scales)
        for cache in (torch.int8, torch.float8_e4m3fn)
        for scales in ("PER_TENSOR", "PER_CHANNEL")
    ),
)


@pytest.fixture(autouse=True)
def _small_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "last_level_cache_bytes", lambda: 1 << 16)


@pytest.mark.parametrize("case", COMPARED, ids=lambda case: str(case.label))
def test_gathering_computes_the_same_in_every_form(case: Case) -> None:
    (inputs,), _ = speed.make_layers(case, 1)
    ours = prepare(signature_of(inputs, case.attributes), "reference").run(inputs).output

    for form in ("enable_gqa", "grouped") if case.new == 1 else ("enable_gqa",):
        theirs = speed.gather_and_attend(inputs, case, form)
        expect_close(ours, theirs.transpose(1, 2).reshape(ours.shape))


@pytest.mark.parametrize("past", [0, 13])
def test_dense_forms_agree(past: int) -> None:
    case = replace(TINY, kind="chunk", past=past, new=7)
    found = []
    for form in ("enable_gqa", "expanded"):
        torch.manual_seed(0)
        found.append(speed.dense_attention(case, form)(0))

    expect_close(found[0], found[1])


def test_other_layers_exceed_the_last_level_cache_between_two_calls_on_one() -> None:
    cache_bytes = 1 << 16
    count = layers.num_layers(TINY, cache_bytes)
    made, memory = speed.make_layers(TINY, count)

    addresses = {each.key_cache.data_ptr() for each in made}
    assert len(addresses) == len(memory) == count
    assert sum(each.nbytes for each in memory[1:]) >= 4 * cache_bytes
    assert memory[0].nbytes == TINY.pool_bytes
    assert made[0].value_cache is not None
    assert memory[0].nbytes == made[0].key_cache.nbytes + made[0].value_cache.nbytes
    assert layers.num_layers(TINY, TINY.pool_bytes // 16) == 1


def test_works_take_turns_and_every_call_is_on_the_next_layer() -> None:
    seen: list[tuple[str, int]] = []
    works = {name: (lambda turn, name=name: seen.append((name, turn))) for name in "ab"}

    samples = speed.interleave(works, Budget(rounds=4, round_s=0.0))

    assert [turn for _, turn in seen] == list(range(len(seen)))
    assert "".join(name for name, _ in seen) == "aabb" + "ab" + "ba" + "ab" + "ba"
    assert [len(samples.rounds[name]) for name in "ab"] == [4, 4]


def test_slow_work_drops_out_and_the_ratio_is_of_rounds_that_both_had() -> None:
    works = {"fast": lambda _: None, "slow": lambda _: time.sleep(0.002)}

    samples = speed.interleave(works, Budget(rounds=9, round_s=1e-4, total_s=0.003, fewest=3))

    assert len(samples.rounds["fast"]) == 9
    assert len(samples.rounds["slow"]) == 3
    assert samples.us("slow") > 2000
    assert samples.ratio("slow", over="fast") > 10


def test_only_a_form_that_another_beats_by_far_is_left_out() -> None:
    def takes(seconds: float) -> timing.Work:
        return lambda _: time.sleep(seconds)

    works = {"ours": takes(1e-2), "theirs: slow": takes(5e-2), "theirs: fast": takes(1e-3)}

    samples = speed.interleave(works, Budget(rounds=2, round_s=0.0))

    assert list(samples.rounds) == ["ours", "theirs: fast"]
    assert samples.fastest(["theirs: slow", "theirs: fast"]) == "theirs: fast"


@pytest.mark.parametrize("case", COMPARED, ids=lambda case: str(case.label))
def test_every_workload_has_its_figures(case: Case) -> None:
    kind = "quantized" if case.cache_dtype else case.kind
    found = speed.measure(replace(case, kind=kind), SHORT, "reference")

    expected = {
        "decode": {"of_read", "over_gather"},
        "latent": {"of_read", "over_gather"},
        "quantized": {"of_read", "over_gather", "over_unquantized"},
        "prefill": {"over_dense"},
        "chunk": {"over_dense"},
    }[kind]
    assert not found.skipped
    assert expected <= set(found.figures)
    assert min(found.figures.values()) > 0
    assert json.loads(json.dumps(found.line))["case"] == kind


def test_prepared_and_direct_call_stand_side_by_side() -> None:
    (case,) = [each for each in speed.all_cases() if each.kind == "call"]

    found = speed.measure(case, SHORT)

    assert found.figures["direct_us"] > found.figures["run_us"] > 0
    assert (case.num_heads, case.kv_num_heads, case.head_size) == (9, 3, 64)
    assert (case.rows, case.past, case.dtype) == (1, 15, torch.bfloat16)


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


def test_unknown_backend_measures_nothing() -> None:
    assert speed.measure(TINY, SHORT, "nowhere").skipped == "there is no backend nowhere"


def test_workload_that_memory_does_not_hold_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "available_bytes", lambda: 1 << 20)

    found = speed.measure(replace(TINY, past=1 << 20), SHORT, "reference")

    assert found.skipped.startswith("memory: ")
    assert found.skipped.endswith(" MiB needed, 1 MiB available")


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


def test_the_machine_has_a_last_level_cache() -> None:
    assert layers.last_level_cache_bytes() >= 1 << 18
