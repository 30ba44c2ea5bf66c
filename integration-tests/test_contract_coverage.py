"""Goal: tests cite contract ids that exist, and every active rule has its test and its line.

Method: read the marks from the tests' syntax trees, and the generated page.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from pa_spec import Decider, Rule, RuleStatus, invariants, rules

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


def rules_without_words(checkout: Path) -> list[str]:
    """Return active rules whose marked tests never write out a message that ends in the rule's id.

    What a test drives from the vectors of validation is written there; a rule that checks report
    is written with the id of a check.
    """
    vectors = (checkout / "spec" / "vectors" / "validation.json").read_text("utf-8")
    written: dict[str, str] = defaultdict(lambda: vectors)
    for folder in DECIDED_IN.values():
        for each, files in marked_ids(checkout, "rule", [folder]).items():
            written[each] += "".join((checkout / path).read_text("utf-8") for path in set(files))
    return [
        rule.id
        for rule in active_rules()
        if not any(
            word in written[rule.id]
            for word in ([f"{check}: " for check in rule.checks] or [f"({rule.id})"])
        )
    ]


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


def test_every_message_of_an_active_rule_is_written_out_in_its_test() -> None:
    assert rules_without_words(CHECKOUT) == []


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
    vectors = tmp_path / "spec/vectors"
    vectors.mkdir(parents=True)
    (vectors / "validation.json").write_text("block_size: expected 16, got 8 (V29)")
    missing = rules_without_words(tmp_path)
    assert "V29" not in missing
    assert {"V30", "V94"} <= set(missing)
    assert "V29" in rules_without_a_line("| V2 | cited: V29 |\n")
    assert "V29" not in rules_without_a_line("| V29 | x |\n")


def test_tests_of_the_checkout_are_found() -> None:
    files = {path for paths in marked_ids(CHECKOUT).values() for path in paths}

    assert "packages/pa-spec/tests/test_validation.py" in files


@pytest.mark.parametrize("word", ["V107", "E0", "V", "e1"])
def test_ids_beside_the_contract_are_unknown(word: str) -> None:
    assert word not in rules()
    assert word not in invariants()
