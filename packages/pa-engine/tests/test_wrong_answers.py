"""Whatever a broken executor answers in shape or range is a contract failure, never a token."""

from __future__ import annotations

import re

import numpy as np
import pytest
from engine_cases import CONFIG
from pa_engine import Engine, GeneratorParams
from pa_engine.step.answer_check import check_answers
from pa_spec import ErrorCode, InvariantViolation, SampledTokens
from wrong_answers import VOCABULARY, WRONG_ANSWERS, BrokenExecutor, WrongAnswer


@pytest.mark.parametrize("wrong", WRONG_ANSWERS, ids=lambda wrong: wrong.name)
@pytest.mark.spec("E72", "E74", "E84", "E88")
def test_a_wrong_answer_stops_the_engine_and_nothing_of_it_is_committed(
    wrong: WrongAnswer,
) -> None:
    executor = BrokenExecutor()
    engine = Engine(executor, CONFIG)
    requests = [engine.create_request(GeneratorParams(max_generated_tokens=5)) for _ in range(2)]
    for request in requests:
        request.begin_turn([1, 2, 3])
    engine.run()
    before = [request.tokens.tolist() for request in requests]
    executor.change = wrong.change

    events = list(engine.run())

    assert [event.error_code for event in events] == [ErrorCode.ENGINE_CONTRACT_FAILURE] * 2
    with pytest.raises(InvariantViolation) as stored:
        engine.run()
    assert {each.check_id for each in stored.value.violations} == {wrong.check_id}
    assert re.search(wrong.found, stored.value.violations[0].found)
    assert [request.tokens.tolist() for request in requests] == before
    assert engine.check_all() == ()


@pytest.mark.parametrize("tokens", [[], [0], [VOCABULARY - 1, 0, 5]])
def test_ids_of_the_vocabulary_are_accepted(tokens: list[int]) -> None:
    for faulty in (None, np.ones(len(tokens), np.bool_)):
        sampled = SampledTokens(np.array(tokens, np.int32), faulty)

        assert check_answers(sampled, len(tokens), VOCABULARY) == ()
