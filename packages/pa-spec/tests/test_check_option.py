"""Goal: an option is refused where it would have no effect, and every part of a path counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from check_runs import engine_file, run
from pa_spec import InputUnusable
from pa_spec.checker import CheckOptions, check_model

REFUSED = {
    "config for Hugging Face": (
        '{"model_type": "llama"}',
        ["--config", "x"],
        (
            "config: given for a Hugging Face model; allowed: a folder with genai_config.json, "
            "which is compared with the config.json"
        ),
    ),
    "config for an engine": (
        "{}",
        ["--config", "x"],
        (
            "config: given for an engine configuration; allowed: a folder with "
            "genai_config.json, which is compared with the config.json"
        ),
    ),
    "empty config": (
        "{}",
        ["--config", ""],
        "config: an empty path; allowed: a config.json, or a folder with one",
    ),
    "memory for an engine": (
        "{}",
        ["--memory", "1GiB", "--length", "1"],
        (
            "memory, length: given for an engine configuration; allowed: a config.json, "
            "which says what a sequence takes"
        ),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_option_that_says_nothing_about_what_is_checked_is_refused(
    tmp_path: Path, name: str
) -> None:
    content, options, expected = REFUSED[name]
    path = engine_file(tmp_path, '{"engine": {}}' if content == "{}" else content)

    ran = run(path, *options)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == f"pa-spec: {expected}\n"


@pytest.mark.parametrize(
    ("file", "kind"),
    [("model.onnx", "an ONNX file"), ("genai_config.json", "an exported model")],
)
def test_memory_is_refused_for_graphs_and_exports(tmp_path: Path, file: str, kind: str) -> None:
    (tmp_path / file).write_text("{}")

    with pytest.raises(InputUnusable, match=f"memory, length: given for {kind}"):
        check_model(tmp_path, CheckOptions(memory_bytes=1, length_tokens=1))


def test_option_does_not_hide_that_there_is_nothing_to_check(tmp_path: Path) -> None:
    report = check_model(tmp_path / "absent", CheckOptions(reference_config="x"))

    assert [each.id for each in report.findings] == ["file.no_target"]


def test_empty_path_is_not_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(engine_file(tmp_path, "{}").parent)

    assert [str(each) for each in check_model("").findings] == [
        "path: expected a file or a folder, got an empty path (file.no_target)"
    ]
    assert run("").returncode == 2


def test_engines_settings_beside_a_models_are_checked_too(tmp_path: Path) -> None:
    document = {"model_type": "llama", "engine": {"dynamic_batching": {"block_size": 17}}}

    report = check_model(engine_file(tmp_path, json.dumps(document)))

    assert report.kind.value == "huggingface_folder"
    found = [each.id for each in report.findings]
    assert found[-1] == "V29"
    assert report.meaning is not None
    assert report.facts["batching"] == "dynamic"
