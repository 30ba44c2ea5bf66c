"""Goal: every test that the matrix of features names exists and can run.

Method: the modules are read, not run; a test that is skipped, or is not there, proves nothing.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT
from pa_spec import backend_features, backends, feature_tests
from rule_coverage import skips

NODES = sorted({node for cell in feature_tests().values() for node in cell})


def fault_of(node: str, root: Path) -> str:
    """Say what is wrong with a node id, "" when its test can run."""
    file, _, test = node.partition("::")
    path = root / file
    if not path.is_file():
        return f"{file} does not exist"
    module = ast.parse(path.read_text("utf-8"))
    marks = [
        each.value
        for each in module.body
        if isinstance(each, ast.Assign) and "pytestmark" in map(ast.unparse, each.targets)
    ]
    name = test.partition("[")[0]
    found = [
        each for each in module.body if isinstance(each, ast.FunctionDef) and each.name == name
    ]
    if not found:
        return f"{name} is not in {file}"
    if any(skips(each) for each in (*marks, *found[-1].decorator_list, *found[-1].body)):
        return f"{name} is skipped"
    return ""


@pytest.mark.parametrize("node", NODES)
def test_a_named_test_exists_and_can_run(node: str) -> None:
    assert fault_of(node, ROOT) == ""


def test_every_cell_has_a_test_and_what_is_served_has_one_of_each_kind() -> None:
    for feature in backend_features().values():
        for name, backend in backends().items():
            nodes = feature_tests().get((feature.name, name), ())
            wanted = 0 if backend.status.value == "pending" else 3
            assert len(nodes) == (min(wanted, 1) if feature.backends[name] == "no" else wanted)


@pytest.mark.slow
def test_an_example_runs_on_every_backend_that_serves_its_feature() -> None:
    served = {cell: nodes[0] for cell, nodes in feature_tests().items() if len(nodes) == 3}
    files = sorted({node.partition("::")[0] for node in served.values()})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *files]

    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    collected = set(re.findall(r"^(\S+?)\[(?:.*-)?(cpu|reference)\b", result.stdout, re.MULTILINE))
    wanted = {(node, backend) for (_, backend), node in served.items()}
    assert wanted - collected == set(), result.stdout[-500:] + result.stderr


def test_comparisons_with_others_stand_where_others_are_installed() -> None:
    for (feature, backend), nodes in feature_tests().items():
        if len(nodes) == 3:
            folders = [node.partition("/test_")[0] for node in nodes]
            own = "packages/pa-kernels/tests"
            assert folders == [own, "integration-tests", own], (feature, backend)


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("def test_it() -> None:\n    assert found\n", ""),
        ("def test_other() -> None:\n    assert found\n", "test_it is not in test_file.py"),
        ("@pytest.mark.skip\ndef test_it() -> None:\n    assert found\n", "test_it is skipped"),
        ("def test_it() -> None:\n    pytest.skip('later')\n", "test_it is skipped"),
        (
            "pytestmark = pytest.mark.skipif(True, reason='')\ndef test_it() -> None: ...\n",
            "test_it is skipped",
        ),
    ],
)
def test_a_test_that_cannot_run_is_a_fault(source: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "test_file.py").write_text(source)

    assert fault_of("test_file.py::test_it", tmp_path) == fault
    assert fault_of("test_none.py::test_it", tmp_path) == "test_none.py does not exist"
