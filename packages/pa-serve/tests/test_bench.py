from __future__ import annotations

import gc
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_runs import Runner
from pa_engine import __version__ as engine_version
from pa_models.testing import tiny_config, write_checkpoint
from pa_serve.bench.calibration import calibrate_ns
from pa_serve.bench.load import Load, Timing
from pa_serve.bench.throughput import measure
from pa_serve.bench.workload import HostCase, Workload


def test_host_prints_one_object_a_case_with_the_documented_members(pa: Runner) -> None:
    arguments = ("--context", "32,64", "--steps", 20, "--rounds", 1, "--json")

    ran = pa("bench", "host", "--rows", "4,8", *arguments)

    assert ran.status == 0
    records = ran.records
    assert [(each["case"], each["rows"], each["context"]) for each in records] == [
        ("decode", 4, 32),
        ("decode", 8, 32),
        ("decode", 8, 64),
        ("mixed", 4, 32),
        ("mixed", 8, 32),
        ("churn", 4, 32),
        ("churn", 8, 32),
    ]
    for each in records:
        assert each["us_per_step"] > 0
        assert each["us_objects"] > 0
        assert each["calibration_ns"] > 0
        assert each["engine_version"] == engine_version
        assert each["gc_enabled"] is True
        assert (each["calls"] is not None) == (each["case"] == "decode")


def test_a_decode_step_makes_as_many_calls_at_any_number_of_rows(pa: Runner) -> None:
    arguments = ("--cases", "decode", "--context", 40, "--steps", 5, "--rounds", 1, "--json")

    ran = pa("bench", "host", "--rows", "16,256,1024", *arguments)

    assert len({record["calls"] for record in ran.records}) == 1


@pytest.mark.parametrize("name", ["decode", "mixed", "churn"])
@pytest.mark.parametrize("rows", [1, 3, 16, 130])
def test_every_row_is_in_every_measured_step(name: str, rows: int) -> None:
    case = HostCase(name, rows, context=48, steps=70)
    workload = Workload(case)
    before = workload.statistics

    for _ in range(case.steps):
        workload.timed_step()

    after = workload.statistics
    assert after.steps - before.steps == case.steps
    assert after.rows - before.rows == case.steps * rows
    generated = after.generated_tokens - before.generated_tokens
    prompt = after.prompt_tokens - before.prompt_tokens
    match name:
        case "decode":
            assert (generated, prompt) == (case.steps * rows, 0)
        case "mixed":
            assert generated == case.steps * (rows - case.num_prefilling)
            assert prompt == case.steps * case.num_prefilling * 16
        case _:
            # A successor's first step reads its prompt of 32 tokens and gives its first token.
            assert generated == case.steps * rows
            assert prompt >= case.steps * 32
    workload.close()


def test_figures_are_refused_while_the_garbage_collector_is_off(
    pa: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc, "isenabled", lambda: False)

    with pytest.raises(RuntimeError, match="garbage collector"):
        pa("bench", "host", "--rows", "2", "--steps", 2, "--context", 16)


def test_the_table_names_its_columns(pa: Runner) -> None:
    arguments = ("--rows", 2, "--steps", 2, "--context", 16, "--cases", "decode", "--rounds", 1)

    ran = pa("bench", "host", *arguments)

    calibration, header, row = ran.out.splitlines()
    assert calibration.startswith("calibration loop: ")
    assert header.split()[:3] == ["case", "rows", "context"]
    assert row.split()[:3] == ["decode", "2", "16"]


def test_the_calibration_loop_takes_time() -> None:
    assert 10 < calibrate_ns() < 1e6


