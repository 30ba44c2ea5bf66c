"""From a GGUF file's metadata to the same model configuration that a config.json gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from pa_spec import InputUnusable
from pa_spec.checker import NO_WINDOW, RopeMeaning, inverse_frequencies

from pa_models.fields import Fields
from pa_models.gguf_file import GgufFile
from pa_models.model_config import FAMILIES, ModelConfig

_ARCHITECTURES: Mapping[str, str] = MappingProxyType(
    {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
)
_ROPE_KINDS: Mapping[str, str] = MappingProxyType(
    {"none": "default", "su": "longrope"}
    | {kind: kind for kind in ("default", "linear", "dynamic", "llama3", "yarn", "longrope")}
)
"""Kinds of scaling by the names in use."""


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


def _rope(file: GgufFile, sizes: _Section, head_size: int) -> RopeMeaning:
    trained = sizes.count("context_length", 2048)
    kind = _rope_kind(file, sizes)
    original = sizes.count("rope.scaling.original_context_length", trained)
    scale = sizes.number("rope.scale_linear", 1.0)
    implied = trained / original if kind in ("yarn", "longrope") else scale
    rope = RopeMeaning(
        kind="linear" if kind == "default" and scale != 1.0 else kind,
        theta=sizes.number("rope.freq_base", 10000.0, above=1.0),
        rotary_dim=sizes.count("rope.dimension_count", head_size),
        trained_tokens=trained,
        original_tokens=original,
        factor=sizes.number("rope.scaling.factor", implied),
    )
    least = 4 if kind == "dynamic" else 2
    if rope.rotary_dim % 2 or not least <= rope.rotary_dim <= head_size:
        problem = f"rope.dimension_count {rope.rotary_dim}"
        raise InputUnusable(file.name, problem, f"an even number from {least} to {head_size}")
    return _with_parameters(file, sizes, rope)


def _rope_kind(file: GgufFile, sizes: _Section) -> str:
    name = sizes.text("rope.scaling.type", "none")
    if name not in _ROPE_KINDS:
        problem = f"rope.scaling.type {name!r} is not supported"
        raise InputUnusable(file.name, problem, ", ".join(_ROPE_KINDS))
    return _ROPE_KINDS[name]


def _with_parameters(file: GgufFile, sizes: _Section, rope: RopeMeaning) -> RopeMeaning:
    """Add what the kind's formula takes, and what GGUF keeps as tensors."""
    if rope.kind == "yarn":
        betas = tuple(
            (name, sizes.number(f"rope.scaling.yarn_{name}", default))
            for name, default in (("beta_fast", 32.0), ("beta_slow", 1.0))
        )
        rope = replace(rope, parameters=betas)
        # The file's factor comes on top of yarn's own temperature.
        extra = sizes.number("rope.scaling.attn_factor", 1.0)
        temperature = inverse_frequencies(rope, 1)[1] * extra
        return replace(rope, parameters=(*betas, ("attention_factor", temperature)))
    if rope.kind == "longrope":
        short, long = (
            _divisors(file, f"rope_factors_{name}.weight", rope) for name in ("short", "long")
        )
        return _divided(rope, short, long, sizes.optional_number("rope.scaling.attn_factor"))
    if rope.kind == "default" and file.has("rope_freqs.weight"):
        # llama3's rule, already evaluated: divisors that hold at every length.
        divisors = _divisors(file, "rope_freqs.weight", rope)
        return _divided(replace(rope, kind="longrope"), divisors, divisors, 1.0)
    return rope


def _divided(
    rope: RopeMeaning,
    short: tuple[float, ...],
    long: tuple[float, ...],
    attention_factor: float | None,
) -> RopeMeaning:
    values = (("short_factor", short), ("long_factor", long))
    return replace(rope, parameters=(*values, ("attention_factor", attention_factor)))


def _divisors(file: GgufFile, name: str, rope: RopeMeaning) -> tuple[float, ...]:
    found = tuple(file.read(name).tolist())
    pairs = rope.rotary_dim // 2
    if len(found) != pairs:
        raise InputUnusable(file.name, f"{name} has {len(found)} numbers", f"{pairs}")
    if not min(found) > 0.0:
        raise InputUnusable(file.name, f"{name} has {min(found)}", "numbers above 0")
    return found


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
