"""The tensors that a model needs, against those that its folder stores."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import pytest
from pa_spec.checker import Report
from pa_spec.checker.check import check_model
from pa_spec.checker.huggingface.weights.header_entry import BITS
from safetensors_writer import LLAMA, header_of, llama_shapes, write_folder, write_header

LAYER = "model.layers.1"
Shapes = dict[str, tuple[int, ...]]


def ids(report: Report) -> list[str]:
    return [each.id for each in report.findings]


def said(report: Report) -> str:
    assert len(report.findings) == 1, [str(each) for each in report.findings]
    return str(report.findings[0])


def check_with(tmp_path: Path, shapes: Shapes, **config: Any) -> Report:
    return check_model(write_folder(tmp_path / "m", {**LLAMA, **config}, shapes))


def test_folder_that_is_right_conforms_and_its_weights_are_counted(tmp_path: Path) -> None:
    report = check_with(tmp_path, llama_shapes())

    assert ids(report) == []
    assert report.meaning is not None
    assert report.meaning.weight_bytes == (2 * 96 * 32 + 3 * (6976) + 32) * 2


def without(name: str) -> Shapes:
    return {each: shape for each, shape in llama_shapes().items() if each != name}


def reshaped(name: str, *shape: int) -> Shapes:
    return llama_shapes() | {name: shape}


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (
            without(f"{LAYER}.mlp.up_proj.weight"),
            f"{LAYER}.mlp.up_proj.weight: expected a tensor [40, 32], got none (weights.missing)",
        ),
        (
            without("model.norm.weight"),
            "model.norm.weight: expected a tensor [32], got none (weights.missing)",
        ),
        (
            without("lm_head.weight"),
            "lm_head.weight: expected a tensor [96, 32], got none (weights.missing)",
        ),
        (
            reshaped(f"{LAYER}.self_attn.k_proj.weight", 32, 32),
            (
                f"model.safetensors: {LAYER}.self_attn.k_proj.weight: expected [16, 32], "
                "got [32, 32] (weights.misshapen)"
            ),
        ),
        (
            reshaped("model.norm.weight", 32, 1),
            "model.safetensors: model.norm.weight: expected [32], got [32, 1] (weights.misshapen)",
        ),
        (
            reshaped("model.embed_tokens.weight", 97, 32),
            (
                "model.safetensors: model.embed_tokens.weight: expected [96, 32], got [97, 32] "
                "(weights.misshapen)"
            ),
        ),
        (
            llama_shapes() | {f"{LAYER}.self_attn.q_proj.bias": (32,)},
            (
                f"model.safetensors: {LAYER}.self_attn.q_proj.bias: expected only tensors that the "
                "model uses, got it (weights.unexpected)"
            ),
        ),
        (
            llama_shapes() | {"model.layers.3.input_layernorm.weight": (32,)},
            (
                "model.safetensors: model.layers.3: expected tensors of 3 layers, got also layer 3 "
                "(weights.surplus_layer)"
            ),
        ),
        (
            {k: v for k, v in llama_shapes().items() if ".2." not in k},
            (
                "model.layers.2: expected tensors of 3 layers, got none of layer 2 "
                "(weights.missing_layer)"
            ),
        ),
    ],
)
def test_tensor_that_is_missing_misshapen_or_surplus_is_named(
    shapes: Shapes, expected: str, tmp_path: Path
) -> None:
    assert said(check_with(tmp_path, shapes)) == expected


def test_mistake_of_every_layer_is_reported_once(tmp_path: Path) -> None:
    report = check_with(tmp_path, llama_shapes(), intermediate_size=48)

    assert [str(each) for each in report.findings] == [
        f"model.safetensors: model.layers.0.mlp.{name}_proj.weight: expected {wanted}, "
        f"got {found}, and 2 more like it (weights.misshapen)"
        for name, wanted, found in (
            ("gate", "[48, 32]", "[40, 32]"),
            ("up", "[48, 32]", "[40, 32]"),
            ("down", "[32, 48]", "[32, 40]"),
        )
    ]


@pytest.mark.parametrize(
    ("is_tied", "head", "expected"),
    [
        (True, None, []),
        (True, (96, 32), ["weights.tied_head"]),
        (True, (97, 32), ["weights.misshapen"]),
        (False, (96, 32), []),
        (False, None, ["weights.missing"]),
    ],
)
def test_tie_flag_decides_whether_the_head_is_needed(
    *, is_tied: bool, head: tuple[int, ...] | None, expected: list[str], tmp_path: Path
) -> None:
    shapes = without("lm_head.weight") | ({"lm_head.weight": head} if head else {})

    report = check_with(tmp_path, shapes, tie_word_embeddings=is_tied)

    assert ids(report) == expected


@pytest.mark.parametrize(
    ("model_type", "architecture", "width"),
    [("qwen3", "Qwen3ForCausalLM", 8), ("olmo2", "Olmo2ForCausalLM", 32)],
)
def test_width_of_qk_norm_is_the_one_of_the_family(
    model_type: str, architecture: str, width: int, tmp_path: Path
) -> None:
    # A norm of one head and a norm of all heads are different functions.
    config = {"model_type": model_type, "architectures": [architecture], "head_dim": 8}
    shapes = llama_shapes()
    for layer in range(3):
        norms = f"model.layers.{layer}.self_attn"
        is_by_head = model_type == "qwen3"
        shapes[f"{norms}.q_norm.weight"] = (width,)
        shapes[f"{norms}.k_norm.weight"] = (8 if is_by_head else 16,)
        if not is_by_head:
            del shapes[f"model.layers.{layer}.input_layernorm.weight"]
            shapes[f"model.layers.{layer}.post_feedforward_layernorm.weight"] = (32,)

    right = check_with(tmp_path, shapes, **config)
    other = 40 - width
    shapes["model.layers.0.self_attn.q_norm.weight"] = (other,)
    wrong = check_with(tmp_path, shapes, **config)

    assert ids(right) == []
    assert said(wrong) == (
        "model.safetensors: model.layers.0.self_attn.q_norm.weight: "
        f"expected [{width}], got [{other}] (weights.misshapen)"
    )


def test_left_overs_of_old_exports_are_not_remarked_on(tmp_path: Path) -> None:
    shapes = llama_shapes() | {f"{LAYER}.self_attn.rotary_emb.inv_freq": (4,)}

    assert ids(check_with(tmp_path, shapes)) == []


def stored_as(tmp_path: Path, changes: Mapping[str, str], **shapes: tuple[int, ...]) -> Report:
    """Check a folder whose tensors of some names have other types; shapes: further tensors."""
    folder = write_folder(tmp_path / "m")
    header, begin = header_of(llama_shapes() | shapes), 0
    for name, entry in header.items():
        entry["dtype"] = changes.get(name, "F16")
        end = begin + prod(entry["shape"]) * BITS[entry["dtype"]] // 8
        entry["data_offsets"] = [begin, end]
        begin = end
    write_header(folder / "model.safetensors", header)
    return check_model(folder)


@pytest.mark.parametrize(
    ("name", "element_type", "actual"),
    [
        (f"{LAYER}.self_attn.k_proj.weight", "F32", "F16 (53184 bytes), F32 (2048 bytes)"),
        (f"{LAYER}.self_attn.k_proj.weight", "BF16", "F16 (53184 bytes), BF16 (1024 bytes)"),
        ("model.norm.weight", "BF16", "F16 (54144 bytes), BF16 (64 bytes)"),
        ("model.norm.weight", "F64", "F16 (54144 bytes), F64 (256 bytes)"),
    ],
)
def test_weights_of_several_types_are_remarked_on(
    tmp_path: Path, name: str, element_type: str, actual: str
) -> None:
    report = stored_as(tmp_path, {name: element_type})

    expected = f"element types: expected one floating-point type, got {actual}"
    assert said(report) == f"{expected} (weights.mixed_types)"


def test_one_matrix_of_another_type_is_not_hidden_by_vectors(tmp_path: Path) -> None:
    mixed = ["model.norm.weight", f"{LAYER}.mlp.up_proj.weight"]

    report = stored_as(tmp_path, dict.fromkeys(mixed, "F32"))

    assert ids(report) == ["weights.mixed_types"]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("model.norm.weight", (32,)),
        (f"{LAYER}.self_attn.rotary_emb.inv_freq", (4,)),
        ("other.A_log", (1, 16, 1)),
        ("other.D", ()),
        ("other.mlp.gate.weight", (8, 32)),
        ("other.block_sparse_moe.gate.e_score_correction_bias", (8,)),
    ],
)
def test_vectors_and_routers_in_float32_are_usual(
    tmp_path: Path, name: str, shape: tuple[int, ...]
) -> None:
    assert ids(stored_as(tmp_path, {name: "F32"}, **{name: shape})) == []


def test_half_vectors_beside_float32_weights_are_remarked_on(tmp_path: Path) -> None:
    wide = dict.fromkeys(llama_shapes(), "F32") | {"model.norm.weight": "F16"}

    found = ids(stored_as(tmp_path, wide))

    assert found == ["weights.mixed_types", "weights.type_differs"]


def test_type_other_than_the_configured_is_remarked_on(tmp_path: Path) -> None:
    report = check_with(tmp_path, llama_shapes(), torch_dtype="bfloat16")

    assert said(report) == (
        "weights: expected BF16, as the configuration states, got F16 (weights.type_differs)"
    )


def test_integers_without_quantization_are_refused_and_with_it_are_not(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    write_header(folder / "model.safetensors", header_of(llama_shapes(), "I16"))
    plain = check_model(folder)
    quantized = {**LLAMA, "quantization_config": {"quant_method": "gptq", "bits": 4}}
    (folder / "config.json").write_text(json.dumps(quantized))
    shapes = {
        name.replace("proj.weight", "proj.qweight"): shape for name, shape in llama_shapes().items()
    }
    write_header(folder / "model.safetensors", header_of(shapes))

    assert set(ids(plain)) == {"weights.element_type"}
    assert said(check_model(folder)) == (
        "config.json: quantization_config: quantization_config: expected weights as they were "
        'trained, got "gptq" (weights.quantized)'
    )
    del shapes[f"{LAYER}.input_layernorm.weight"]
    write_header(folder / "model.safetensors", header_of(shapes))
    assert ids(check_model(folder)) == ["weights.quantized", "weights.missing"]


def test_claimed_number_of_experts_costs_no_time(tmp_path: Path) -> None:
    config = {
        "model_type": "mixtral",
        "architectures": ["MixtralForCausalLM"],
        "num_local_experts": 2**31 - 1,
        "num_experts_per_tok": 2,
    }
    start = time.perf_counter()

    report = check_with(tmp_path, llama_shapes(), **config)

    assert time.perf_counter() - start < 3
    assert "weights.missing" in ids(report)


def test_model_whose_tensors_are_unknown_is_said_to_be_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pa_spec.checker.huggingface.weights.check.tensor_layouts", dict)

    report = check_with(tmp_path, {"anything": (1,)})

    assert ids(report) == ["weights.layout_unknown"]
