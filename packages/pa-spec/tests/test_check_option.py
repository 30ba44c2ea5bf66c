"""Goal: an option is refused where it would have no effect, and every part of a path counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from check_runs import engine_file, run
from pa_spec import InputUnusable
from pa_spec.checker import CheckOptions, Verdict, check_model

EXPORT = "an export (a folder with genai_config.json), which is compared with the configuration"
MODEL = "a Hugging Face model (config.json), which says what a sequence takes"


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        (
            '{"model_type": "nope"}',
            CheckOptions(reference_config="x"),
            f"config: expected {EXPORT}, got a Hugging Face model (file.option_unused)",
        ),
        (
            '{"engine": {}}',
            CheckOptions(reference_config="x"),
            f"config: expected {EXPORT}, got an engine configuration (file.option_unused)",
        ),
        (
            '{"engine": {}}',
            CheckOptions(memory_bytes=1, length_tokens=1),
            f"memory, length: expected {MODEL}, got an engine configuration (file.option_unused)",
        ),
    ],
)
def test_option_that_says_nothing_about_what_is_checked_is_reported(
    tmp_path: Path, content: str, options: CheckOptions, expected: str
) -> None:
    report = check_model(engine_file(tmp_path, content), options)

    assert str(report.findings[0]) == expected
    assert report.verdict is Verdict.UNREADABLE


@pytest.mark.parametrize(
    ("file", "kind"),
    [("model.onnx", "an ONNX file"), ("genai_config.json", "an exported model")],
)
def test_memory_is_reported_for_graphs_and_exports(tmp_path: Path, file: str, kind: str) -> None:
    (tmp_path / file).write_text("{}")

    report = check_model(tmp_path, CheckOptions(memory_bytes=1, length_tokens=1))

    found = [each for each in report.findings if each.id == "file.option_unused"]
    assert [(each.name, each.actual) for each in found] == [("memory, length", kind)]


def test_config_that_is_used_is_not_reported(tmp_path: Path) -> None:
    (tmp_path / "genai_config.json").write_text("{}")

    report = check_model(tmp_path, CheckOptions(reference_config=str(tmp_path)))

    assert "file.option_unused" not in [each.id for each in report.findings]


def test_empty_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputUnusable, match="config: an empty path"):
        check_model(tmp_path, CheckOptions(reference_config=""))
    assert run(tmp_path, "--config", "").returncode == 2


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
