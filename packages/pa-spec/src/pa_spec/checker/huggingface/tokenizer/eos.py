"""The ids that end a turn, and the files and keys that say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.huggingface.tokenizer.file import TokenizerFacts
from pa_spec.checker.meaning import EosId
from pa_spec.checker.text import shown

KEY = "eos_token_id"
MAX_IDS = 1000
"""Ids of one list; real ones have at most ten."""

_CONFIG = "config.json"
_GENERATION = "generation_config.json"


@dataclass(frozen=True, slots=True)
class EosSource:
    """What one file says: ids in the order written, None = it is silent.

    is_broken: what it says is no id, and was reported.
    """

    file: str
    key: str
    ids: tuple[int, ...] | None
    is_broken: bool = False

    @property
    def place(self) -> Place:
        """Where findings about it are."""
        return Place(self.file, self.key)

    def __str__(self) -> str:
        return f"{self.file} {self.key}"


def eos_sources(
    config: Mapping[str, Any], generation: Mapping[str, Any] | None, findings: Findings
) -> tuple[EosSource, ...]:
    """Read every configuration's ids, the one that wins first.

    generation: generation_config.json, None = there is none. It wins over config.json, whose top
    level wins over its text_config: what transformers and pa-models do.
    """
    nested = config.get("text_config")
    written = (
        (_GENERATION, KEY, generation or {}),
        (_CONFIG, KEY, config),
        (_CONFIG, f"text_config.{KEY}", nested if isinstance(nested, dict) else {}),
    )
    sources = []
    for file, key, values in written:
        sources.append(_source(values.get(KEY), Place(file, key), findings))
    return tuple(sources)


def resolve_eos(
    sources: Sequence[EosSource],
    tokenizer: TokenizerFacts | None,
    vocab_size: int,
    findings: Findings,
) -> tuple[EosId, ...]:
    """Return the set that serving uses, after reporting what contradicts it.

    The set is the first source's that says anything; the others only name origins.
    """
    speaking = [source for source in sources if source.ids]
    if not speaking:
        if not any(source.is_broken for source in sources):
            said = f"none; the tokenizer's is {_said(tokenizer)}" if _said(tokenizer) else "none"
            findings.add("eos.missing", Place(_CONFIG), KEY, said)
        return ()
    chosen = speaking[0]
    ids = sorted(set(chosen.ids or ()))
    for source in speaking:
        _check_range(source, vocab_size, findings)
    lost = _compare([source for source in sources if source.ids is not None], findings)
    if tokenizer is not None:
        # What the winner lost was said: that nothing else ends by it is the same mistake.
        _compare_tokenizer(chosen, lost.union(ids), tokenizer, findings)
    return tuple(EosId(each, _origins(each, speaking, tokenizer)) for each in ids)


def _source(value: object, place: Place, findings: Findings) -> EosSource:
    """Read one id or a list."""
    if value is None:
        return EosSource(*place, None)
    listed: list[Any] = value if isinstance(value, list) else [value]
    if len(listed) > MAX_IDS or not all(type(each) is int for each in listed):
        findings.add("eos.not_an_id", place, KEY, shown(value))
        return EosSource(*place, None, is_broken=True)
    return EosSource(*place, tuple(listed))


def _check_range(source: EosSource, vocab_size: int, findings: Findings) -> None:
    outside = [each for each in source.ids or () if not 0 <= each < vocab_size]
    if outside:
        actual = shown(outside[0])
        findings.add("eos.out_of_vocabulary", source.place, KEY, actual, vocab_size=vocab_size)


def _compare(written: Sequence[EosSource], findings: Findings) -> set[int]:
    """Return the ids that the first lacks and the next one has; a list may be empty."""
    # Only the next: what comes behind repeats it, or is not read at all.
    first, *others = written
    following = next((source for source in others if source.ids), first)
    lost = set(following.ids or ()) - set(first.ids or ())
    if lost:
        actual = f"without {shown(min(lost))}, which {following} has"
        findings.add("eos.conflict", first.place, KEY, actual)
    return lost


def _compare_tokenizer(
    chosen: EosSource, ids: set[int], tokenizer: TokenizerFacts, findings: Findings
) -> None:
    said = tokenizer.eos_id
    actual = ""
    if said is not None and said not in ids:
        actual = f"{_said(tokenizer)}, which is not among them"
    elif tokenizer.is_eos_unknown:
        actual = f"{shown(tokenizer.eos_token)}, which no token is"
    if actual:
        place = Place(tokenizer.eos_file, "eos_token")
        findings.add("eos.tokenizer_differs", place, "eos_token", actual, origin=str(chosen))
        return
    ending = tokenizer.template_end(ids)
    if ending is not None:
        place = Place(tokenizer.template_file, "chat_template")
        findings.add("eos.not_in_template", place, "chat_template", ending, origin=str(chosen))


def _origins(
    token_id: int, speaking: Sequence[EosSource], tokenizer: TokenizerFacts | None
) -> tuple[str, ...]:
    origins = [str(source) for source in speaking if token_id in (source.ids or ())]
    if tokenizer is not None and tokenizer.eos_id == token_id:
        origins.append(f"{tokenizer.eos_file} eos_token")
    return tuple(origins)


def _said(tokenizer: TokenizerFacts | None) -> str:
    if tokenizer is None or tokenizer.eos_id is None:
        return ""
    return f"{tokenizer.eos_id} ({shown(tokenizer.eos_token)})"
