"""A tiny model on disk, the command in this process, and a way to write prompts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_runs import Lines, Ran, Read, Record, Runner, Write, records_of
from pa_models.testing import tiny_config, write_checkpoint
from pa_serve import main

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random Llama with a context of 512 tokens, a byte-level tokenizer and a chat template."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    write_checkpoint(folder, tiny_config("llama"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": CHAT_TEMPLATE}))
    return str(folder)


@pytest.fixture
def pa(capfd: pytest.CaptureFixture[str]) -> Runner:
    """Runs `pa` in this process."""

    def run(*arguments: object) -> Ran:
        capfd.readouterr()
        status = main([str(each) for each in arguments])
        out, err = capfd.readouterr()
        return Ran(status, out, err)

    return run


@pytest.fixture
def write_lines(tmp_path: Path) -> Write:
    """Writes prompts into the test's own folder."""

    def write(lines: Lines, name: str = "prompts.jsonl") -> Path:
        path = tmp_path / name
        texts = [each if isinstance(each, str) else json.dumps(each) for each in lines]
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        return path

    return write


@pytest.fixture
def read() -> Read:
    """Reads a file of results."""

    def records(path: Path) -> list[Record]:
        return records_of(path.read_text("utf-8"))

    return records
