"""A tokenizer's tokens and their ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.text import printable, shortened, shown

MAX_ID = 2**31 - 1
"""Ids are int32 where they are packed for a model."""


@final
class Vocabulary:
    """Tokens by text, as one file has them.

    tokens: the model's own. added: those that are matched before it. specials: texts of added
    tokens that are special. file: where they stand.
    """

    def __init__(self, tokens: Mapping[str, int], file: str) -> None:
        self.tokens = tokens
        self.added: dict[str, int] = {}
        self.specials: list[str] = []
        self.file = file

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

    def add_decoder(self, decoder: object) -> None:
        """Take in added_tokens_decoder of tokenizer_config.json, by id, where it says more."""
        for token_id, entry in decoder.items() if isinstance(decoder, dict) else ():
            text = entry.get("content") if isinstance(entry, dict) else None
            is_new = isinstance(text, str) and text not in self.added and text not in self.tokens
            if is_new and token_id.isascii() and token_id.isdigit() and len(token_id) < 11:
                self.add(text, int(token_id), is_special=entry.get("special") is True)

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
    return Vocabulary(written, file)


def _is_id(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_ID
