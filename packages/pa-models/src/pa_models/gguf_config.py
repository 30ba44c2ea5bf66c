"""From a GGUF file's metadata to the same model configuration that a config.json gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from pa_spec import InputUnusable

from pa_models.fields import Fields
from pa_models.gguf_file import GgufFile
from pa_models.model_config import FAMILIES, NO_WINDOW, ModelConfig
from pa_models.rope import RopeConfig, attention_factor, rope_kind
from pa_models.rope_reader import check_rope

_ARCHITECTURES: Mapping[str, str] = MappingProxyType(
    {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
)


def read_gguf_config(file: GgufFile) -> ModelConfig:
    """Resolve the metadata of a supported architecture.

    Raises InputUnusable for another architecture, for a mixture of experts, and for values that
    are missing or of another type.
    """
    metadata = file.metadata
    architecture = metadata.text("general.architecture")
    if architecture not in _ARCHITECTURES:
        name = f"{metadata.name}: general.architecture"
        raise InputUnusable(name, f"{architecture!r} is not supported", ", ".join(_ARCHITECTURES))
    family = FAMILIES[_ARCHITECTURES[architecture]]
    sizes = _Section(metadata, architecture)
    if sizes.count("expert_count", 0, least=0):
        raise InputUnusable(metadata.name, "a mixture of experts is not supported", "dense models")
    heads = sizes.count("attention.head_count")
    kv_heads = sizes.count("attention.head_count_kv", heads)
    hidden = sizes.count("embedding_length")
    head_size = sizes.count("attention.key_length", hidden // heads)
    if heads % kv_heads or head_size % 8:
        problem = f"{heads} query heads, {kv_heads} key heads, head size {head_size}"
        raise InputUnusable(metadata.name, problem, "whole groups and a multiple of 8 (V10)")
    layers = sizes.count("block_count")
    window = sizes.count("attention.sliding_window", 0, least=0) if family.name == "llama" else 0
    return ModelConfig(
        family=family.name,
        vocab_size=file.shape("token_embd.weight")[0],
        hidden_size=hidden,
        intermediate_size=sizes.count("feed_forward_length"),
        num_layers=layers,
        num_heads=heads,
        kv_num_heads=kv_heads,
        head_size=head_size,
        norm_epsilon=sizes.number("attention.layer_norm_rms_epsilon", 1e-6),
        rope=_rope(file, sizes, head_size),
        windows=(window or NO_WINDOW,) * layers,
        has_qkv_bias=file.has("blk.0.attn_q.bias"),
        has_output_bias=file.has("blk.0.attn_output.bias"),
        has_mlp_bias=file.has("blk.0.ffn_gate.bias"),
        has_qk_norm=family.has_qk_norm,
        has_tied_embeddings=not file.has("output.weight"),
        eos_token_ids=_eos(metadata),
        bos_token_id=(metadata.token_ids("tokenizer.ggml.bos_token_id") or (None,))[0],
    )


def has_interleaved_rows(file: GgufFile) -> bool:
    """Whether the file keeps query and key rows for neighbouring rotary pairs."""
    return file.metadata.text("general.architecture") == "llama"


def _eos(metadata: Fields) -> tuple[int, ...]:
    """Join the ids that end a text, a turn and a message."""
    keys = ("eos_token_id", "eot_token_id", "eom_token_id")
    found = [metadata.token_ids(f"tokenizer.ggml.{key}") or () for key in keys]
    return tuple(dict.fromkeys(sum(found, ())))


def _rope(file: GgufFile, sizes: _Section, head_size: int) -> RopeConfig:
    trained = sizes.count("context_length", 2048)
    kind = rope_kind(sizes.text("rope.scaling.type", "none"))
    original = sizes.count("rope.scaling.original_context_length", trained)
    scale = sizes.number("rope.scale_linear", 1.0)
    implied = trained / original if kind in ("yarn", "longrope") else scale
    rope = RopeConfig(
        kind="linear" if kind == "default" and scale != 1.0 else kind,
        theta=sizes.number("rope.freq_base", 10000.0, above=1.0),
        rotary_dim=sizes.count("rope.dimension_count", head_size),
        trained_tokens=trained,
        original_tokens=original,
        factor=sizes.number("rope.scaling.factor", implied),
        beta_fast=sizes.number("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=sizes.number("rope.scaling.yarn_beta_slow", 1.0),
    )
    if rope.rotary_dim > head_size or rope.rotary_dim % 2:
        problem = f"rope.dimension_count {rope.rotary_dim}"
        raise InputUnusable(file.name, problem, f"an even number up to {head_size}")
    rope = _with_factors(file, sizes, rope)
    check_rope(rope, file.name)
    return rope


def _with_factors(file: GgufFile, sizes: _Section, rope: RopeConfig) -> RopeConfig:
    """Add what GGUF keeps as tensors: longrope's lists and llama3's rule, already evaluated."""
    if rope.kind == "yarn":
        # The file's factor comes on top of yarn's own temperature.
        extra = sizes.number("rope.scaling.attn_factor", 1.0)
        return replace(rope, attention_factor=attention_factor(rope) * extra)
    if rope.kind == "longrope":
        short, long = (
            tuple(file.read(f"rope_factors_{name}.weight").tolist()) for name in ("short", "long")
        )
        factor = sizes.optional_number("rope.scaling.attn_factor")
        return replace(rope, factors_short=short, factors_long=long, attention_factor=factor)
    if rope.kind == "default" and file.has("rope_freqs.weight"):
        divisors = tuple(file.read("rope_freqs.weight").tolist())
        if len(divisors) != rope.rotary_dim // 2:
            problem = f"rope_freqs.weight has {len(divisors)} numbers"
            raise InputUnusable(file.name, problem, f"{rope.rotary_dim // 2}")
        return replace(rope, kind="divided", factors_short=divisors)
    return rope


class _Section:
    """The metadata keys under one architecture's prefix."""

    def __init__(self, metadata: Fields, prefix: str) -> None:
        self._metadata = metadata
        self._prefix = prefix

    def count(self, key: str, default: int | None = None, least: int = 1) -> int:
        return self._metadata.count(f"{self._prefix}.{key}", default, least)

    def number(self, key: str, default: float, above: float = 0.0) -> float:
        return self._metadata.number(f"{self._prefix}.{key}", default, above)

    def optional_number(self, key: str) -> float | None:
        return self._metadata.optional_number(f"{self._prefix}.{key}")

    def text(self, key: str, default: str) -> str:
        return self._metadata.text(f"{self._prefix}.{key}", default)