def test_throughput_gives_exactly_the_tokens_asked_for(pa: Runner, tmp_path: Path) -> None:
    # Whatever this model says first ends its text.
    model = tmp_path / "ends"
    write_checkpoint(model, tiny_config("llama", eos_token_id=list(range(300))))
    arguments = ("--n", "1,3", "--prompt-tokens", 20, "--output-tokens", 5, "--rounds", 1)

    ran = pa("bench", "throughput", "--model", model, *arguments, "--json")

    assert ran.status == 0
    assert [(each["engine"], each["n"], each["dtype"]) for each in ran.records] == [
        ("pa", 1, "float32"),
        ("pa", 3, "float32"),
        ("pa", 1, "bfloat16"),
        ("pa", 3, "bfloat16"),
    ]
    for each in ran.records:
        assert each["prompt_tokens"] == 20
        assert each["output_tokens"] == 5
        tokens = each["n"] * each["output_tokens"]
        assert each["output_tokens_per_s"] == pytest.approx(tokens / each["seconds"])
        spent = each["time_to_first_token_s"] + 4 * each["time_per_token_s"]
        assert 0 < spent <= each["seconds"] * 1.0001
        assert 0 < each["host_share"] < 1


class Stopwatch:
    """A side whose runs take the times that it is given; the first, of the warm-up, is none."""

    def __init__(self, name: str, seconds: list[float]) -> None:
        self.name = name
        self._seconds = iter([99.0, *seconds])

    def run(self, load: Load) -> Timing:
        return Timing(next(self._seconds))


def test_the_best_round_of_each_side_counts() -> None:
    arguments = Namespace(n=(2,), prompt_tokens=(8,), output_tokens=(10,), rounds=3)
    sides = [Stopwatch("ours", [4.0, 2.0, 3.0]), Stopwatch("theirs", [5.0, 6.0, 7.0])]

    ours, theirs = measure(arguments, "float32", sides)

    assert (ours.engine, ours.seconds, ours.output_tokens_per_s) == ("ours", 2.0, 10.0)
    assert (theirs.engine, theirs.seconds, theirs.output_tokens_per_s) == ("theirs", 5.0, 4.0)


def test_a_peer_that_is_missing_is_named_before_the_model_is_loaded(
    pa: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)

    ran = pa("bench", "throughput", "--model", "/none", "--peer", "transformers")

    assert ran.status == 2
    assert ran.said("--peer transformers", "pip install transformers accelerate")


def test_a_peer_does_the_same_work_and_the_faster_element_types_are_compared(
    pa: Runner, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", PEER)
    monkeypatch.setitem(sys.modules, "transformers.utils.logging", PEER)
    arguments = ("--n", 2, "--prompt-tokens", 8, "--output-tokens", 3, "--rounds", 1, "--json")

    ran = pa("bench", "throughput", "--model", model, "--peer", "transformers", *arguments)

    *figures, comparison = ran.records
    assert [each["engine"] for each in figures] == ["pa", "transformers"] * 2
    best = {
        name: max(
            each["output_tokens_per_s"] for each in figures if each["engine"] == name
        )
        for name in ("pa", "transformers")
    }  # fmt: skip
    assert comparison["engine"] == "pa : transformers"
    assert comparison["output_tokens_per_s"] == best["pa"]
    assert comparison["peer_output_tokens_per_s"] == best["transformers"]
    assert comparison["ratio"] == best["pa"] / best["transformers"]


class Peer:
    """As much of transformers as the comparison uses; its model writes zeros."""

    config = SimpleNamespace(vocab_size=300)

    @property
    def AutoModelForCausalLM(self) -> Peer:  # noqa: N802
        return self

    def GenerationConfig(self, **settings: object) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(**settings)

    def from_pretrained(self, folder: str, **options: object) -> Peer:
        return self

    def eval(self) -> Peer:
        return self

    def generate(self, ids: object, **options: object) -> object:
        import torch

        assert isinstance(ids, torch.Tensor)
        asked: object = options["generation_config"]
        assert isinstance(asked, SimpleNamespace)
        assert asked.min_new_tokens == asked.max_new_tokens
        return torch.cat((ids, ids.new_zeros(len(ids), asked.max_new_tokens)), dim=1)

    def set_verbosity_error(self) -> None: ...

    def disable_progress_bar(self) -> None: ...


PEER = Peer()
