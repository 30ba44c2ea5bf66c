"""The kept list of mutations fits the sources; the session `mutations` runs it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from kernel_mutations import PACKAGE, Mutation, mutations, unknown_tests

MUTATIONS = mutations()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.id)
def test_a_mutation_changes_one_place_and_names_tests_that_exist(mutation: Mutation) -> None:
    text = (PACKAGE / mutation.file).read_text("utf-8")

    assert mutation.applied_to(text) != text
    assert mutation.tests
    assert list(unknown_tests(mutation)) == []


def test_mutations_have_names_of_their_own_and_are_many() -> None:
    assert [
        name for name, count in Counter(each.id for each in MUTATIONS).items() if count > 1
    ] == []
    assert len(MUTATIONS) >= 60


def test_a_text_that_is_not_there_once_is_refused() -> None:
    mutation = replace(MUTATIONS[0], find="x")

    with pytest.raises(ValueError, match="found 2 times"):
        mutation.applied_to("x x")
    with pytest.raises(ValueError, match="found 0 times"):
        mutation.applied_to("y")


def test_tests_that_do_not_exist_are_named() -> None:
    known = "test_mutations.py::test_tests_that_do_not_exist_are_named"
    names = (known, "test_mutations.py", "test_nothing.py", "test_mutations.py::test_nothing")

    assert list(unknown_tests(replace(MUTATIONS[0], tests=names))) == list(names[2:])
