"""A tokenizer's tokens and their ids."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, final

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.text import printable, shortened, shown

MAX_ID = 2**31 - 1
"""Ids are int32 where they are packed for a model."""


@final
class Vocabulary:
    """Tokens by text, as one file has them.

    tokens: the model's own. added: those that are matched before it. specials: texts of added
    tokens that are special. file: where they stand, but for those of other files.
    """

    def __init__(self, tokens: Mapping[str, int], file: str) -> None:
        self.tokens = tokens
        self.added: dict[str, int] = {}
        self.specials: list[str] = []
        self.file = file
        self._files: dict[str, str] = {}

    def id_of(self, text: str) -> int | None:
        """Return a token's id, None when there is no such token."""
        found = self.added.get(text)
        return self.tokens.get(text) if found is None else found

    def text_of(self, token_id: int) -> str:
        """Return a token's text, "" when no token has the id."""
        for tokens in (self.added, self.tokens):
            for text, each in tokens.items():
                if each == token_id:
                    return text
        return ""

    def add(self, text: object, token_id: object, *, is_special: bool) -> bool:
        """Take in an added token; False when it is none."""
        if not isinstance(text, str) or not _is_id(token_id):
            return False
        self.added[text] = int(str(token_id))
        if is_special:
            self.specials.append(text)
        return True

    def add_decoder(self, decoder: object, place: Place, findings: Findings) -> None:
        """Take in added_tokens_decoder of tokenizer_config.json: entries by their ids' digits."""
        ids: dict[str, int] = {}
        specials = set()
        for token_id, entry in decoder.items() if isinstance(decoder, dict) else ():
            text = entry.get("content") if isinstance(entry, dict) else None
            if isinstance(text, str) and token_id.isascii() and token_id.isdigit():
                ids[text] = int(token_id[:11])
                if entry.get("special") is True:
                    specials.add(text)
        self.add_further(ids, place, findings, specials)

    def add_further(
        self,
        written: Mapping[str, Any],
        place: Place,
        findings: Findings,
        specials: Collection[str] = (),
    ) -> None:
        """Take in the added tokens of another file where it says more; report where it differs."""
        differing = []
        for text, token_id in written.items():
            known = self.id_of(text)
            if known is None:
                if self.add(text, token_id, is_special=text in specials):
                    self._files[text] = place.file
            elif _is_id(token_id) and token_id != known:
                differing.append(text)
        if differing:
            first = differing[0]
            more = f", and {len(differing) - 1} more like it" if len(differing) > 1 else ""
            actual = f"{written[first]}{more}"
            values = {"id": self.id_of(first), "file": self._files.get(first, self.file)}
            name = printable(shortened(first))
            findings.add("tokenizer.id_differs", place, name, actual, **values)

    def check_ids(self, vocab_size: int, findings: Findings) -> None:
        """Report ids that the embedding has no row for, the greatest of each kind.

        Rows that no token has are usual, as vocabularies are padded; half of them are not.
        """
        count = len(self.tokens.keys() | self.added.keys())
        if 2 * count < vocab_size:
            actual = f"{count} tokens"
            findings.add(
                "tokenizer.smaller", Place(self.file), "vocabulary", actual, vocab_size=vocab_size
            )
        tables = {
            "tokenizer.beyond_vocabulary": self.tokens,
            "tokenizer.added_beyond_vocabulary": self.added,
        }
        reported = set()
        for kind, tokens in tables.items():
            beyond = [text for text, each in tokens.items() if each >= vocab_size]
            outside = [text for text in beyond if text not in reported]
            reported.update(outside)
            if outside:
                last = max(outside, key=tokens.__getitem__)
                more = f", and {len(outside) - 1} more" if len(outside) > 1 else ""
                actual = f"{tokens[last]}{more}"
                name = printable(shortened(last))
                findings.add(kind, Place(self.file, name), "id", actual, vocab_size=vocab_size)


def read_vocabulary(
    document: Mapping[str, Any], file: str, findings: Findings
) -> Vocabulary | None:
    """Read a tokenizer.json, or return None after reporting why it has no vocabulary."""
    model = document.get("model")
    written = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(written, list):
        # Unigram models list pieces with their scores; the position is the id.
        pieces = (each[0] if isinstance(each, list) and each else None for each in written)
        written = {text: index for index, text in enumerate(pieces) if isinstance(text, str)}
    if not isinstance(written, dict) or not written:
        findings.add("tokenizer.no_vocabulary", Place(file, "model.vocab"), "vocab", shown(written))
        return None
    vocabulary = read_vocab(written, file, findings)
    if vocabulary is None:
        return None
    listed = document.get("added_tokens")
    for entry in listed if isinstance(listed, list) else ():
        values = entry if isinstance(entry, dict) else {}
        is_special = values.get("special") is True
        if not vocabulary.add(values.get("content"), values.get("id"), is_special=is_special):
            actual = shown(values.get("id")) if values else shown(entry)
            findings.add("tokenizer.bad_id", Place(file, "added_tokens"), "id", actual)
    _check_unique(vocabulary.added, Place(file, "added_tokens"), findings)
    return vocabulary


def read_vocab(written: Mapping[str, Any], file: str, findings: Findings) -> Vocabulary | None:
    """Take an object of tokens and ids, or return None after reporting the first that is none."""
    for text, token_id in written.items():
        if not _is_id(token_id):
            place = Place(file, printable(shortened(text)))
            findings.add("tokenizer.bad_id", place, "id", shown(token_id))
            return None
    if not written:
        findings.add("tokenizer.no_vocabulary", Place(file), "vocab", shown(written))
        return None
    _check_unique(written, Place(file), findings)
    return Vocabulary(written, file)


def _check_unique(tokens: Mapping[str, int], place: Place, findings: Findings) -> None:
    """Report an id that two tokens of one table have; which of them it becomes, readers choose."""
    if len(set(tokens.values())) == len(tokens):
        return
    texts: dict[int, str] = {}
    twice = [text for text, token_id in tokens.items() if texts.setdefault(token_id, text) != text]
    name = printable(shortened(twice[0]))
    more = f", and {len(twice) - 1} more like it" if len(twice) > 1 else ""
    actual = f"{tokens[twice[0]]}, which {shown(texts[tokens[twice[0]]])} has{more}"
    findings.add("tokenizer.id_twice", place, name, actual)


def _is_id(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_ID
