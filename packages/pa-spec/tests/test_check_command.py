"""Goal: the command's words, formats and exit status, whatever a checked file holds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from check_runs import engine_file, run
from hostile_inputs import config_text
from jsonschema import Draft202012Validator
from pa_spec import CONTRACT_VERSION, InputUnusable, __version__
from pa_spec.checker import CheckOptions, check_model
from pa_spec.command import main, text_of


def test_verdict_findings_and_resolved_limits_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = engine_file(tmp_path, '{"block_size": 24, "max_scheduled_tokens": 8}')

    assert main(["check", str(path)]) == 1
    assert (
        capsys.readouterr().out
        == f"""\
{path} (engine configuration): does not conform; 1 violation, 1 note

violations:
  V29  block_size: expected a block size that is a power of two, at least 16, got 24

notes:
  engine.budget_below_batch  max_scheduled_tokens: expected at least max_batch_size = 16, \
for every resident to decode in every step, got 8

  block_size            unusable
  num_blocks            unset
  max_batch_size        16 (default)
  max_scheduled_tokens  8
  chunk_size            0 (default)
  max_session_tokens    0 (default)
  memory_budget_bytes   unset
  reserve_turn_limit    false (default)
"""
    )


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ('{"block_size": 16}', [], (0, "conforms; nothing found")),
        ('{"block_size": 17}', [], (1, "does not conform; 1 violation")),
        ('{"block_size": 17', [], (2, "cannot be read; 1 unreadable")),
        ('{"search": {"x": 1, "y": 1}}', [], (0, "conforms; 2 warnings")),
        ('{"search": {"x": 1}}', ["--strict"], (1, "does not conform strictly; 1 warning")),
        ('{"max_batch_size": 4096}', ["--strict"], (0, "conforms strictly; 1 note")),
    ],
)
def test_exit_status_says_what_the_first_line_says(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    options: list[str],
    expected: tuple[int, str],
) -> None:
    path = engine_file(tmp_path, text)

    status = main(["check", str(path), *options])

    first, *_ = capsys.readouterr().out.splitlines()
    assert (status, first.rpartition(": ")[2]) == expected


def test_json_obeys_its_schema_and_says_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = engine_file(tmp_path, '{"search": {"top_p": 2, "x": 1}}')

    assert main(["check", str(path), "--format", "json"]) == 1

    document = json.loads(capsys.readouterr().out)
    schema = json.loads(text_of("report-schema"))
    Draft202012Validator.check_schema(schema)
    assert [error.message for error in Draft202012Validator(schema).iter_errors(document)] == []
    assert {key: value for key, value in document.items() if key not in {"findings", "facts"}} == {
        "pa_spec": __version__,
        "contract": CONTRACT_VERSION,
        "path": str(path),
        "kind": "engine_configuration",
        "strict": False,
        "verdict": "violations",
        "exit_status": 1,
        "omitted": {},
        "meaning": None,
        "capacity": None,
    }
    assert document["findings"][0] == {
        "id": "V87",
        "severity": "violation",
        "file": "",
        "inside": "search.top_p",
        "name": "top_p",
        "expected": "0 to 1; off unless strictly between",
        "actual": "2",
        "message": "search.top_p: top_p: expected 0 to 1; off unless strictly between, got 2 (V87)",
    }


def test_repeated_findings_are_counted_and_not_all_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = ", ".join(f'"k{index}": 0' for index in range(250))
    path = engine_file(tmp_path, f'{{"search": {{{keys}}}}}')

    assert main(["check", str(path)]) == 0
    assert "150 more of engine.unknown_search_key" in capsys.readouterr().out
    assert main(["check", str(path), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["omitted"] == {"engine.unknown_search_key": 150}
    assert len(document["findings"]) == 100


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--memory", "24GiB"], "both or neither"),
        (["--length", "4096"], "both or neither"),
        (["--memory", "many", "--length", "1"], "is no amount"),
        (["--memory", "0", "--length", "1"], "is 0 bytes"),
        (["--memory", "1GiB", "--length", "0"], "is not from 1"),
        (["--memory", "1GiB", "--length", "-1"], "is no number of tokens"),
        (["--memory", "1GiB", "--length", "1e3"], "is no number of tokens"),
        (["--format", "xml"], "invalid choice"),
    ],
)
def test_unusable_options_are_status_2_and_nothing_is_printed(
    tmp_path: Path, options: list[str], words: str
) -> None:
    ran = run(engine_file(tmp_path, "{}"), *options)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert words in ran.stderr


@pytest.mark.parametrize(("memory", "length"), [(0, 1), (1, 0), (2**63, 1), (None, 1), (1, None)])
def test_unusable_options_of_the_function_are_refused(
    tmp_path: Path, memory: int | None, length: int | None
) -> None:
    options = CheckOptions(memory_bytes=memory, length_tokens=length)

    with pytest.raises(InputUnusable, match=r"memory|length"):
        check_model(tmp_path, options)


@pytest.mark.parametrize("number", [1, 2**62])
def test_smallest_and_largest_options_are_taken(tmp_path: Path, number: int) -> None:
    report = check_model(tmp_path, CheckOptions(memory_bytes=number, length_tokens=number))

    assert report.capacity is None  # there is no model


def test_help_names_the_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check", "--help"])

    shown = " ".join(capsys.readouterr().out.split())
    assert "Exit status: 0 conforms, 1 violations, 2 cannot be read." in shown


WITHOUT_ONNX = """
import sys
sys.modules["onnx"] = None
from pa_spec.command import main
sys.exit(main(["check", *sys.argv[1:]]))
"""


def run_without_onnx(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", WITHOUT_ONNX, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_onnx_file_without_the_library_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"\x08\x0a")

    ran = run_without_onnx(tmp_path)

    assert (ran.returncode, ran.stderr) == (2, "")
    assert "pip install 'onnx>=1.20'" in ran.stdout


def test_folders_and_configurations_are_checked_without_the_onnx_library(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(config_text())

    ran = run_without_onnx(tmp_path)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "KV bytes a token       " in ran.stdout
    assert run_without_onnx(engine_file(tmp_path, '{"num_blocks": 4}')).returncode == 0


def test_sequences_that_fit_are_counted(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(config_text())

    ran = run(tmp_path, "--memory", "1MiB", "--length", "100", "--format", "json")

    document = json.loads(ran.stdout)
    # 2 layers, key and value, 2 heads of 16 bfloat16: 256 bytes a token, and 7 blocks of 16.
    assert document["meaning"]["kv_bytes_per_token"] == 256
    assert document["capacity"]["sequences"] == 2**20 // (256 * 112)
