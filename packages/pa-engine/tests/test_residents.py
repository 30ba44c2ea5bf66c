"""The resident table: rows come and go, views show what runs, nothing staged is visible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pa_engine import GeneratorParams
from pa_engine.residents import FIRST_MIRROR_TOKENS, FREE, ResidentTable, TurnStart
from pa_spec import RequestId, RequestState

SESSION = 100


def turn_start(
    params: GeneratorParams | None = None,
    *,
    prompt: int = 4,
    before: int = 0,
    turn_id: int = 1,
    eos: tuple[int, ...] = (),
) -> TurnStart:
    """Return the start of a turn of `prompt` tokens after `before` others."""
    return TurnStart(
        turn_id=turn_id,
        params=params or GeneratorParams(),
        seed=5,
        eos=eos,
        prompt_tokens=prompt,
        sequence_tokens=before + prompt,
        session_limit=SESSION,
    )


def _tokens(count: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.arange(1, count + 1, dtype=np.int32)


def _admitted(table: ResidentTable, row: int, request: int, prompt: int = 4) -> None:
    table.stage(row, RequestId(request), _tokens(prompt), turn_start(prompt=prompt))
    table.admit(np.array([row], np.int32))


@pytest.mark.spec("E41")
def test_the_view_shows_executable_residents_in_the_order_of_their_admission() -> None:
    table = ResidentTable(4)
    for row, request in ((2, 20), (0, 21), (3, 22)):
        _admitted(table, row, request)

    view = table.view()

    assert view.resident.tolist() == [2, 0, 3]
    assert view.request.tolist() == [20, 21, 22]
    assert view.committed_tokens.tolist() == [0, 0, 0]
    assert view.sequence_tokens.tolist() == view.prompt_tokens.tolist() == [4, 4, 4]
    assert view.limit_tokens.tolist() == [SESSION - 1] * 3
    assert table.free_rows().tolist() == [1]


@pytest.mark.spec("E41")
def test_rows_admitted_together_keep_the_order_that_they_were_given_in() -> None:
    table = ResidentTable(4)
    for row in (3, 1, 2):
        table.stage(row, RequestId(row), _tokens(2), turn_start(prompt=2))

    table.admit(np.array([3, 1, 2], np.int32))

    assert table.view().resident.tolist() == [3, 1, 2]


@pytest.mark.spec("E58")
def test_a_staged_row_is_invisible_until_it_is_admitted_and_forgotten_when_unstaged() -> None:
    table = ResidentTable(2)
    table.stage(1, RequestId(9), _tokens(4), turn_start())

    assert len(table.view().resident) == 0
    assert table.free_rows().tolist() == [0, 1]

    table.unstage(np.array([1], np.int32))

    assert table.columns.request.tolist() == [FREE, FREE]
    assert len(table.view().resident) == 0


@pytest.mark.spec("E17", "E41")
def test_a_complete_turn_is_not_executable_and_its_row_is_not_free() -> None:
    table = ResidentTable(2)
    _admitted(table, 0, 7)
    assert len(table.view().resident) == 1

    table.columns.state[0] = int(RequestState.TURN_COMPLETE)
    table.changed()

    assert len(table.view().resident) == 0
    assert table.free_rows().tolist() == [1]


def test_a_view_follows_counts_that_a_step_has_published() -> None:
    table = ResidentTable(2)
    _admitted(table, 0, 7)
    table.view()

    table.columns.committed_tokens[0] = 4
    table.columns.sequence_tokens[0] = 5

    view = table.view()
    assert (view.committed_tokens.tolist(), view.sequence_tokens.tolist()) == ([4], [5])


def test_a_row_counts_its_owners_and_its_next_one_starts_from_nothing() -> None:
    table = ResidentTable(1)
    _admitted(table, 0, 7)
    table.columns.committed_tokens[0] = table.columns.draws[0] = 3
    table.token_on_device[0] = True

    table.free(0)
    assert table.free_rows().tolist() == [0]
    assert table.columns.request.tolist() == [FREE]
    _admitted(table, 0, 8, prompt=2)

    assert table.columns.generation.tolist() == [2]
    assert table.columns.committed_tokens.tolist() == table.columns.draws.tolist() == [0]
    assert table.view().sequence_tokens.tolist() == [2]
    assert not table.token_on_device[0]


@pytest.mark.spec("E15", "E26")
def test_a_continuation_appends_behind_the_sequence_and_keeps_what_is_committed() -> None:
    table = ResidentTable(1)
    _admitted(table, 0, 7)
    columns = table.columns
    columns.committed_tokens[0], columns.draws[0], columns.turn_generated[0] = 4, 2, 2
    columns.sequence_tokens[0] = 6
    table.tokens[0, 4:6] = 90, 91

    table.begin(0, _tokens(3), 6, turn_start(prompt=3, before=6, turn_id=2))

    assert table.tokens[0, :9].tolist() == [1, 2, 3, 4, 90, 91, 1, 2, 3]
    assert columns.sequence_tokens.tolist() == columns.prompt_tokens.tolist() == [9]
    assert (columns.committed_tokens[0], columns.draws[0]) == (4, 2)
    assert (columns.turn_id[0], columns.turn_prompt[0], columns.turn_generated[0]) == (2, 3, 0)


@given(st.lists(st.integers(1, 5000), max_size=6))
def test_the_mirror_grows_by_doubling_and_keeps_its_tokens(lengths: list[int]) -> None:
    table = ResidentTable(2)
    table.tokens[1, :3] = 7, 8, 9

    for length in lengths:
        table.ensure_capacity(length)

    capacity = table.tokens.shape[1]
    needed = max(lengths, default=0)
    assert capacity >= needed
    assert capacity == FIRST_MIRROR_TOKENS or capacity < 2 * needed
    assert capacity % FIRST_MIRROR_TOKENS == 0
    assert (capacity // FIRST_MIRROR_TOKENS).bit_count() == 1
    assert table.tokens[1, :3].tolist() == [7, 8, 9]
    assert table.tokens.dtype == np.int32


def test_a_turn_with_fewer_end_ids_does_not_inherit_those_of_the_one_before() -> None:
    table = ResidentTable(2)
    table.ensure_eos(3)
    table.begin(0, _tokens(4), 0, turn_start(eos=(5, 6, 7)))
    table.begin(1, _tokens(4), 0, turn_start(eos=(8,)))

    table.begin(0, _tokens(4), 4, turn_start(before=4, turn_id=2, eos=(9,)))
    table.ensure_eos(2)

    assert table.eos.tolist() == [[9, FREE, FREE], [8, FREE, FREE]]


@pytest.mark.parametrize(
    ("params", "eos", "plain"),
    [
        (GeneratorParams(), (), True),
        (GeneratorParams(temperature=0.5, top_k=9, top_p=0.4), (3,), True),
        (GeneratorParams(do_sample=True, temperature=0), (), True),
        (GeneratorParams(do_sample=True), (), False),
        (GeneratorParams(repetition_penalty=1.1), (), False),
        (GeneratorParams(no_repeat_ngram_size=2), (), False),
        (GeneratorParams(min_generated_tokens=2), (3,), False),
        (GeneratorParams(min_generated_tokens=2), (), True),
    ],
)
@pytest.mark.spec("E73")
def test_a_row_is_plain_when_the_largest_logit_is_the_answer(
    params: GeneratorParams, eos: tuple[int, ...], *, plain: bool
) -> None:
    table = ResidentTable(1)
    table.ensure_eos(max(1, len(eos)))

    table.begin(0, _tokens(4), 0, turn_start(params, eos=eos))

    assert table.sampling.is_plain.tolist() == [plain]
    assert (table.sampling.temperature[0] == 0) == params.is_greedy


@pytest.mark.parametrize(
    ("limit", "before", "expected"),
    [(0, 0, SESSION - 1), (3, 0, 4 + 3 - 1), (3, 20, 24 + 3 - 1), (200, 0, SESSION - 1)],
)
@pytest.mark.spec("E13", "E14")
def test_the_cache_holds_all_but_the_last_token_of_the_nearer_limit(
    limit: int, before: int, expected: int
) -> None:
    start = turn_start(GeneratorParams(max_generated_tokens=limit), before=before)

    assert start.limit_tokens == expected
