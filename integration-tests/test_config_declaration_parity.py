"""What spec/models says of configuration classes is what transformers' classes say of themselves.

Types, null and defaults are read from the classes' fields; that a mask lets later tokens through is
measured on small models with random weights: the first token's logits change with the last one.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import tomllib
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from config_variants import VARIANTS
from hybrid_configs import SMALL
from pa_spec import Severity
from pa_spec.checker import check_model
from transformers import AutoModelForCausalLM
from transformers.activations import ACT2CLS
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

MODELS = Path(__file__).parents[1] / "spec" / "models"
CLASSES: Mapping[str, Any] = tomllib.loads((MODELS / "classes.toml").read_text("utf-8"))
TYPES = {key: kind for kind, keys in CLASSES["types"].items() for key in keys}
DECLARED: Mapping[str, Mapping[str, Any]] = {each["model_type"]: each for each in CLASSES["class"]}

WORDS: Mapping[str, tuple[set[str], ...]] = {
    "size": ({"int"},),
    "step": ({"int"},),
    "integer": ({"int"},),
    "flag": ({"bool"},),
    "number": ({"float"}, {"float", "int"}),
    "text": ({"str"},),
    "activation": ({"str"},),
    "texts": ({"list[str]"},),
    "integers": ({"list[int]"},),
    "numbers": ({"list[float]"},),
}
"""The annotations that a type stands for, null left out."""

UNREAD = {("gpt_oss", "hidden_act"), ("gemma4_text", "use_bidirectional_attention")}
"""Keys that a class declares and that are left out: one is not read, the other has two words."""

EXPERTS = {"num_experts": "num_local_experts"}
LLAMA = VARIANTS["llama, plain"]
BY_FAMILY = {config["model_type"]: config for config in SMALL.values()}
TOLERANCE = 1e-4


@pytest.mark.parametrize("model_type", DECLARED)
def test_declaration_is_what_the_class_declares(model_type: str) -> None:
    declared = DECLARED[model_type]
    annotations = {each.name: each for each in dataclasses.fields(CONFIG_MAPPING[model_type])}
    keys: set[str] = set()
    nullable: set[str] = set()
    for key, kind in TYPES.items():
        if key not in annotations or (model_type, key) in UNREAD:
            continue
        words = _words(annotations[key].type)
        (nullable if "None" in words else keys).add(key)
        assert words - {"None"} in WORDS[kind], key

    assert (set(declared["keys"]), set(declared.get("nullable", ()))) == (keys, nullable)
    for key, value in declared.get("defaults", {}).items():
        names = [key, *(name for name, stands in EXPERTS.items() if stands == key)]
        assert value in [annotations[name].default for name in names if name in annotations]


def _words(annotation: object) -> set[str]:
    text = (
        annotation.__name__
        if isinstance(annotation, type) and not hasattr(annotation, "__args__")
        else str(annotation)
    )
    return {each.strip() for each in text.split("|")}


def test_every_width_of_a_dense_layer_has_its_class_default() -> None:
    for model_type, declared in DECLARED.items():
        fields = dataclasses.fields(CONFIG_MAPPING[model_type])
        written = [each.default for each in fields if each.name == "intermediate_size"]

        assert [declared.get("defaults", {}).get("intermediate_size")] == (written or [None])


def test_activations_are_those_of_transformers() -> None:
    assert set(CLASSES["activations"]) == set(ACT2CLS)


def config_of(model_type: str, **changes: Any) -> dict[str, Any]:
    """Return a small configuration of a family."""
    if model_type in BY_FAMILY:
        return {**BY_FAMILY[model_type], **changes}
    return {**LLAMA, "model_type": model_type, "head_dim": 16, **changes}


def run(config: Mapping[str, Any], attention: str, *tokens: int) -> torch.Tensor:
    """Return the first token's logits, of the same random weights each time."""
    values = {
        key: value for key, value in copy.deepcopy(dict(config)).items() if "dtype" not in key
    }
    torch.manual_seed(0)
    kind: Any = CONFIG_MAPPING[config["model_type"]]
    model = AutoModelForCausalLM.from_config(kind.from_dict(values), attn_implementation=attention)
    for parameter in model.eval().parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    with torch.no_grad():
        logits: torch.Tensor = model(torch.tensor([tokens])).logits[0, 0]
    return logits


def sees_later(config: Mapping[str, Any], attention: str = "eager") -> bool:
    """Whether a token's output depends on tokens behind it."""
    one, other = (run(config, attention, 1, 2, 3, 4, 5, last) for last in (6, 7))
    return not torch.allclose(one, other, atol=TOLERANCE)


def violations(config: Mapping[str, Any], folder: Path) -> list[str]:
    """Return the keys that a configuration is refused for."""
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    findings = check_model(folder).findings
    return [each.name for each in findings if each.severity is Severity.VIOLATION]


