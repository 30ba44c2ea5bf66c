"""What `pa generate` refuses: one line that names the thing, status 2, nothing written over."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from command_runs import Runner, Write

OPTION_ERRORS = [
    (("--temperature", "nan"), "--temperature: 'nan'|--temperature: nan"),
    (("--temperature", "-1"), "--temperature"),
    (("--top-p", "0"), "--top-p"),
    (("--top-p", "1.5"), "--top-p"),
    (("--top-k", "-1"), "--top-k"),
    (("--top-k", "many"), "--top-k"),
    (("--seed", "-1"), "--seed"),
    (("--repetition-penalty", "0"), "--repetition-penalty"),
    (("--no-repeat-ngram-size", "-1"), "--no-repeat-ngram-size"),
    (("--max-new-tokens", "0"), "--max-new-tokens"),
    (("--min-new-tokens", "-1"), "--min-new-tokens"),
    (("--min-new-tokens", "9", "--max-new-tokens", "8"), "min_new_tokens: 9"),
    (("--block-size", "8"), "--block-size: 8"),
    (("--block-size", "17"), "a power of two"),
    (("--block-size", "x"), "--block-size: 'x'"),
    (("--num-blocks", "0"), "--num-blocks: '0'"),
    (("--max-batch-size", "0"), "--max-batch-size"),
    (("--max-scheduled-tokens", "0"), "--max-scheduled-tokens"),
    (("--dtype", "float64"), "--dtype"),
    (("--prompt", ""), "--prompt 2: empty"),
    (("--no-such-option",), "--no-such-option"),
    (("--input", "/missing.jsonl"), "/missing.jsonl: No such file"),
    (("--input", "/"), "/: Is a directory"),
    (("--output", "/"), "--output /: is a folder"),
    (("--output", "/missing/out.jsonl"), "folder does not exist"),
    (("--stats", "/"), "--stats /: is a folder"),
    (("--stats", "same.json", "--output", "same.json"), "is the same file as"),
    (("--input", "/a", "--input", "/b"), "given twice"),
]


@pytest.mark.parametrize(("options", "found"), OPTION_ERRORS)
def test_a_bad_option_is_one_line_and_status_2(
    pa: Runner, model: str, options: tuple[str, ...], found: str
) -> None:
    ran = pa("generate", "--model", model, "--prompt", "a", *options)

    assert ran.status == 2
    assert ran.out == ""
    assert ran.said()
    assert any(each in ran.err for each in found.split("|")), ran.err


def test_nothing_to_answer_is_refused(pa: Runner, model: str) -> None:
    ran = pa("generate", "--model", model)

    assert ran.status == 2
    assert ran.said("--prompt", "--input")


def test_the_input_and_the_model_are_never_written_over(
    pa: Runner, model: str, write_lines: Write
) -> None:
    source = write_lines([{"prompt": "a"}])
    before = source.read_bytes()

    for target in (source, Path(model), Path(model) / "config.json"):
        ran = pa("generate", "--model", model, "--input", source, "--output", target)
        assert ran.status == 2
        assert ran.said("--output")

    assert source.read_bytes() == before


def broken(model: str, folder: Path, change: Callable[[Path], object]) -> Path:
    """Copy the model, then break the copy."""
    folder.mkdir()
    for each in Path(model).iterdir():
        (folder / each.name).write_bytes(each.read_bytes())
    change(folder)
    return folder


def cut(name: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: len(data) // 2])

    return change


def rename_architecture(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["architectures"] = ["WhisperForConditionalGeneration"]
    config["model_type"] = "whisper"
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (cut("model.safetensors"), ("model.safetensors",)),
        (cut("config.json"), ("config.json",)),
        (lambda folder: (folder / "model.safetensors").unlink(), ("safetensors",)),
        (rename_architecture, ("Whisper", "LlamaForCausalLM", "Qwen3ForCausalLM")),
    ],
)
def test_a_checkpoint_that_cannot_be_used_is_one_line_and_nothing_is_written(
    pa: Runner, model: str, tmp_path: Path, change: Callable[[Path], object], words: tuple[str, ...]
) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("older\n")
    folder = broken(model, tmp_path / "broken", change)

    ran = pa("generate", "--model", folder, "--prompt", "a", "--output", target)

    assert ran.status == 2
    assert ran.said(*words)
    assert target.read_text() == "older\n"


def test_a_missing_model_and_a_corrupt_gguf_are_one_line(pa: Runner, tmp_path: Path) -> None:
    corrupt = tmp_path / "model.gguf"
    corrupt.write_bytes(b"GGUF" + b"\0" * 20)

    for name, words in ((tmp_path / "none", "none"), (corrupt, "model.gguf")):
        ran = pa("generate", "--model", name, "--prompt", "a")
        assert ran.status == 2
        assert ran.said(words)


def test_chat_without_a_template_is_refused_before_anything_runs(
    pa: Runner, model: str, tmp_path: Path
) -> None:
    folder = broken(
        model, tmp_path / "plain", lambda path: (path / "tokenizer_config.json").unlink()
    )
    target = tmp_path / "out.jsonl"

    ran = pa("generate", "--model", folder, "--chat", "--prompt", "a", "--output", target)

    assert ran.status == 2
    assert ran.said("--chat", "has no chat template")
    assert not target.exists()


def test_limits_that_no_memory_holds_are_one_line(pa: Runner, model: str) -> None:
    for option in ("--max-batch-size", "--num-blocks"):
        ran = pa("generate", "--model", model, "--prompt", "a", option, 2**31 - 1)
        assert ran.status == 2
        assert ran.said(str(2**31 - 1), "allowed")


def test_a_file_that_fails_while_it_is_read_is_one_line(pa: Runner, model: str) -> None:
    # Opens like any file, has no size, and refuses to be read.
    ran = pa("generate", "--model", model, "--input", "/proc/self/mem")

    assert ran.status == 2
    assert ran.said("Input/output error")
