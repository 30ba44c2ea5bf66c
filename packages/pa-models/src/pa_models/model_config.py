"""What a Llama-family model is: sizes, variants and limits, whatever file said so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pa_spec import InputUnusable, Severity
from pa_spec.checker import Finding, Findings, ModelMeaning, Place, RopeMeaning, resolve_config

from pa_models.fields import Fields

MAX_SHOWN_MISTAKES = 3
"""Mistakes of one config.json that a refusal quotes; `pa-spec check` lists them all."""


@dataclass(frozen=True, slots=True)
class Family:
    """How one architecture differs from the others in what its decoder computes.

    has_qkv_bias, has_output_bias: whether q, k and v, and the output projection, carry a bias;
    None = attention_bias says so.
    """

    name: str
    has_qkv_bias: bool | None = False
    has_output_bias: bool | None = False
    has_qk_norm: bool = False


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "LlamaForCausalLM": Family("llama", has_qkv_bias=None, has_output_bias=None),
        "MistralForCausalLM": Family("mistral"),
        "Qwen2ForCausalLM": Family("qwen2", has_qkv_bias=True),
        "Qwen3ForCausalLM": Family(
            "qwen3", has_qkv_bias=None, has_output_bias=None, has_qk_norm=True
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
    rope: RopeMeaning
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
    """Resolve a config.json of a supported architecture, as `pa-spec check` resolves it.

    Raises InputUnusable for an architecture that is not supported (naming it and those that
    are), and for whatever the checker calls a mistake (naming the key, what it expects and what
    it got).
    """
    architecture, family = _family(config)
    meaning = _resolve(config)
    if meaning.model_type != family.name:
        allowed = f"{family.name}, as architectures says {architecture}"
        raise InputUnusable(f"{config.name}.model_type", meaning.model_type, allowed)
    _refuse_other_arithmetic(config)
    layer, [rope] = meaning.layers[0], meaning.ropes  # alike in all layers of these families
    attention_bias = config.flag("attention_bias", default=False)
    return ModelConfig(
        family=family.name,
        vocab_size=meaning.vocab_size,
        hidden_size=meaning.hidden_size,
        intermediate_size=config.count("intermediate_size"),
        num_layers=len(meaning.layers),
        num_heads=layer.num_heads,
        kv_num_heads=layer.kv_num_heads,
        head_size=layer.head_size,
        norm_epsilon=config.number("rms_norm_eps", 1e-6),
        rope=rope,
        windows=tuple(each.window for each in meaning.layers),
        has_qkv_bias=attention_bias if family.has_qkv_bias is None else family.has_qkv_bias,
        has_output_bias=attention_bias if family.has_output_bias is None else False,
        has_mlp_bias=family.name == "llama" and config.flag("mlp_bias", default=False),
        has_qk_norm=layer.has_qk_norm,
        has_tied_embeddings=meaning.has_tied_embeddings,
        eos_token_ids=config.token_ids("eos_token_id") or (),
        bos_token_id=(config.token_ids("bos_token_id") or (None,))[0],
        dtype=meaning.element_type.value if meaning.element_type else None,
    )


def _family(config: Fields) -> tuple[str, Family]:
    names = config.texts("architectures")
    for name in names:
        if name in FAMILIES:
            return name, FAMILIES[name]
    found = ", ".join(names) or config.text("model_type", "no architectures")
    raise InputUnusable(
        f"{config.name}.architectures", f"{found} is not supported", ", ".join(FAMILIES)
    )


def _resolve(config: Fields) -> ModelMeaning:
    findings = Findings()
    meaning = resolve_config(config.values, findings, Place())
    mistakes = [str(each) for each in findings if _is_mistake(each)]
    if meaning is None or mistakes:
        shown = mistakes[:MAX_SHOWN_MISTAKES]
        more = len(mistakes) - len(shown)
        rest = [f"and {more} more, which pa-spec check lists"] if more else []
        raise InputUnusable(config.name, "; ".join([*shown, *rest]))
    return meaning


def _is_mistake(finding: Finding) -> bool:
    # transformers rotates whole heads in these families whatever the key says, so the checker
    # only warns; a file that asks for a part was hardly trained that way.
    is_heavy = finding.severity in (Severity.VIOLATION, Severity.UNREADABLE)
    return is_heavy or finding.name == "partial_rotary_factor"


def _refuse_other_arithmetic(config: Fields) -> None:
    """Refuse what changes the numbers beside attention and its state, or how weights are kept."""
    activation = config.text("hidden_act", "silu")
    if activation not in ("silu", "swish"):
        raise InputUnusable(f"{config.name}.hidden_act", f"{activation!r}", "silu")
    if "quantization_config" in config:
        allowed = "unquantized weights, or a GGUF file"
        raise InputUnusable(f"{config.name}.quantization_config", "is not supported", allowed)
    if config.flag("rope_interleaved", default=False):
        raise InputUnusable(f"{config.name}.rope_interleaved", "true", "false")
