"""Streamed text equals the whole text, never shows half a character, never repeats the prompt."""

from __future__ import annotations

import json

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from pa_models import Tokenizer
from pa_models.testing import tiny_tokenizer
from pa_spec import InputUnusable
from tokenizers import decoders, models

BROKEN = "\N{REPLACEMENT CHARACTER}"
BYTE_LEVEL = Tokenizer(tiny_tokenizer())
START = 256  # the first special token


def fallback_tokenizer(*, strip: bool = True) -> Tokenizer:
    """A vocabulary as SentencePiece models have it: pieces with U+2581, and <0x..> bytes."""
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "▁the", "a", "é", "<0xZZ>"]
    backend = tokenizers.Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, []))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*steps, *([decoders.Strip(" ", 1, 0)] if strip else [])])
    return Tokenizer(backend)


FALLBACK = fallback_tokenizer()
TOKENIZERS = {"byte level": BYTE_LEVEL, "byte fallback": FALLBACK}


def byte_tokens(text: bytes) -> list[int]:
    """Tokens of single bytes, so that characters split."""
    by_byte = {BYTE_LEVEL._bytes[token]: token for token in range(256)}
    return [by_byte[bytes([byte])] for byte in text]


@pytest.mark.parametrize("name", TOKENIZERS)
@given(data=st.data())
def test_pieces_add_up_to_the_whole_text(name: str, data: st.DataObject) -> None:
    tokenizer = TOKENIZERS[name]
    tokens = data.draw(st.lists(st.integers(0, tokenizer.vocab_size + 3), max_size=40))
    stream = tokenizer.stream()

    pieces = [stream.put(token) for token in tokens]

    assert "".join(pieces) + stream.finish() == tokenizer.decode(tokens)


@given(tokens=st.lists(st.integers(0, 299), max_size=40))
def test_whole_text_is_the_backends_own(tokens: list[int]) -> None:
    for skip in (True, False):
        expected = BYTE_LEVEL.backend.decode(tokens, skip_special_tokens=skip)

        assert BYTE_LEVEL.decode(tokens, skip_special=skip) == expected


@given(text=st.text(max_size=30))
def test_fallback_bytes_of_real_text_are_the_backends_own(text: str) -> None:
    tokens = [1 + byte for byte in text.encode()]

    assert FALLBACK.decode([258, *tokens]) == FALLBACK.backend.decode([258, *tokens])


@given(text=st.text(max_size=30))
def test_no_piece_holds_half_a_character(text: str) -> None:
    stream = BYTE_LEVEL.stream()

    pieces = [stream.put(token) for token in byte_tokens(text.encode())]

    assert "".join(pieces) == text
    assert stream.finish() == ""
    assert all(len(piece) <= 1 for piece in pieces)


@given(text=st.text(min_size=1, max_size=12), data=st.data())
def test_prompt_cut_anywhere_never_leaks(text: str, data: st.DataObject) -> None:
    """The cut may fall within a character; what follows is the rest of the text from there on."""
    encoded = text.encode()
    cut = data.draw(st.integers(0, len(encoded)))
    stream = BYTE_LEVEL.stream(byte_tokens(encoded[:cut]))

    generated = stream.put_many(byte_tokens(encoded[cut:])) + stream.finish()

    whole_characters = encoded[:cut].decode(errors="ignore")
    assert whole_characters + generated == text


def test_character_that_the_prompt_began_is_completed() -> None:
    first, *rest = "😀".encode()
    stream = BYTE_LEVEL.stream(byte_tokens(b"hi " + bytes([first])))

    pieces = [stream.put(token) for token in byte_tokens(bytes(rest) + b"!")]

    assert pieces == ["", "", "😀", "!"]


def test_character_that_nothing_continues_stays_the_prompts() -> None:
    first = "😀".encode()[:1]

    assert BYTE_LEVEL.stream(byte_tokens(first)).put_many(byte_tokens(b"ok")) == "ok"
    assert BYTE_LEVEL.stream(byte_tokens(first)).finish() == ""


def test_broken_character_with_generated_bytes_is_shown_once() -> None:
    first, second = "😀".encode()[:2]
    stream = BYTE_LEVEL.stream(byte_tokens(bytes([first])))

    assert stream.put_many(byte_tokens(bytes([second]))) == ""
    assert stream.put_many(byte_tokens(b"ok")) == f"{BROKEN}ok"


def test_unfinished_character_at_the_end_is_one_replacement() -> None:
    stream = BYTE_LEVEL.stream()

    assert stream.put_many(byte_tokens("é".encode()[:1])) == ""
    assert stream.finish() == BROKEN
    assert stream.finish() == ""


def test_special_tokens_are_silent_unless_asked_for() -> None:
    tokens = [START, *byte_tokens(b"a")]

    assert BYTE_LEVEL.stream().put_many(tokens) == "a"
    assert BYTE_LEVEL.stream(skip_special=False).put_many(tokens) == "<|start|>a"


def test_leading_space_belongs_to_the_text_after_a_prompt_only() -> None:
    the = 258

    assert FALLBACK.decode([the]) == "the"
    assert FALLBACK.stream([the]).put(the) == " the"
    assert fallback_tokenizer(strip=False).decode([the]) == " the"


def test_metaspace_decoders_are_understood() -> None:
    backend = tokenizers.Tokenizer(models.BPE({"▁a": 0, "b": 1}, []))
    backend.decoder = decoders.Metaspace()

    tokenizer = Tokenizer(backend)

    assert tokenizer.decode([0, 1, 0]) == backend.decode([0, 1, 0]) == "ab a"


def test_unknown_decoder_is_named() -> None:
    backend = tokenizers.Tokenizer(models.BPE({"a": 0}, []))
    with pytest.raises(InputUnusable, match="none"):
        Tokenizer(backend)

    backend.decoder = decoders.CTC()
    assert json.loads(backend.decoder.__getstate__())["type"] == "CTC"
    with pytest.raises(InputUnusable, match=r"CTC.*ByteLevel"):
        Tokenizer(backend)
