"""The expected tensors of every family are those that transformers' own models save.

Goal: nothing that a correct checkpoint lacks is asked for, and nothing that it needs is forgotten.
Method: a tiny model of each type is constructed on the meta device; its names and shapes, after the
reverse of what transformers converts when it loads, are compared with what spec/models/tensors.toml
makes of the same configuration.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from pa_spec.checker import check_model, expected_tensors
from safetensors_writer import write_folder
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.core_model_loading import revert_weight_conversion
from weights_cases import CASES, CONTAINERS, CONV, DELTA, GEMMA3, SMALL

HEADS = ("lm_head.weight", "embed_out.weight")
Shapes = dict[str, tuple[int, ...]]


def saved(model_type: str, changes: Mapping[str, Any]) -> tuple[dict[str, Any], Shapes]:
    """A tiny model's configuration as its file has it, and what it saves."""
    config = AutoConfig.for_model(model_type, **{**SMALL, **changes})
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    tensors = revert_weight_conversion(model, model.state_dict())
    return config.to_dict(), {name: tuple(each.shape) for name, each in tensors.items()}


def expected(config: Mapping[str, Any]) -> tuple[Shapes, set[str]]:
    """What the contract makes of a configuration; the names that may be left out."""
    tensors = list(expected_tensors(config))
    assert not [each for each in tensors if None in each.shape]
    shapes = {each.name: tuple(extent or 0 for extent in each.shape) for each in tensors}
    return shapes, {each.name for each in tensors if not each.is_needed}


def weight_findings(folder: Path) -> list[str]:
    return [str(each) for each in check_model(folder).findings if each.id.startswith("weights.")]


def case_names() -> Iterator[str]:
    for model_type, changes in CASES:
        yield f"{model_type}-{'-'.join(changes) or 'plain'}"[:60]


@pytest.mark.parametrize(("model_type", "changes"), CASES, ids=case_names())
def test_expected_tensors_are_what_transformers_saves(
    model_type: str, changes: Mapping[str, Any], tmp_path: Path
) -> None:
    config, stored = saved(model_type, changes)

    wanted, optional = expected(config)

    needed = {name: shape for name, shape in wanted.items() if name not in optional}
    assert needed == {name: shape for name, shape in stored.items() if name not in optional}
    assert {name: wanted.get(name) for name in stored} == stored
    tied = config.get("tie_word_embeddings")
    without_head = {name: shape for name, shape in stored.items() if name not in HEADS}
    folder = write_folder(tmp_path, config, without_head if tied else stored)
    assert weight_findings(folder) == []


def test_every_layout_is_compared_with_transformers(root: Path) -> None:
    data = tomllib.loads((root / "spec" / "models" / "tensors.toml").read_text("utf-8"))
    known = {model_type for layout in data["layout"] for model_type in layout["model_types"]}

    # kimi_k2 is deepseek_v3 under a name that transformers has not; test_container_weights.py has
    # those that are only ever inside another model.
    inside = {f"{model_type}_text" for model_type in CONTAINERS}
    assert {model_type for model_type, _ in CASES} == known - {"kimi_k2"} - inside


@pytest.mark.parametrize(
    ("model_type", "text", "legacy"),
    [
        ("gemma3", GEMMA3, ("model.language_model.", "language_model.model.")),
        ("mistral3", {"head_dim": 16}, ("model.language_model.", "language_model.model.")),
        ("qwen3_5", DELTA, ("model.language_model.", "model.language_model.")),
        ("lfm2_vl", CONV, ("model.language_model.", "model.language_model.")),
    ],
)
def test_decoder_inside_another_model_is_found_under_its_prefix(
    model_type: str, text: Mapping[str, Any], legacy: tuple[str, str], tmp_path: Path
) -> None:
    config = AutoConfig.for_model(model_type, text_config={**SMALL, **text})
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(config)
    tensors = revert_weight_conversion(model, model.state_dict())
    stored = {name: tuple(each.shape) for name, each in tensors.items()}
    renamed = {name.replace(*legacy): shape for name, shape in stored.items()}

    for number, shapes in enumerate((stored, renamed)):
        folder = write_folder(tmp_path / f"{number}", config.to_dict(), shapes)
        found = [each for each in weight_findings(folder) if "tied_head" not in each]
        assert found == []
        ends = (".3.input_layernorm.weight", ".3.operator_norm.weight")
        del shapes[next(name for name in shapes if name.endswith(ends))]
        write_folder(folder, config.to_dict(), shapes)
        assert len([each for each in weight_findings(folder) if "weights.missing" in each]) == 1


@pytest.mark.parametrize("shard_bytes", [10**9, 20_000])
@pytest.mark.parametrize("is_tied", [False, True])
def test_what_transformers_writes_conforms(
    *, shard_bytes: int, is_tied: bool, tmp_path: Path
) -> None:
    config = AutoConfig.for_model("llama", **{**SMALL, "tie_word_embeddings": is_tied})
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(tmp_path, max_shard_size=shard_bytes)
    assert (tmp_path / "model.safetensors").exists() == (shard_bytes == 10**9)

    report = check_model(tmp_path)

    assert [each.id for each in report.findings] == ["tokenizer.absent"]
    assert report.meaning is not None
    assert report.meaning.weight_bytes == sum(
        each.numel() * each.element_size()
        for name, each in model.state_dict().items()
        if not (is_tied and name == "lm_head.weight")
    )
