"""Goal: tests cite contract ids that exist. Method: read the marks from the tests' syntax trees."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pa_spec import invariants, rules

CHECKOUT = Path(__file__).resolve().parent.parent


def ids_marked_in(source: str) -> Iterator[str]:
    """Yield every constant argument of a pytest.mark.spec(...), wherever it stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.spec":
            for argument in node.args:
                if isinstance(argument, ast.Constant):
                    yield str(argument.value)


def marked_ids(checkout: Path) -> Mapping[str, list[str]]:
    """Return each cited id with the test files that cite it."""
    found: dict[str, list[str]] = defaultdict(list)
    for folder in ("packages/*/tests", "integration-tests"):
        for path in sorted(checkout.glob(f"{folder}/**/test_*.py")):
            for each in ids_marked_in(path.read_text("utf-8")):
                found[each].append(path.relative_to(checkout).as_posix())
    return found


def test_marks_are_read_from_decorators_parameters_and_modules() -> None:
    source = """
import pytest
pytestmark = pytest.mark.spec("E1")
@pytest.mark.spec("V1", "V2")
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.spec("E2"))])
def test(x): ...
"""

    assert sorted(ids_marked_in(source)) == ["E1", "E2", "V1", "V2"]


def test_every_cited_id_exists() -> None:
    known = {*rules(), *invariants()}
    unknown = {each: files for each, files in marked_ids(CHECKOUT).items() if each not in known}

    assert unknown == {}


def test_tests_of_the_checkout_are_found() -> None:
    files = {path for paths in marked_ids(CHECKOUT).values() for path in paths}

    assert "packages/pa-spec/tests/test_validation.py" in files


@pytest.mark.parametrize("word", ["V107", "E0", "V", "e1"])
def test_ids_beside_the_contract_are_unknown(word: str) -> None:
    assert word not in rules()
    assert word not in invariants()
