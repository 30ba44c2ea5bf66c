"""The decoder's tensors in a model that also sees are those that spec/models/tensors.toml asks for.

Method: as in test_weights_parity.py, on models of two parts; the decoder's names are those below
the prefix that its embedding has.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from pa_spec.checker import check_model, expected_tensors
from safetensors_writer import write_folder
from transformers import AutoModelForImageTextToText
from transformers.core_model_loading import revert_weight_conversion
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from weights_cases import CONTAINERS, SMALL

EMBEDDING = "embed_tokens.weight"


def read(model_type: str, text: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A tiny model's configuration, and the shapes of what it saves, by name."""
    config = {"model_type": model_type, "text_config": {**SMALL, **text}}
    kind: Any = CONFIG_MAPPING[model_type]
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(kind.from_dict(config))
    tensors = revert_weight_conversion(model, model.state_dict())
    return config, {name: tuple(each.shape) for name, each in tensors.items()}


@pytest.mark.parametrize("model_type", sorted(CONTAINERS))
def test_a_decoder_inside_stores_what_is_expected(model_type: str, tmp_path: Path) -> None:
    config, stored = read(model_type, CONTAINERS[model_type])
    before = next(name for name in stored if name.endswith(EMBEDDING)).removesuffix(EMBEDDING)

    wanted = {each.name: each.shape for each in expected_tensors(config)}

    body = {name.removeprefix("model."): shape for name, shape in wanted.items()}
    body.pop("lm_head.weight")
    found = {
        name.removeprefix(before): shape
        for name, shape in stored.items()
        if name.startswith((f"{before}layers.", f"{before}norm.", f"{before}embed_tokens."))
    }
    assert set(body) == set(found)
    for name, shape in body.items():
        extents = zip(shape, found[name], strict=True)
        assert all(extent in (None, stored_extent) for extent, stored_extent in extents), name
    folder = write_folder(tmp_path, config, stored)
    ids = [each.id for each in check_model(folder).findings if each.id.startswith("weights.")]
    assert set(ids) <= {"weights.tied_head"}
