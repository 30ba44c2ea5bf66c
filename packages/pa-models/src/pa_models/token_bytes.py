"""Which bytes of text each token stands for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, final

import tokenizers
from pa_spec import InputUnusable

_SUPPORTED = "ByteLevel, Metaspace, or a Sequence of Replace, ByteFallback, Fuse and Strip"


@dataclass(frozen=True, slots=True)
class DecoderRules:
    """How a tokenizer's decoder turns token strings into text.

    byte_level: every character of a token is one byte, in GPT-2's printable alphabet.
    byte_fallback: tokens like <0x0A> are one byte. replacements: strings that stand for others.
    strip_spaces: leading spaces of a text that are not part of it.
    """

    byte_level: bool = False
    byte_fallback: bool = False
    replacements: tuple[tuple[str, str], ...] = ()
    strip_spaces: int = 0


@final
class TokenBytes:
    """The bytes of every token, looked up once each.

    Text is what the concatenated bytes say in UTF-8; broken sequences become U+FFFD.
    """

    def __init__(self, backend: tokenizers.Tokenizer, name: str) -> None:
        self._backend = backend
        self.rules = _read_rules(backend, name)
        self._known: dict[int, bytes] = {}

    def __getitem__(self, token: int) -> bytes:
        found = self._known.get(token)
        if found is None:
            found = self._known[token] = self._look_up(token)
        return found

    def _look_up(self, token: int) -> bytes:
        text = self._backend.id_to_token(token)
        if text is None:  # ids beyond the vocabulary, as padded output layers have them
            return b""
        rules = self.rules
        if rules.byte_level:
            if all(letter in _BYTE_OF_LETTER for letter in text):
                return bytes(_BYTE_OF_LETTER[letter] for letter in text)
            return text.encode()
        if rules.byte_fallback and len(text) == 6 and text.startswith("<0x") and text[5] == ">":
            try:
                return bytes([int(text[3:5], 16)])
            except ValueError:
                pass
        for old, new in rules.replacements:
            text = text.replace(old, new)
        return text.encode()


def _read_rules(backend: tokenizers.Tokenizer, name: str) -> DecoderRules:
    if backend.decoder is None:
        raise InputUnusable(f"{name}: decoder", "none", _SUPPORTED)
    spec: Mapping[str, Any] = json.loads(backend.decoder.__getstate__())
    steps = spec["decoders"] if spec["type"] == "Sequence" else [spec]
    byte_level = byte_fallback = False
    replacements: list[tuple[str, str]] = []
    strip_spaces = 0
    for step in steps:
        match step["type"]:
            case "ByteLevel":
                byte_level = True
            case "ByteFallback":
                byte_fallback = True
            case "Fuse":
                pass
            case "Replace" if "String" in step["pattern"]:
                replacements.append((step["pattern"]["String"], step["content"]))
            case "Strip" if step["content"] == " " and step["stop"] == 0:
                strip_spaces = step["start"]
            case "Metaspace":
                replacements.append((step["replacement"], " "))
                strip_spaces = int(step.get("prepend_scheme", "always") != "never")
            case other:
                raise InputUnusable(f"{name}: decoder", f"{other} is not supported", _SUPPORTED)
    return DecoderRules(byte_level, byte_fallback, tuple(replacements), strip_spaces)


def _byte_letters() -> Mapping[str, int]:
    """Build GPT-2's alphabet: printable Latin-1 stands for itself, the rest follows from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in printable]
    letters.update({chr(0x100 + index): byte for index, byte in enumerate(others)})
    return MappingProxyType(letters)


_BYTE_OF_LETTER = _byte_letters()
