"""Tokenizer files: there, readable, and no id that the model has no row for."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pa_spec.checker.check import check_model
from safetensors_writer import LLAMA, write_folder, write_tokenizer

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
    vocab = {"</s>" if index == 2 else f"{index}": index for index in range(90)}
    (folder / "vocab.json").write_text(json.dumps(vocab))


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


@pytest.mark.parametrize(
    ("decoder", "expected"),
    [
        (
            {"3": {"content": "</s>"}},
            ["added_tokens_decoder: </s>: expected 2, its id in tokenizer.json, got 3"],
        ),
        (
            {"3": {"content": "</s>"}, "7": {"content": "<s>"}, "1": {"content": "<unk>"}},
            [
                (
                    "added_tokens_decoder: </s>: expected 2, its id in tokenizer.json, "
                    "got 3, and 2 more like it"
                )
            ],
        ),
        ({"2": {"content": "</s>"}, "3": {"content": "<|end|>", "special": True}}, []),
        ({"95": {"content": "<new>"}, "x": {"content": "<s>"}, "4": "y"}, []),
        (["</s>"], []),
    ],
)
def test_token_of_another_id_in_tokenizer_config_is_reported_once(
    tmp_path: Path, decoder: object, expected: list[str]
) -> None:
    folder = write_folder(tmp_path / "m")
    write_tokenizer(folder, added_tokens_decoder=decoder)

    messages = [str(each) for each in check_model(folder).findings]

    before, behind = "tokenizer_config.json: ", " (tokenizer.id_differs)"
    assert messages == [f"{before}{each}{behind}" for each in expected]


def test_token_of_another_id_in_added_tokens_is_reported_with_the_file_that_has_it(
    tmp_path: Path,
) -> None:
    folder = write_folder(tmp_path / "m")
    write_tokenizer(folder, added_tokens_decoder={"92": {"content": "<new>"}})
    (folder / "added_tokens.json").write_text('{"<new>": 93, "<further>": 94, "<bad>": "x"}')

    assert [str(each) for each in check_model(folder).findings] == [
        (
            "added_tokens.json: <new>: expected 92, its id in tokenizer_config.json, got 93 "
            "(tokenizer.id_differs)"
        )
    ]


def test_id_of_two_tokens_is_reported_with_both(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    edited(lambda d: d["added_tokens"].append({"content": "<x>", "id": 3}))(folder)

    assert [str(each) for each in check_model(folder).findings] == [
        (
            "tokenizer.json: added_tokens: <x>: expected an id of its own, "
            'got 3, which "<|end|>" has (tokenizer.id_twice)'
        )
    ]


def test_ids_of_two_tokens_in_a_vocabulary_are_counted(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    edited(lambda d: d["model"]["vocab"].update(y=80, z=80))(folder)

    (found,) = check_model(folder).findings
    assert (found.id, found.name, found.actual) == (
        "tokenizer.id_twice",
        "y",
        '80, which "token80" has, and 1 more like it',
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["added_tokens"].append({"content": "</s>", "id": 2}),
        lambda d: d["added_tokens"].append({"content": "<named>", "id": 80}),
    ],
    ids=["the same token again", "a name for a reserved token"],
)
def test_ids_that_files_of_sound_models_repeat_are_not_reported(
    tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    folder = write_folder(tmp_path / "m")
    edited(change)(folder)

    assert list(check_model(folder).findings) == []
