"""Goal: tests cite contract ids that exist, and every active rule has its test and its line.

Method: read the marks from the tests' syntax trees, and the generated page; rule_coverage.py says
what a test proves.
"""

from __future__ import annotations

import ast
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from pa_spec import Decider, Rule, RuleStatus, invariants, rules
from rule_coverage import rule_tests

CHECKOUT = Path(__file__).resolve().parent.parent
FOLDERS = ("packages/*/tests", "integration-tests")
DECIDED_IN = {
    Decider.SPEC: "packages/pa-spec/tests",
    Decider.CHECKER: "packages/pa-spec/tests",
    Decider.KERNELS: "packages/pa-kernels/tests",
    Decider.CACHE: "packages/pa-cache/tests",
    Decider.ENGINE: "packages/pa-engine/tests",
}
"""Where the test of a rule stands; no active rule is decided by a device."""


def ids_marked_in(source: str, mark: str = "spec") -> Iterator[str]:
    """Yield every constant argument of a pytest.mark.<mark>(...), wherever it stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"pytest.mark.{mark}":
            for argument in node.args:
                if isinstance(argument, ast.Constant):
                    yield str(argument.value)


def marked_ids(
    checkout: Path, mark: str = "spec", folders: Sequence[str] = FOLDERS
) -> Mapping[str, list[str]]:
    """Return each cited id with the test files that cite it."""
    found: dict[str, list[str]] = defaultdict(list)
    for folder in folders:
        for path in sorted(checkout.glob(f"{folder}/**/test_*.py")):
            for each in ids_marked_in(path.read_text("utf-8"), mark):
                found[each].append(path.relative_to(checkout).as_posix())
    return found


def active_rules() -> list[Rule]:
    return [rule for rule in rules().values() if rule.status is RuleStatus.ACTIVE]


def rules_without_a_test(checkout: Path) -> list[str]:
    """Return active rules that no test of the package that decides them is marked with."""
    tested = {
        decider: set(marked_ids(checkout, "rule", [folder]))
        for decider, folder in DECIDED_IN.items()
    }
    return [
        f"{rule.id} in {DECIDED_IN.get(rule.decided_by, 'no package')}"
        for rule in active_rules()
        if rule.id not in tested.get(rule.decided_by, ())
    ]


def rules_without_proof(checkout: Path) -> list[str]:
    """Return active rules whose marked tests do not show the message, or no legal neighbour.

    The message of a rule has its id behind the words that every refusal has; a rule that checks
    report has the id of a check before it. Vectors hold messages and neighbours for the tests that
    they drive.
    """
    found = []
    for decider, folder in DECIDED_IN.items():
        paths = sorted(checkout.glob(f"{folder}/**/test_*.py"))
        tests = [each for path in paths for each in rule_tests(path)]
        for rule in active_rules():
            own = [each for each in tests if rule.id in each.ids]
            if rule.decided_by is not decider:
                continue
            driven = {each for test in own for each in refused_in(checkout, test.vectors)}
            is_driven = any(f"({rule.id})" in text for text in driven)
            if not (is_driven or any(writes_out(rule, each.texts) for each in own)):
                found.append(f"{rule.id}: message")
            if not (is_driven or any(each.accepts for each in own)):
                found.append(f"{rule.id}: neighbour")
    return found


def writes_out(rule: Rule, texts: Sequence[str]) -> bool:
    if rule.checks:
        return any(text.startswith(f"{check}: ") for check in rule.checks for text in texts)
    words = ("expected ", "got", f"({rule.id})")
    return all(any(word in text and text != word for text in texts) for word in words)


def refused_in(checkout: Path, names: Iterable[str]) -> Iterator[str]:
    """Yield messages of vectors that have a neighbour."""
    for name in names:
        text = (checkout / "spec" / "vectors" / f"{name}.json").read_text("utf-8")
        for case in json.loads(text)["cases"]:
            if case.get("neighbour"):
                yield from case.get("violations", ())


def rules_without_a_line(page: str) -> list[str]:
    """Return active rules that have no row, or several, in the page about rules."""
    rows = Counter(line.split("|")[1].strip() for line in page.splitlines() if line[:1] == "|")
    return [rule.id for rule in active_rules() if rows[rule.id] != 1]


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


def test_every_active_rule_has_a_test_in_the_package_that_decides_it() -> None:
    assert rules_without_a_test(CHECKOUT) == []


def test_every_active_rule_has_its_message_and_its_neighbour_in_a_test_that_can_run() -> None:
    assert rules_without_proof(CHECKOUT) == []


def test_every_active_rule_has_a_line_in_the_generated_page() -> None:
    page = (CHECKOUT / "docs" / "reference" / "rules.md").read_text("utf-8")

    assert rules_without_a_line(page) == []


def test_tests_of_rules_are_about_active_rules() -> None:
    active = {rule.id for rule in active_rules()}

    assert set(marked_ids(CHECKOUT, "rule")) - active == set()


def test_rule_without_a_test_or_a_line_is_found(tmp_path: Path) -> None:
    other, own = tmp_path / "packages/pa-engine/tests", tmp_path / "packages/pa-cache/tests"
    for folder in (other, own):
        folder.mkdir(parents=True)
    (other / "test_other.py").write_text('@pytest.mark.rule("V94")\ndef test(): ...\n')

    assert "V94 in packages/pa-cache/tests" in rules_without_a_test(tmp_path)
    (own / "test_own.py").write_text('@pytest.mark.rule("V94")\ndef test(): ...\n')
    assert "V94 in packages/pa-cache/tests" not in rules_without_a_test(tmp_path)
    assert "V29" in rules_without_a_line("| V2 | cited: V29 |\n")
    assert "V29" not in rules_without_a_line("| V29 | x |\n")


def test_tests_of_the_checkout_are_found() -> None:
    files = {path for paths in marked_ids(CHECKOUT).values() for path in paths}

    assert "packages/pa-spec/tests/test_validation.py" in files


@pytest.mark.parametrize("word", ["V107", "E0", "V", "e1"])
def test_ids_beside_the_contract_are_unknown(word: str) -> None:
    assert word not in rules()
    assert word not in invariants()
