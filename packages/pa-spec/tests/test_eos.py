"""The ids that end a turn: the set that the files write, its origins, and what contradicts it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pa_spec.checker import EosId, Report
from pa_spec.checker.check import check_model
from safetensors_writer import LLAMA, TOKENS, write_folder, write_tokenizer

END = TOKENS.index("<|end|>")


def folder_of(tmp_path: Path, **config: Any) -> Path:
    return write_folder(tmp_path / "m", {**LLAMA, **config})


def write(folder: Path, name: str, **values: Any) -> None:
    (folder / name).write_text(json.dumps(values))


def eos_of(report: Report) -> list[int]:
    assert report.meaning is not None
    return [each.token_id for each in report.meaning.eos]


def ids(report: Report) -> list[str]:
    return [each.id for each in report.findings]


def test_every_origin_of_an_id_is_shown(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, eos_token_id=2)
    write(folder, "generation_config.json", eos_token_id=[END, 2])

    report = check_model(folder)

    assert ids(report) == []
    assert report.meaning is not None
    assert report.meaning.eos == (
        EosId(
            2,
            (
                "generation_config.json eos_token_id",
                "config.json eos_token_id",
                "tokenizer_config.json eos_token",
            ),
        ),
        EosId(END, ("generation_config.json eos_token_id",)),
    )


@pytest.mark.parametrize(
    ("config", "generation", "expected"),
    [
        (2, None, [2]),
        ([2, 3, 2], None, [2, 3]),
        (None, 2, [2]),
        (3, [2, 3], [2, 3]),
        (2, "null", [2]),
        ([], 2, [2]),
    ],
)
def test_generation_config_wins_where_it_says_anything(
    config: object, generation: object, expected: list[int], tmp_path: Path
) -> None:
    folder = folder_of(tmp_path, eos_token_id=config)
    if generation is not None:
        write(folder, "generation_config.json", eos_token_id=None)
    if generation not in (None, "null"):
        write(folder, "generation_config.json", eos_token_id=generation)

    report = check_model(folder)

    assert (eos_of(report), ids(report)) == (expected, [])


@pytest.mark.parametrize("outer", [None, 2])
def test_text_config_counts_where_the_top_level_is_silent(
    outer: int | None, tmp_path: Path
) -> None:
    inner = {**LLAMA, "model_type": "ministral3", "head_dim": 8, "eos_token_id": 3}
    config = {
        "model_type": "mistral3",
        "architectures": ["Mistral3ForConditionalGeneration"],
        "tie_word_embeddings": False,
        "text_config": inner,
    } | ({"eos_token_id": outer} if outer else {})
    folder = tmp_path / "m"
    write_folder(folder, config)
    write_tokenizer(folder, eos_token=TOKENS[outer or 3])

    report = check_model(folder)

    assert eos_of(report) == [outer or 3]
    found = [str(each) for each in report.findings if each.id.startswith("eos.")]
    lost = (
        "config.json: eos_token_id: eos_token_id: expected every id that config.json states, "
        "got without 3, which config.json text_config.eos_token_id has (eos.conflict)"
    )
    assert found == ([lost] if outer else [])


@pytest.mark.parametrize("value", ["2", 2.0, True, [2, "3"], [[2]], {"id": 2}, [2] * 1001])
def test_what_is_no_id_is_reported(value: object, tmp_path: Path) -> None:
    report = check_model(folder_of(tmp_path, eos_token_id=value))

    assert ids(report) == ["eos.not_an_id"]
    assert eos_of(report) == []


@pytest.mark.parametrize("value", [-1, 96, 2**70])
def test_id_outside_the_vocabulary_is_reported(value: int, tmp_path: Path) -> None:
    report = check_model(folder_of(tmp_path, eos_token_id=[2, value]))

    assert [str(each) for each in report.findings] == [
        (
            "config.json: eos_token_id: eos_token_id: expected from 0 and below vocab_size, 96, "
            f"got {value} (eos.out_of_vocabulary)"
        )
    ]


@pytest.mark.parametrize("silent", [{}, {"eos_token_id": None}, {"eos_token_id": []}])
def test_no_id_anywhere_is_reported(silent: dict[str, Any], tmp_path: Path) -> None:
    config = {key: value for key, value in LLAMA.items() if key != "eos_token_id"} | silent
    folder = write_folder(tmp_path / "m", config)

    report = check_model(folder)

    assert [str(each) for each in report.findings] == [
        (
            "config.json: eos_token_id: expected an id in generation_config.json or config.json, "
            'got none; the tokenizer\'s is 2 ("</s>") (eos.missing)'
        )
    ]


def test_id_that_generation_config_lacks_is_a_contradiction(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, eos_token_id=[2, 3])
    write(folder, "generation_config.json", eos_token_id=2)

    report = check_model(folder)

    assert [str(each) for each in report.findings] == [
        (
            "generation_config.json: eos_token_id: eos_token_id: expected every id that "
            "config.json states, got without 3, which config.json eos_token_id has (eos.conflict)"
        )
    ]
    assert eos_of(report) == [2]


def test_empty_list_that_wins_is_a_contradiction(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, eos_token_id=2)
    write(folder, "generation_config.json", eos_token_id=[])

    report = check_model(folder)

    assert [str(each) for each in report.findings] == [
        (
            "generation_config.json: eos_token_id: eos_token_id: expected every id that "
            "config.json states, got without 2, which config.json eos_token_id has (eos.conflict)"
        )
    ]
    assert eos_of(report) == [2]


def test_what_the_winner_lost_is_reported_once(tmp_path: Path) -> None:
    # The tokenizer and the template end by the id that config.json states, too.
    folder = folder_of(tmp_path, eos_token_id=[2, END])
    write(folder, "generation_config.json", eos_token_id=5)
    write_tokenizer(folder, eos_token="<|end|>", chat_template="{{ m }}</s>")

    assert ids(check_model(folder)) == ["eos.conflict"]


def test_eos_token_that_is_no_token_is_reported(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    write_tokenizer(folder, eos_token="<nope>")

    report = check_model(folder)

    assert [str(each) for each in report.findings] == [
        (
            "tokenizer_config.json: eos_token: eos_token: expected a token whose id is in "
            'config.json eos_token_id, got "<nope>", which no token is (eos.tokenizer_differs)'
        )
    ]


@pytest.mark.parametrize("vocabulary", ["tokenizer.json", "tokenizer.model"])
@pytest.mark.parametrize(("token_id", "expected"), [(2, []), (92, ["eos.tokenizer_differs"])])
def test_eos_token_of_added_tokens_alone_is_compared(
    tmp_path: Path, token_id: int, expected: list[str], vocabulary: str
) -> None:
    folder = folder_of(tmp_path, eos_token_id=2)
    write_tokenizer(folder, eos_token="<new>")
    (folder / "tokenizer.json").rename(folder / vocabulary)
    write(folder, "added_tokens.json", **{"<new>": token_id})

    assert ids(check_model(folder)) == expected


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "added_tokens.json"])
def test_token_may_stand_in_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    folder = folder_of(tmp_path)
    write_tokenizer(folder, eos_token=None)
    write(folder, "special_tokens_map.json", eos_token="<nope>")
    (folder / name).write_text("[")

    found = ids(check_model(folder))

    assert found == ["file.not_json"]


@pytest.mark.parametrize("spelled", ["<|end|>", {"content": "<|end|>", "lstrip": False}])
def test_tokenizer_that_ends_texts_otherwise_is_a_contradiction(
    spelled: object, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path)
    write_tokenizer(folder, eos_token=spelled)

    report = check_model(folder)

    assert [str(each) for each in report.findings] == [
        (
            "tokenizer_config.json: eos_token: eos_token: expected a token whose id is in "
            'config.json eos_token_id, got 3 ("<|end|>"), which is not among them '
            "(eos.tokenizer_differs)"
        )
    ]


def test_special_tokens_map_speaks_where_tokenizer_config_does_not(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, eos_token_id=3)
    write_tokenizer(folder, eos_token=None)
    write(folder, "special_tokens_map.json", eos_token="<|end|>")

    report = check_model(folder)

    assert report.meaning is not None
    assert report.meaning.eos[0].origins[-1] == "special_tokens_map.json eos_token"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ m }}<|end|>", ["eos.not_in_template"]),
        ("{{ m }}<|end|></s>", []),
        ("{{ m }}<|end|>{{ eos_token }}", []),
        ("{{ m }}", []),
        ([{"name": "default", "template": "<|end|>"}], ["eos.not_in_template"]),
        (None, ["tokenizer.no_chat_template"]),
        ("", ["tokenizer.no_chat_template"]),
        (3, ["tokenizer.template_not_text"]),
    ],
)
def test_template_whose_end_of_turn_does_not_end_one_is_reported(
    template: object, expected: list[str], tmp_path: Path
) -> None:
    # A chat model with only the base model's id: its answers run on past the end of a turn.
    folder = folder_of(tmp_path)
    write_tokenizer(folder, chat_template=template)

    assert ids(check_model(folder)) == expected


def test_template_beside_the_tokenizer_counts(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (folder / "chat_template.jinja").write_text("<|end|>")
    report = check_model(folder)
    assert [str(each) for each in report.findings] == [
        (
            "chat_template.jinja: chat_template: chat_template: expected a token whose id is in "
            'config.json eos_token_id, got "<|end|>" and not "</s>" (eos.not_in_template)'
        )
    ]

    (folder / "chat_template.jinja").write_bytes(b"\xff")

    assert ids(check_model(folder)) == ["tokenizer.template_not_text"]


def test_unreadable_generation_config_hides_nothing_else(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, eos_token_id=None)
    (folder / "generation_config.json").symlink_to("generation_config.json")

    report = check_model(folder)

    assert (ids(report), eos_of(report)) == (["file.unreadable"], [])
