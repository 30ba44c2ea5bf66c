"""What a Llama-family model is: sizes, variants and limits, whatever file said so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pa_spec import InputUnusable

from pa_models.fields import Fields
from pa_models.rope import RopeConfig
from pa_models.rope_reader import read_rope

NO_WINDOW = -1
"""The window of a layer that attends to everything before it."""


@dataclass(frozen=True, slots=True)
class Family:
    """How one architecture differs from the others; values are its file format's defaults.

    has_qkv_bias: whether q, k, v carry a bias; None = attention_bias says so. output_bias: the
    attention_bias flag also covers the output projection. windowed: which key rules decide about
    sliding windows ("none", "always", "layers"). window_tokens: the window where none is written.
    """

    name: str
    has_qkv_bias: bool | None = False
    has_output_bias: bool | None = False
    has_qk_norm: bool = False
    windowed: str = "none"
    window_tokens: int = 4096
    trained_tokens: int = 32768


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "LlamaForCausalLM": Family(
            "llama", has_qkv_bias=None, has_output_bias=None, trained_tokens=2048
        ),
        "MistralForCausalLM": Family("mistral", windowed="always", trained_tokens=131072),
        "Qwen2ForCausalLM": Family("qwen2", has_qkv_bias=True, windowed="layers"),
        "Qwen3ForCausalLM": Family(
            "qwen3",
            has_qkv_bias=None,
            has_output_bias=None,
            has_qk_norm=True,
            windowed="layers",
        ),
    }
)
"""Architectures by the name that config.json gives them."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One checkpoint's model.

    windows: for each layer its sliding window counting the current token, NO_WINDOW = none.
    eos_token_ids: what config.json says, generation_config.json may overrule it.
    """

    family: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    kv_num_heads: int
    head_size: int
    norm_epsilon: float
    rope: RopeConfig
    windows: tuple[int, ...]
    has_qkv_bias: bool = False
    has_output_bias: bool = False
    has_mlp_bias: bool = False
    has_qk_norm: bool = False
    has_tied_embeddings: bool = False
    eos_token_ids: tuple[int, ...] = ()
    bos_token_id: int | None = None
    dtype: str | None = None

    @property
    def context_tokens(self) -> int:
        """Positions the model supports."""
        return self.rope.context_tokens


def read_model_config(config: Fields) -> ModelConfig:
    """Resolve a config.json of a supported architecture.

    Raises InputUnusable for an architecture that is not supported (naming it and those that
    are), and for values that are missing, of another type, or contradict each other.
    """
    family = _family(config)
    heads = config.count("num_attention_heads")
    hidden = config.count("hidden_size")
    head_size = config.count("head_dim", 128 if family.name == "qwen3" else hidden // heads)
    kv_heads = config.count("num_key_value_heads", 8 if family.name == "mistral" else heads)
    _check_sizes(config, heads, kv_heads, head_size)
    trained = config.count("max_position_embeddings", family.trained_tokens)
    layers = config.count("num_hidden_layers")
    rope = read_rope(config, head_size, trained)
    if rope.rotary_dim != head_size:
        # transformers rotates whole heads in all these families, whatever the key says.
        problem = f"{rope.rotary_dim} of {head_size} channels"
        raise InputUnusable(f"{config.name}.partial_rotary_factor", problem, "1, or no such key")
    attention_bias = config.flag("attention_bias", default=False)
    return ModelConfig(
        family=family.name,
        vocab_size=config.count("vocab_size"),
        hidden_size=hidden,
        intermediate_size=config.count("intermediate_size"),
        num_layers=layers,
        num_heads=heads,
        kv_num_heads=kv_heads,
        head_size=head_size,
        norm_epsilon=config.number("rms_norm_eps", 1e-6),
        rope=rope,
        windows=_windows(config, family, layers),
        has_qkv_bias=attention_bias if family.has_qkv_bias is None else family.has_qkv_bias,
        has_output_bias=attention_bias if family.has_output_bias is None else False,
        has_mlp_bias=family.name == "llama" and config.flag("mlp_bias", default=False),
        has_qk_norm=family.has_qk_norm,
        has_tied_embeddings=config.flag("tie_word_embeddings", default=False),
        eos_token_ids=config.token_ids("eos_token_id") or (),
        bos_token_id=(config.token_ids("bos_token_id") or (None,))[0],
        dtype=_dtype(config),
    )


def _family(config: Fields) -> Family:
    names = config.texts("architectures")
    for name in names:
        if name in FAMILIES:
            return FAMILIES[name]
    found = ", ".join(names) or config.text("model_type", "no architectures")
    raise InputUnusable(
        f"{config.name}.architectures", f"{found} is not supported", ", ".join(FAMILIES)
    )


def _check_sizes(config: Fields, heads: int, kv_heads: int, head_size: int) -> None:
    if heads % kv_heads:
        problem = f"{kv_heads} does not divide {heads} query heads"
        raise InputUnusable(f"{config.name}.num_key_value_heads", problem, f"a divisor of {heads}")
    if head_size % 8:
        raise InputUnusable(f"{config.name}.head_dim", f"{head_size}", "a multiple of 8 (V10)")
    activation = config.text("hidden_act", "silu")
    if activation not in ("silu", "swish"):
        raise InputUnusable(f"{config.name}.hidden_act", f"{activation!r}", "silu")
    if "quantization_config" in config:
        allowed = "unquantized weights, or a GGUF file"
        raise InputUnusable(f"{config.name}.quantization_config", "is not supported", allowed)
    if config.flag("rope_interleaved", default=False):
        raise InputUnusable(f"{config.name}.rope_interleaved", "true", "false")


def _windows(config: Fields, family: Family, layers: int) -> tuple[int, ...]:
    if family.windowed == "none":
        return (NO_WINDOW,) * layers
    is_null = config.has("sliding_window") and "sliding_window" not in config
    window = NO_WINDOW if is_null else config.count("sliding_window", family.window_tokens)
    if family.windowed == "always":
        return (window,) * layers
    if not config.flag("use_sliding_window", default=False):
        window = NO_WINDOW
    types = config.texts("layer_types")
    if not types:
        first = config.count("max_window_layers", 28, least=0)
        return tuple(window if layer >= first else NO_WINDOW for layer in range(layers))
    known = {"sliding_attention": window, "full_attention": NO_WINDOW}
    if len(types) != layers or not set(types) <= set(known):
        problem = f"{len(types)} entries of {', '.join(sorted(set(types)))}"
        allowed = f"{layers} entries of {' or '.join(known)}"
        raise InputUnusable(f"{config.name}.layer_types", problem, allowed)
    return tuple(known[each] for each in types)


def _dtype(config: Fields) -> str | None:
    """Return the element type of the checkpoint; "dtype" is the newer spelling."""
    for key in ("dtype", "torch_dtype"):
        if key in config:
            return config.text(key).removeprefix("torch.")
    return None
