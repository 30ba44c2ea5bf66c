"""The benchmark compares like with like, reads all it says it reads, and has every figure."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product

import pytest
import torch
from pa_kernels import prepare, signature_of, speed
from pa_kernels.speed import Budget, Case, layers, measurement, timing
from pa_kernels.speed.memory_read import read_works
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


def test_every_read_reads_all_of_the_layer_whose_turn_it_is() -> None:
    # Both halves are 1.0 as float32, so that whoever reads the number finds more than nothing.
    found_here, numbers = 0x3F800000_3F800000, 13
    memory = [torch.zeros(numbers, dtype=torch.int64) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        works = read_works(memory, pool)
        for turn, index in product(range(2), range(numbers)):
            memory[turn][index] = found_here
            for name, work in works.items():
                assert _any(work(turn)), (name, turn, index)
                assert not _any(work(1 - turn)), (name, turn, index)
            memory[turn][index] = 0


def _any(found: object) -> bool:
    parts = found if isinstance(found, list) else [found]
    return any(bool(each) for each in parts)


@pytest.mark.parametrize("names", [["slow", "fast", "middle"], ["fast", "slow"], ["slow", "fast"]])
def test_the_fastest_has_the_least_median(names: list[str]) -> None:
    rounds = {"fast": [1.0, 9.0, 1.0], "middle": [2.0, 2.0, 2.0], "slow": [0.5, 3.0, 3.0]}

    assert timing.Samples(rounds).fastest(["not timed", *names]) == "fast"


@pytest.mark.parametrize(("past", "new"), [(37, 1), (0, 19), (21, 5)])
def test_a_query_sees_itself_and_what_is_before_it(past: int, new: int) -> None:
    seen = sum(key <= past + query for query in range(new) for key in range(past + new))

    assert replace(TINY, past=past, new=new).visible_pairs == TINY.rows * seen


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


def test_unknown_backend_measures_nothing() -> None:
    assert speed.measure(TINY, SHORT, "nowhere").skipped == "there is no backend nowhere"


def test_workload_that_memory_does_not_hold_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "available_bytes", lambda: 1 << 20)

    found = speed.measure(replace(TINY, past=1 << 20), SHORT, "reference")

    assert found.skipped.startswith("memory: ")
    assert found.skipped.endswith(" MiB needed, 1 MiB available")


def test_the_machine_has_a_last_level_cache() -> None:
    assert layers.last_level_cache_bytes() >= 1 << 18