CAUSAL = ("llama", "qwen2", "gemma3_text", "deepseek_v3", "lfm2", "falcon_h1", "gemma4_text")


@pytest.mark.parametrize("model_type", [*CAUSAL, "llama4_text", "mixtral", "phi", "olmo"])
@pytest.mark.parametrize("written", [False, None])
def test_a_model_that_is_not_causal_sees_later_tokens_and_is_refused(
    model_type: str, written: object, tmp_path: Path
) -> None:
    config = config_of(model_type)

    assert not sees_later(config)
    assert "is_causal" not in violations(config, tmp_path)
    assert sees_later(config | {"is_causal": written})
    assert "is_causal" in violations(config | {"is_causal": written}, tmp_path)


@pytest.mark.parametrize(
    "model_type", ["mistral", "phi3", "qwen2", "llama", "cohere", *CAUSAL[3:6]]
)
def test_a_family_that_does_not_read_both_directions_stays_causal(
    model_type: str, tmp_path: Path
) -> None:
    config = config_of(model_type, use_bidirectional_attention=True)

    assert not sees_later(config, "sdpa" if model_type in ("mistral", "llama") else "eager")
    assert "use_bidirectional_attention" not in violations(config, tmp_path)


@pytest.mark.parametrize("model_type", ["gemma", "gemma3_text"])
def test_a_family_that_reads_both_directions_sees_later_tokens_and_is_refused(
    model_type: str, tmp_path: Path
) -> None:
    config = config_of(model_type, use_bidirectional_attention=True)

    assert sees_later(config, "sdpa")
    assert violations(config, tmp_path) == ["use_bidirectional_attention"]


def test_gemma_2_tells_kernels_that_attention_is_not_causal(tmp_path: Path) -> None:
    config = config_of("gemma2", use_bidirectional_attention=True)

    model = AutoModelForCausalLM.from_config(CONFIG_MAPPING["gemma2"].from_dict(dict(config)))

    assert [layer.self_attn.is_causal for layer in model.model.layers] == [False] * 4
    assert violations(config, tmp_path) == ["use_bidirectional_attention"]


SPARSE = {
    "mixtral": "num_local_experts",
    "qwen2_moe": "num_experts",
    "qwen3_moe": "num_experts",
    "gpt_oss": "num_local_experts",
    "minimax_m2": "num_local_experts",
    "deepseek_v3": "n_routed_experts",
    "qwen3_next": "num_experts",
    "llama4_text": "num_local_experts",
    "nemotron_h": "n_routed_experts",
}


@pytest.mark.parametrize("model_type", SPARSE)
def test_more_experts_for_a_token_than_there_are_fail_and_are_refused(
    model_type: str, tmp_path: Path
) -> None:
    sizes: dict[str, Any] = {
        SPARSE[model_type]: 2,
        "moe_intermediate_size": 16,
        "n_group": 1,
        "topk_group": 1,
    }
    if model_type == "nemotron_h":
        sizes |= {"hybrid_override_pattern": "M*E", "num_hidden_layers": 3}
    config = config_of(model_type, **sizes, num_experts_per_tok=8)

    with pytest.raises(RuntimeError, match="out of range"):
        run(config, "eager", 1, 2, 3)
    assert "num_experts_per_tok" in violations(config, tmp_path)
    run(config | {"num_experts_per_tok": 2}, "eager", 1, 2, 3)
    assert "num_experts_per_tok" not in violations(config | {"num_experts_per_tok": 2}, tmp_path)


@pytest.mark.parametrize("index", [0, 2, 3])
def test_older_name_of_a_layer_type_fails_in_layers_of_two_widths(
    index: int, tmp_path: Path
) -> None:
    types = ["sliding_attention"] * 3 + ["full_attention"]
    types[index] = "attention"
    config = config_of("gemma4_text", num_hidden_layers=4, layer_types=types)
    # Whatever the last one is called, the class makes it a full one.
    is_last = index == 3

    with nullcontext() if is_last else pytest.raises(ValueError, match="not homogeneous"):
        run(config, "eager", 1, 2, 3)
    assert ("layer_types" in violations(config, tmp_path)) != is_last


def test_a_router_that_always_takes_two_is_not_held_to_the_key(tmp_path: Path) -> None:
    config = config_of("phimoe", num_local_experts=2, num_experts_per_tok=8)

    run(config, "eager", 1, 2, 3)
    assert not violations(config, tmp_path)


@pytest.mark.parametrize("model_type", DECLARED)
def test_no_class_takes_what_is_refused_as_of_another_type(model_type: str) -> None:
    kind: Any = CONFIG_MAPPING[model_type]
    wrong = {"flag": "x", "text": 1, "activation": 1, "texts": "x", "integers": "x", "numbers": "x"}
    declared = DECLARED[model_type]

    for key in (*declared["keys"], *declared.get("nullable", ())):
        with pytest.raises(Exception, match=key):
            kind(**{key: wrong.get(TYPES[key], "x")})
