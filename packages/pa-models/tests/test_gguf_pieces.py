"""SentencePiece vocabularies: the best joint score wins, spaces and bytes come back as text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pa_models import Tokenizer
from pa_models.fields import Fields
from pa_models.gguf_tokenizer import read_gguf_tokenizer
from pa_spec import InputUnusable

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
SCORED = {"▁": -50.0, "h": -51.0, "e": -52.0, "t": -53.0, "th": -3.0, "he": -1.0, "▁t": -2.0,
          "▁the": -4.0, "▁▁": -9.0}  # fmt: skip
PIECES = ["<unk>", "<s>", "</s>", *BYTES, *SCORED]


def metadata(**changes: Any) -> Fields:
    values: dict[str, Any] = {
        "model": "llama",
        "tokens": PIECES,
        "scores": [0.0] * 259 + list(SCORED.values()),
        "token_type": [2, 3, 3] + [6] * 256 + [1] * len(SCORED),
        "bos_token_id": 1,
        "eos_token_id": 2,
        "unknown_token_id": 0,
    }
    return Fields(
        "m.gguf", {f"tokenizer.ggml.{key}": value for key, value in (values | changes).items()}
    )


TOKENIZER = read_gguf_tokenizer(metadata())


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    return [PIECES[token] for token in tokenizer.encode(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the", ["<s>", "▁the"]),  # he (-1), then ▁t (-2), then both together
        ("th", ["<s>", "▁t", "h"]),  # ▁t (-2) is better than th (-3)
        (" the", ["<s>", "▁", "▁the"]),
        ("é", ["<s>", "▁", "<0xC3>", "<0xA9>"]),
        ("the</s>the", ["<s>", "▁the", "</s>", "▁the"]),
        ("", ["<s>"]),
    ],
)
def test_the_best_score_joins_first(text: str, expected: list[str]) -> None:
    assert pieces(TOKENIZER, text) == expected


@given(text=st.text(max_size=20).filter(lambda text: not set("▁<") & set(text)))
def test_text_survives(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


def test_space_before_the_text_is_the_models_choice() -> None:
    without = read_gguf_tokenizer(metadata(add_space_prefix=False, add_bos_token=False))

    assert pieces(without, "the") == ["t", "he"]
    assert pieces(without, " the") == ["▁the"]
    assert without.decode(without.encode(" the")) == " the"


def test_scores_must_fit_the_tokens() -> None:
    with pytest.raises(InputUnusable, match=r"scores.*2 numbers.*268"):
        read_gguf_tokenizer(metadata(scores=[1.0, 2.0]))
