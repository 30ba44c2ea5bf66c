"""Exported folders on disk: which files are read, and which are compared."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from exported_model import configured
from pa_spec.checker import CheckOptions, Findings
from pa_spec.checker.exported.check import check_exported_folder
from paged_graphs import HEAD_SIZE, HEADS, KV_HEADS, VOCAB, decoder

NAMES = {
    "model.decoder.inputs.cumulative_sequence_lengths": "cumulative",
    "model.decoder.inputs.past_sequence_lengths": "past",
}
SIZES = {
    "model.vocab_size": VOCAB,
    "model.context_length": 128,
    "search.max_length": 128,
    "model.decoder.head_size": HEAD_SIZE,
    "model.decoder.num_attention_heads": HEADS,
    "model.decoder.num_key_value_heads": KV_HEADS,
}
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": VOCAB,
    "hidden_size": HEADS * HEAD_SIZE,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "max_position_embeddings": 128,
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "eos_token_id": 2,
    "torch_dtype": "float16",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a sound exported folder."""
    found = tmp_path / "export"
    found.mkdir()
    (found / "model.onnx").write_bytes(decoder().SerializeToString())
    write(found)
    return found


def write(
    folder: Path, changes: dict[str, Any] | None = None, without: tuple[str, ...] = ()
) -> None:
    document = configured({**NAMES, **SIZES, **(changes or {})}, without)
    (folder / "genai_config.json").write_text(json.dumps(document))


def found(folder: Path, reference: Path | None = None) -> list[str]:
    findings = Findings()
    options = CheckOptions(reference_config=None if reference is None else str(reference))
    check_exported_folder(folder, findings, options)
    return [str(each) for each in findings]


def ids(messages: list[str]) -> list[str]:
    return [each.rpartition("(")[2].rstrip(")") for each in messages]


def test_a_sound_folder_says_what_was_looked_at(folder: Path) -> None:
    findings = Findings()

    facts = check_exported_folder(folder, findings, CheckOptions())

    assert list(findings) == []
    assert facts["PagedAttention nodes"] == "2"
    assert facts["engine.dynamic_batching.block_size"] == "16"


@pytest.mark.parametrize(
    "name", ["../model.onnx", "/model.onnx", "C:\\model.onnx", "a/../../b", "a\0b"]
)
def test_a_file_outside_the_folder_is_not_read(folder: Path, name: str) -> None:
    shutil.copy(folder / "model.onnx", folder.parent / "model.onnx")
    write(folder, {"model.decoder.filename": name})

    assert ids(found(folder)) == ["exported.path"]


@pytest.mark.parametrize("name", ["missing.onnx", ".", "x" * 5000])
def test_a_file_that_is_none_is_one_finding(folder: Path, name: str) -> None:
    write(folder, {"model.decoder.filename": name})

    assert ids(found(folder)) == ["file.unreadable"]


def test_the_graph_may_be_a_link_out_of_the_folder(folder: Path) -> None:
    shutil.move(folder / "model.onnx", folder.parent / "blob")
    (folder / "model.onnx").symlink_to(folder.parent / "blob")

    assert found(folder) == []


def test_a_loop_of_links_ends(folder: Path) -> None:
    (folder / "model.onnx").unlink()
    (folder / "model.onnx").symlink_to("model.onnx")

    assert ids(found(folder)) == ["file.unreadable"]


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "\ufeff{}"])
def test_a_configuration_that_is_no_object_is_one_finding(folder: Path, text: str) -> None:
    (folder / "genai_config.json").write_text(text, encoding="utf-8")

    assert len(found(folder)) == 1


def test_the_graphs_of_a_pipeline_are_checked_each(folder: Path) -> None:
    broken = decoder()
    broken.graph.node[-1].input[0] = "nothing"
    (folder / "second.onnx").write_bytes(broken.SerializeToString())
    stages = [{"first": {"filename": "model.onnx"}, "second": {"filename": "second.onnx"}}]
    write(folder, {"model.decoder.pipeline": stages}, without=("model.decoder.filename",))

    messages = found(folder)

    assert ids(messages)[0] == "exported.pipeline"
    assert "graph.undefined_name" in ids(messages)
    assert all(each.startswith(("second.onnx", "genai_config.json")) for each in messages)


@pytest.mark.parametrize("pipeline", [[], {}, "x", [{}], [{"a": 1}], [{"a": {"filename": 3}}]])
def test_a_pipeline_of_nothing_is_reported(folder: Path, pipeline: Any) -> None:
    write(folder, {"model.decoder.pipeline": pipeline}, without=("model.decoder.filename",))

    assert set(ids(found(folder))) <= {
        "exported.pipeline",
        "exported.missing_key",
        "exported.value",
    }


def test_the_models_own_configuration_beside_the_export_is_compared(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps(LLAMA))
    assert found(folder) == []

    (folder / "config.json").write_text(json.dumps({**LLAMA, "num_hidden_layers": 3}))
    assert found(folder) == [
        (
            "genai_config.json: model.decoder.num_hidden_layers: num_hidden_layers: expected 3, as "
            "config.json has, got 2 (exported.layers_differ)"
        )
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"vocab_size": 99}, ["exported.vocabulary_differs"]),
        ({"max_position_embeddings": 64}, ["exported.context_differs"]),
        ({"max_position_embeddings": 256}, []),
        ({"eos_token_id": [2, 3]}, ["exported.eos_missing"]),
        ({"eos_token_id": None}, ["exported.eos_added"]),
        ({"eos_token_id": 3}, ["exported.eos_missing", "exported.eos_added"]),
    ],
)
def test_numbers_are_compared_with_another_folders(
    folder: Path, tmp_path: Path, changes: dict[str, Any], expected: list[str]
) -> None:
    other = tmp_path / "model"
    other.mkdir()
    (other / "config.json").write_text(json.dumps({**LLAMA, **changes}))

    assert ids(found(folder, other)) == expected
    assert ids(found(folder, other / "config.json")) == expected


def test_the_ids_of_generation_win(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "eos_token_id": 7}))
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [2]}')

    assert found(folder, tmp_path) == []


def test_what_ends_a_turn_for_the_tokenizer_may_end_one_of_the_export(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({**LLAMA, "eos_token_id": 7}))
    tokens = {"added_tokens": [{"id": 2, "content": "</s>"}], "model": {"vocab": {"a": 0}}}
    (folder / "tokenizer.json").write_text(json.dumps(tokens))
    (folder / "tokenizer_config.json").write_text('{"eos_token": "</s>"}')
    write(folder, {"model.eos_token_id": [2, 7]})

    assert found(folder) == []


@pytest.mark.parametrize("content", ["{", "{}", '{"model_type": "nothing"}'])
def test_a_reference_that_cannot_be_resolved_is_said(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(content)

    assert ids(found(folder)) in (["file.not_json"], ["exported.no_comparison"])


def test_a_reference_that_is_not_there_is_said(folder: Path, tmp_path: Path) -> None:
    assert ids(found(folder, tmp_path / "nowhere.json")) == ["file.unreadable"]


def test_a_pipe_in_place_of_the_reference_ends(folder: Path) -> None:
    os.mkfifo(folder / "config.json")

    assert ids(found(folder)) == ["file.unreadable"]
