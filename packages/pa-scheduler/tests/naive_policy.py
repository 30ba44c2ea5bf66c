"""The decode-first policy written again, row by row, with lists and loops only.

It is the model that the array code is compared with; it shares nothing with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """One request: resident is None while it waits."""

    request: int
    resident: int | None
    committed: int
    sequence: int
    prompt: int
    limit: int
    drafts: int = 0

    @property
    def is_prefill(self) -> bool:
        return self.committed < self.prompt


@dataclass
class Packed:
    """What the plan says, as plain lists."""

    requests: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    drafts: list[int] = field(default_factory=list)
    logits: list[list[int]] = field(default_factory=list)


@dataclass(frozen=True)
class Limits:
    budget: int
    chunk: int = 0
    block_size: int = 16


def ordered(residents: Sequence[Row], waiting: Sequence[Row]) -> list[Row]:
    decodes = [row for row in residents if not row.is_prefill]
    prefills = [row for row in residents if row.is_prefill]
    return decodes + prefills + list(waiting)


def packed(rows: Sequence[Row], limits: Limits) -> Packed:
    left = limits.budget - len(rows)
    tokens = []
    for row in rows:
        more = row.sequence - row.committed - 1 if row.is_prefill else 0
        if limits.chunk:
            more = min(more, limits.chunk - 1)
        more = min(more, left)
        left -= more
        tokens.append(1 + more)

    drafts = []
    for row in rows:
        count = 0
        while (
            not row.is_prefill
            and count < row.drafts
            and left > 0
            and row.sequence + count < row.limit
            and (row.sequence + count) % limits.block_size
        ):
            count += 1
            left -= 1
        drafts.append(count)

    result = Packed()
    offset = 0
    for row, mandatory, extra in zip(rows, tokens, drafts, strict=True):
        result.requests.append(row.request)
        result.tokens.append(mandatory + extra)
        result.offsets.append(offset)
        result.targets.append(row.committed + mandatory + extra)
        result.drafts.append(extra)
        end = offset + mandatory + extra
        wants = 1 + extra if row.committed + mandatory == row.sequence else 0
        result.logits.append(list(range(end - wants, end)))
        offset = end
    return result
