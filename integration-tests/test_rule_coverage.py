"""Goal: a rule counts as tested only by a test that can run, shows the message and a neighbour.

Method: one sound test of V83 in a checkout of its own, and ways to look like one.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest
from test_contract_coverage import rules_without_proof

MESSAGE = "state_groups: expected paged_kv groups only, got fixed_conv (V83)"
SOUND = f"""
import pytest

@pytest.mark.rule("V83")
def test_fixed_state():
    assert found_in(fixed) == ["{MESSAGE}"]
    assert found_in(paged) == []
"""
RAISED = f"""
import pytest

@pytest.mark.rule("V83")
def test_fixed_state():
    check(paged)
    with pytest.raises(ContractViolation) as caught:
        check(fixed)
    assert str(caught.value) == "{MESSAGE}"
"""
GIVEN = """
import pytest

PLACE = "state_groups"
CASES = [
    pytest.param(fixed, "expected paged_kv groups only, got fixed_conv", id="fixed"),
    (paged, None),
]

@pytest.mark.rule("V83")
@pytest.mark.parametrize(("document", "message"), CASES)
def test_fixed_state(document, message):
    wanted = [] if message is None else [f"{PLACE}: {message} (V83)"]
    assert found_in(document) == wanted
"""
MARKED_ROW = f"""
import pytest

@pytest.mark.parametrize(
    ("document", "messages"),
    [
        pytest.param(fixed, ["{MESSAGE}"], marks=pytest.mark.rule("V83")),
        (paged, []),
    ],
)
def test_fixed_state(document, messages):
    assert found_in(document) == messages
"""
SECOND = f"""
import pytest

@pytest.mark.rule("V83")
def test_fixed_state():
    assert found_in(fixed) == ["{MESSAGE}"]

@pytest.mark.rule("V83")
def test_paged_state():
    assert found_in(paged) == []
"""
PATTERN = r"""
import pytest

@pytest.mark.rule("V83")
def test_fixed_state():
    check(paged)
    with pytest.raises(ContractViolation, match=r"expected paged_kv .*, got fixed_conv \(V83\)"):
        check(fixed)
"""


def missing(checkout: Path, source: str) -> list[str]:
    """Return what V83 lacks when source is the only test of its package."""
    folder = checkout / "packages" / "pa-spec" / "tests"
    folder.mkdir(parents=True)
    (folder / "test_state.py").write_text(source)
    return [each for each in rules_without_proof(checkout) if each.startswith("V83:")]


@pytest.mark.parametrize("source", [SOUND, RAISED, GIVEN, MARKED_ROW, SECOND, PATTERN])
def test_a_message_that_is_compared_and_a_neighbour_that_passes_are_enough(
    tmp_path: Path, source: str
) -> None:
    assert missing(tmp_path, source) == []


ASSERTION = f'assert found_in(fixed) == ["{MESSAGE}"]'
NOT_TESTED = {
    "marked with another rule": ('rule("V83")', 'rule("V84")'),
    "marked as citing it": ('rule("V83")', 'spec("V83")'),
    "skipped": ("@pytest", "@pytest.mark.skip(reason='later')\n@pytest"),
    "skipped without a reason": ("@pytest", "@pytest.mark.skip\n@pytest"),
    "skipped on a condition": ("@pytest", "@pytest.mark.skipif(True, reason='x')\n@pytest"),
    "expected to fail": ("@pytest", "@pytest.mark.xfail\n@pytest"),
    "skips itself": (ASSERTION, f"pytest.skip('later')\n    {ASSERTION}"),
    "skipped with its module": ("@pytest", "pytestmark = pytest.mark.skip\n@pytest"),
    "no test": ("def test_fixed", "def fixed"),
    "hidden by a later one": (
        "assert found_in(paged)",
        "pass\ndef test_fixed_state():\n    assert x",
    ),
}
NO_MESSAGE = {
    "in a comment": (ASSERTION, f"assert found_in(fixed)  # {MESSAGE}"),
    "in a docstring": (ASSERTION, f'"""{MESSAGE}"""\n    assert found_in(fixed)'),
    "in a string of its own": (ASSERTION, f'print("{MESSAGE}")'),
    "in a name that nobody compares": (ASSERTION, f'message = "{MESSAGE}"'),
    "in an assertion that cannot fail": (ASSERTION, f'assert "{MESSAGE}"'),
    "compared with itself": (ASSERTION, f'assert "{MESSAGE}" == "{MESSAGE}"'),
    "or anything else": (ASSERTION, f"{ASSERTION} or found_in(fixed)"),
    "said to differ": ("fixed) == [", "fixed) != ["),
    "as the words of a failure": (ASSERTION, f'assert found_in(fixed) == other, "{MESSAGE}"'),
    "behind the end": (ASSERTION, f"assert found_in(paged) == []\n    return\n    {ASSERTION}"),
    "in dead code": (ASSERTION, f"if False:\n        {ASSERTION}"),
    "in a function that nobody calls": (ASSERTION, f"def inner():\n        {ASSERTION}"),
    "without its id": (" (V83)", ""),
    "of another rule": ("(V83)", "(V84)"),
    "as an id alone": (MESSAGE, "(V83)"),
    "without what was got": (", got fixed_conv", ""),
}


@pytest.mark.parametrize("change", NOT_TESTED.values(), ids=NOT_TESTED)
def test_a_test_that_does_not_run_or_is_about_something_else_proves_nothing(
    tmp_path: Path, change: tuple[str, str]
) -> None:
    assert missing(tmp_path, changed(SOUND, change)) == ["V83: message", "V83: neighbour"]


@pytest.mark.parametrize("change", NO_MESSAGE.values(), ids=NO_MESSAGE)
def test_a_message_that_no_assertion_sees_is_missing(
    tmp_path: Path, change: tuple[str, str]
) -> None:
    assert missing(tmp_path, changed(SOUND, change)) == ["V83: message"]


@pytest.mark.parametrize(
    ("source", "change"),
    [
        (SOUND, ("    assert found_in(paged) == []\n", "")),
        (SOUND, ("found_in(paged) == []", "found_in(paged) != []")),
        (SOUND, ("found_in(paged) == []", "found_in(paged, []) == 1")),
        (RAISED, ("    check(paged)\n", "")),
        (RAISED, ("    check(paged)\n", "    other(paged)\n")),
        (GIVEN, ("    (paged, None),\n", "")),
        (GIVEN, ("(paged, None)", "pytest.param(paged, None, marks=pytest.mark.skip)")),
        (MARKED_ROW, ("(paged, [])", "(paged, ['other'])")),
        (SECOND, ('@pytest.mark.rule("V83")\ndef test_paged', "def test_paged")),
    ],
)
def test_a_neighbour_that_nobody_sees_pass_is_missing(
    tmp_path: Path, source: str, change: tuple[str, str]
) -> None:
    assert missing(tmp_path, changed(source, change)) == ["V83: neighbour"]


def test_a_test_in_a_branch_that_is_never_taken_proves_nothing(tmp_path: Path) -> None:
    hidden = "if False:\n" + indent(SOUND, "    ")

    assert missing(tmp_path, hidden) == ["V83: message", "V83: neighbour"]


def test_a_row_that_is_skipped_proves_nothing(tmp_path: Path) -> None:
    skipped = ('pytest.mark.rule("V83")', '[pytest.mark.rule("V83"), pytest.mark.skip]')

    assert missing(tmp_path, changed(MARKED_ROW, skipped)) == ["V83: message", "V83: neighbour"]


def changed(source: str, change: tuple[str, str]) -> str:
    old, new = change
    assert old in source
    return source.replace(old, new)
