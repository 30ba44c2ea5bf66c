"""Tokenizer files: there, readable, and no id that the model has no row for."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pa_spec.checker.check import check_model
from safetensors_writer import LLAMA, write_folder

NAME = "tokenizer.json"


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        document = json.loads((folder / NAME).read_text())
        change(document)
        (folder / NAME).write_text(json.dumps(document))

    return edit


def removed(folder: Path) -> None:
    (folder / NAME).unlink()


def plain_vocabulary(folder: Path) -> None:
    removed(folder)
    (folder / "vocab.json").write_text(
        json.dumps({f"{index}": index for index in range(90)} | {"</s>": 2})
    )


def vocabulary_and_merges(folder: Path) -> None:
    plain_vocabulary(folder)
    (folder / "merges.txt").write_text("#version: 0.2\n")


def sentencepiece(folder: Path) -> None:
    removed(folder)
    (folder / "tokenizer.model").write_bytes(b"\x0a\x05")


def empty_sentencepiece(folder: Path) -> None:
    removed(folder)
    (folder / "tokenizer.model").touch()


def pointer(folder: Path) -> None:
    removed(folder)
    (folder / "tokenizer.model").write_text("version https://git-lfs.github.com/spec/v1\n")


def folder_in_its_place(folder: Path) -> None:
    removed(folder)
    (folder / NAME).mkdir()


def settings_are_list(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text("[]")


def unigram(document: dict[str, Any]) -> None:
    pieces = [[text, -1.0] for text in document["model"]["vocab"]]
    document["model"] = {"type": "Unigram", "vocab": pieces}


CASES: Mapping[str, tuple[Callable[[Path], None], list[str]]] = {
    "no file": (removed, ["tokenizer.absent"]),
    "vocabulary without merges": (plain_vocabulary, ["tokenizer.no_merges"]),
    "vocabulary and merges": (vocabulary_and_merges, []),
    "sentencepiece": (sentencepiece, []),
    "empty": (empty_sentencepiece, ["tokenizer.no_vocabulary"]),
    "pointer": (pointer, ["tokenizer.no_vocabulary"]),
    "folder": (folder_in_its_place, ["file.unreadable"]),
    "settings": (settings_are_list, ["file.not_json"]),
    "unigram": (edited(unigram), []),
    "no model": (edited(lambda d: d.pop("model")), ["tokenizer.no_vocabulary"]),
    "no vocabulary": (edited(lambda d: d["model"].update(vocab=3)), ["tokenizer.no_vocabulary"]),
    "text id": (edited(lambda d: d["model"]["vocab"].update(token4="4")), ["tokenizer.bad_id"]),
    "negative": (edited(lambda d: d["model"]["vocab"].update(token4=-4)), ["tokenizer.bad_id"]),
    "truth": (edited(lambda d: d["model"]["vocab"].update(token4=True)), ["tokenizer.bad_id"]),
    "added": (edited(lambda d: d["added_tokens"].append({"content": "x"})), ["tokenizer.bad_id"]),
    "added text": (edited(lambda d: d["added_tokens"].append("x")), ["tokenizer.bad_id"]),
    "few": (
        edited(lambda d: d["model"].update(vocab={f"{index}": index for index in range(43)})),
        ["tokenizer.smaller"],
    ),
    "half": (
        edited(lambda d: d["model"].update(vocab={f"{index}": index for index in range(44)})),
        [],
    ),
    "last": (edited(lambda d: d["model"]["vocab"].update(z=95)), []),
    "beyond": (
        edited(lambda d: d["model"]["vocab"].update(z=96)),
        ["tokenizer.beyond_vocabulary"],
    ),
    "added beyond": (
        edited(lambda d: d["added_tokens"].append({"content": "x", "id": 96})),
        ["tokenizer.added_beyond_vocabulary"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_planted_mistake_in_a_tokenizer_is_the_only_finding(name: str, tmp_path: Path) -> None:
    plant, expected = CASES[name]
    folder = write_folder(tmp_path / "m")
    plant(folder)

    assert [each.id for each in check_model(folder).findings] == expected


def test_ids_beyond_the_embedding_are_named_and_counted(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    edited(lambda d: d["model"]["vocab"].update(y=100, z=200))(folder)

    assert [str(each) for each in check_model(folder).findings] == [
        (
            "tokenizer.json: z: id: expected below vocab_size, 96, got 200, and 1 more "
            "(tokenizer.beyond_vocabulary)"
        )
    ]


@pytest.mark.parametrize("begin", [-1, 96])
def test_begin_of_text_outside_the_vocabulary_is_reported(begin: int, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m", {**LLAMA, "bos_token_id": begin})

    assert [str(each) for each in check_model(folder).findings] == [
        (
            "config.json: bos_token_id: bos_token_id: expected from 0 and below vocab_size, 96, "
            f"got {begin} (tokenizer.special_beyond_vocabulary)"
        )
    ]


def test_vocabulary_of_a_quarter_million_tokens_is_read_in_time(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m", {**LLAMA, "vocab_size": 300_000})
    vocab = {f"token{index}": index for index in range(200_000)}
    merges = [[f"a{index}", "b"] for index in range(400_000)]
    document = {"model": {"vocab": vocab, "merges": merges}, "added_tokens": []}
    (folder / NAME).write_text(json.dumps(document))
    start = time.perf_counter()

    check_model(folder)

    assert time.perf_counter() - start < 10
