"""What must hold of a step's tokens before anything is made of them: an executor may be anybody's.

A missing token would be read from a neighbour, and one outside the vocabulary would be the input
of the next step, so both are failures of the contract and not of one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from pa_spec import SampledTokens, Violation

from pa_engine.report import violation


def check_answers(sampled: SampledTokens, count: int, vocab_size: int) -> Sequence[Violation]:
    """Check that there are `count` tokens, int32 ids of the vocabulary; costs one reduction."""
    told = _of_another_kind(sampled)
    if told:
        return told
    token, faulty = sampled.token, sampled.faulty
    sound = (
        token.shape == (count,)
        and token.dtype == np.int32
        and (faulty is None or (faulty.shape == (count,) and faulty.dtype == np.bool_))
        # As unsigned numbers the negative ones are the largest.
        and (not count or int(token.view(np.uint32).max()) < vocab_size)
    )
    if sound:
        return ()
    return tuple(_explain(sampled, count, vocab_size))


def _of_another_kind(sampled: object) -> Sequence[Violation]:
    """Report an answer that is not SampledTokens of arrays and a whole number."""
    if not isinstance(sampled, SampledTokens):
        parts: list[tuple[str, object, type]] = [("answer", sampled, SampledTokens)]
    else:
        parts = [
            ("token", sampled.token, np.ndarray),
            ("faulty", sampled.token if sampled.faulty is None else sampled.faulty, np.ndarray),
            ("execution_ns", sampled.execution_ns, int),
        ]
    return [
        violation("answers.shape", name=name, found=type(part).__name__, expected=wanted.__name__)
        for name, part, wanted in parts
        if not isinstance(part, wanted)
    ]


def _explain(sampled: SampledTokens, count: int, vocab_size: int) -> Iterator[Violation]:
    token, faulty = sampled.token, sampled.faulty
    for name, column, kind in (("token", token, np.int32), ("faulty", faulty, np.bool_)):
        if column is not None and (column.shape != (count,) or column.dtype != kind):
            found = f"{column.dtype} {list(column.shape)}"
            yield violation(
                "answers.shape", name=name, found=found, expected=f"{np.dtype(kind)} [{count}]"
            )
    for place in np.flatnonzero((token < 0) | (token >= vocab_size)).tolist():
        last = vocab_size - 1
        yield violation("answers.vocabulary", place=place, token=token.flat[place], last=last)
