"""Every command and every example in the documents is run: here, or by a session of .ci/run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT
from documents import (
    RECORDS,
    SET_UP,
    SHELL,
    TESTED_ELSEWHERE,
    Block,
    blocks_of,
    documents_of,
    inline_commands,
    installed_by,
    run_by_sessions,
    run_here,
    script_of,
    sessions_in,
)
from exported_folder import save_small_model
from import_rules import ARROWS, siblings_of
from pa_spec import finding_kinds, rules, settings

DOCUMENTS = documents_of(ROOT)
BLOCKS = [block for each in DOCUMENTS for block in blocks_of(each, ROOT)]
SHELL_BLOCKS = [each for each in BLOCKS if each.language in SHELL]
PYTHON_BLOCKS = [each for each in BLOCKS if each.language == "python"]
TIMEOUT_SECONDS = 300
# Their reader has a model in the folder my-model.
NEEDS_A_MODEL = {"docs/check-your-model.md"}


def test_each_package_and_the_root_show_an_example_with_its_output() -> None:
    shown = {each.document for each in PYTHON_BLOCKS if each.expected is not None}

    assert shown >= {"README.md", *(f"packages/{each}/README.md" for each in ARROWS)}


@pytest.mark.slow
@pytest.mark.parametrize("block", PYTHON_BLOCKS, ids=str)
def test_a_python_example_prints_what_the_document_says(block: Block, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(block.text)

    result = run([sys.executable, "-I", script.name], tmp_path)

    assert result.returncode == 0, result.stderr
    assert result.stdout == (block.expected or "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "document", sorted({each.document for each in SHELL_BLOCKS if run_here(each)})
)
def test_the_commands_of_a_document_run_one_after_another(document: str, tmp_path: Path) -> None:
    if document in NEEDS_A_MODEL:
        save_small_model(tmp_path / "my-model")
    for block in SHELL_BLOCKS:
        if block.document == document and run_here(block):
            result = run(["bash", "-euo", "pipefail", "-c", run_here(block)], tmp_path)

            assert result.returncode == 0, f"{block}: {result.stderr}"
            assert block.expected in {None, result.stdout}, str(block)


def test_ids_that_the_documents_name_exist(root: Path) -> None:
    areas = {each.partition(".")[0] for each in finding_kinds()}
    pattern = re.compile(rf"`((?:V\d+)|(?:{'|'.join(sorted(areas))})\.[a-z][a-z_]+)`")
    named = set(pattern.findall((root / "docs" / "check-your-model.md").read_text("utf-8")))

    assert len(named) > 20
    assert named - {*finding_kinds(), *rules()} <= {*settings(), "config.json"}


def test_the_scripts_in_a_record_of_runs_by_hand_exist(root: Path) -> None:
    for block in SHELL_BLOCKS:
        if block.document in RECORDS:
            named = re.findall(r"\b(?:packages|kernels-cuda|docs)/[\w./-]+", script_of(block))
            assert all((root / each).exists() for each in named), str(block)


def test_sessions_that_the_documents_name_are_run_by_the_release_check(root: Path) -> None:
    script = (root / ".ci" / "run").read_text("utf-8")
    run_there = {each for line in script.splitlines() for each in sessions_of_script(line)}

    lines = [line for block in SHELL_BLOCKS for line in run_by_sessions(block)]
    lines += [line for each in DOCUMENTS for line in inline_commands(each)]
    named = {session for line in lines for session in sessions_in(line)}

    assert named - run_there - {"fast"} <= set(TESTED_ELSEWHERE)
    assert all((root / each).exists() for each in TESTED_ELSEWHERE.values())


def test_a_package_is_installed_as_its_document_says() -> None:
    """The sessions of noxfile.py install a package after the siblings that it declares."""
    lines = [
        (block, packages)
        for block in SHELL_BLOCKS
        for line in run_by_sessions(block)
        if (packages := installed_by(line)) is not None
    ]

    for block, packages in lines:
        assert packages[-1] == Path(block.document).parent.name, str(block)
        assert set(packages) == siblings_of(ROOT, packages[-1]) | {packages[-1]}, str(block)
    assert {packages[-1] for _, packages in lines} == set(ARROWS)


def test_lines_are_told_apart_by_who_runs_them() -> None:
    text = (
        '$ ./nox -s demo -- --prompt "x y"\nignored\n$ echo one\n$ python3 -m pip install nox uv\n'
    )
    block = Block("README.md", 1, "console", text, None)

    assert run_here(block) == "echo one"
    assert set(run_by_sessions(block)) == {'./nox -s demo -- --prompt "x y"', *SET_UP}
    assert sessions_in("./nox -s demo \"tests(package='pa-cache')\" -- -s no") == {"demo", "tests"}
    assert installed_by("pip install ./packages/pa-spec ./packages/pa-cache") == [
        "pa-spec",
        "pa-cache",
    ]
    assert installed_by("pip install numpy") is None


def sessions_of_script(line: str) -> set[str]:
    command = re.match(r"\s*(\./nox .*?)(?:\s[|>0-9].*)?$", line)
    return sessions_in(command[1]) if command else set()


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    scripts = Path(sys.executable).parent
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
