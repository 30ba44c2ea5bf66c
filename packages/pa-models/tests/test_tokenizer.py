"""Encoding, special tokens, and what starts a text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pa_models import Tokenizer
from pa_models.folder_tokenizer import read_folder_tokenizer
from pa_models.testing import tiny_tokenizer
from pa_spec import InputUnusable
from tokenizers import processors

START, END = 256, 257


def folder(path: Path, config: dict[str, Any], *, template: bool = False) -> Path:
    backend = tiny_tokenizer()
    if template:
        backend.post_processor = processors.TemplateProcessing(
            single="<|start|> $A", special_tokens=[("<|start|>", START)]
        )
    backend.save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    return path


@given(text=st.text(max_size=50))
def test_text_survives_encode_and_decode(text: str) -> None:
    tokenizer = Tokenizer(tiny_tokenizer())

    assert tokenizer.decode(tokenizer.encode(text), skip_special=False) == text


def test_control_tokens_in_the_text_are_recognized() -> None:
    tokenizer = Tokenizer(tiny_tokenizer())

    assert tokenizer.encode("<|start|><|end|>") == [START, END]
    assert tokenizer.special_ids == {START, END}
    assert tokenizer.token_id("<|end|>") == END
    assert tokenizer.token_id("<|nothing|>") is None


@pytest.mark.parametrize(
    ("add_bos", "template", "starts"),
    [
        (None, False, False),
        (None, True, True),
        (True, False, True),
        (True, True, True),
        (False, True, False),
        (False, False, False),
    ],
)
def test_one_start_token_or_none(
    tmp_path: Path, *, add_bos: bool | None, template: bool, starts: bool
) -> None:
    config: dict[str, Any] = {"bos_token": {"content": "<|start|>", "lstrip": False}}
    if add_bos is not None:
        config["add_bos_token"] = add_bos
    tokenizer = read_folder_tokenizer(folder(tmp_path, config, template=template))

    tokens = tokenizer.encode("a")

    assert tokens.count(START) == int(starts)
    assert tokenizer.bos_token_id == START
    assert START not in tokenizer.encode("a", add_special=False)


def test_start_token_outside_the_vocabulary_is_refused(tmp_path: Path) -> None:
    config = {"bos_token": "<s>", "add_bos_token": True}

    with pytest.raises(InputUnusable, match=r"bos_token.*<s>"):
        read_folder_tokenizer(folder(tmp_path, config))


@pytest.mark.parametrize("text", ["", "{}", "{", '{"model": {"type": "Magic"}}'])
def test_file_that_is_no_tokenizer_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "tokenizer.json").write_text(text)

    with pytest.raises(InputUnusable, match=r"tokenizer\.json: not a tokenizer"):
        read_folder_tokenizer(tmp_path)


def test_repr_says_what_it_is() -> None:
    tokenizer = Tokenizer(tiny_tokenizer(), "here")

    assert repr(tokenizer) == f"Tokenizer('here', vocab_size={tokenizer.vocab_size}, bos=None)"
