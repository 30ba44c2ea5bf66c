"""What transformers' modules use in decoders of several kinds of layers.

A model is constructed on the meta device, so it has every shape and no weight. Numbers come from
modules (output features, convolution weights, attributes that their forward reads), never from the
configuration that is under test.
"""

from __future__ import annotations

import copy
import inspect
import math
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from pa_spec.checker import LayerKind
from transformers.cache_utils import DynamicCache, DynamicSlidingWindowLayer
from transformers.masking_utils import create_masks_for_generate

transformers.logging.set_verbosity_error()

_QK_NORMS = ("q_norm", "qk_norm", "q_layernorm")
_MIXERS = ("self_attn", "linear_attn", "mamba", "mixer", "conv")


@dataclass(frozen=True)
class OracleLayer:
    """One layer as its modules are. conv: channels and kernel of its convolution."""

    kind: LayerKind
    num_heads: int = 0
    kv_num_heads: int = 0
    head_size: int = 0
    v_head_size: int = 0
    scale: float = 0.0
    window: int = -1
    chunk_tokens: int = 0
    has_rope: bool = False
    has_qk_norm: bool = False
    shares_cache_of: int | None = None
    conv: tuple[int, int] | None = None
    recurrent: tuple[int, ...] = ()


class Oracle:
    """A constructed model and what its modules say."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        kind: Any = getattr(transformers, config["architectures"][0])
        values = {key: copy.deepcopy(value) for key, value in config.items() if key != "model_type"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # older spellings are what is tested
            self.config: Any = kind.config_class(**values)
        with torch.device("meta"):
            self.model: Any = kind._from_config(self.config, attn_implementation="eager")
        inner: Any = self.model
        while not hasattr(inner, "layers"):
            inner = getattr(inner, "language_model", None) or inner.model
        if hasattr(inner, "pos_emb"):
            inner.rotary_emb = inner.pos_emb
        self.text = inner
        self.text_config: Any = self.config.get_text_config()

    @property
    def layers(self) -> tuple[OracleLayer, ...]:
        """Return every layer of the text model."""
        cached = DynamicCache(config=self.config).layers
        return tuple(self._layer(i, each, cached) for i, each in enumerate(self.text.layers))

    @property
    def is_tied(self) -> bool:
        """Whether the output projection is the embedding."""
        self.model.tie_weights()
        embedding = self.model.get_input_embeddings().weight
        return bool(self.model.get_output_embeddings().weight is embedding)

    def layer_type(self, index: int) -> str:
        """Return the layer's name in transformers' list of types, "" where there is none."""
        types = getattr(self.text_config, "layer_types", None)
        return str(types[index]) if types else ""

    def frequencies(self, layer_type: str) -> tuple[torch.Tensor, float]:
        """Return the inverse frequencies that a layer of that type is rotated by, and a factor."""
        rotary: Any = type(self.text.rotary_emb)(copy.deepcopy(self.text_config))
        prefix = f"{layer_type}_" if hasattr(rotary, f"{layer_type}_inv_freq") else ""
        factor = float(getattr(rotary, f"{prefix}attention_scaling"))
        return getattr(rotary, f"{prefix}inv_freq"), factor

    def visible(self, layer_type: str, tokens: int) -> torch.Tensor:
        """Return [tokens, tokens] bool: which keys each query of a layer of that type sees."""
        masks = create_masks_for_generate(
            config=self.config,
            inputs_embeds=torch.zeros(1, tokens, 8),
            attention_mask=torch.ones(1, tokens, dtype=torch.long),
            cache=None,
            position_ids=torch.arange(tokens)[None],
        )
        mask: torch.Tensor = (masks[layer_type] if isinstance(masks, dict) else masks)[0, 0]
        return mask if mask.dtype is torch.bool else mask.eq(0)

    def partner_of_the_first_channel(self, rotates: str, width: int) -> int:
        """Return the channel that a function of the model's module turns channel 0 into.

        A quarter turn brings channel 0 where its partner stands without one, whatever order the
        function leaves the channels in.
        """
        function: Any = getattr(sys.modules[type(self.text).__module__], rotates)
        units = torch.eye(width)[:, None, None, :]  # [width, 1, 1, width]: unit i in row i
        turned = _rotated(function, units, angle=torch.pi / 2)[0]
        standing = _rotated(function, units, angle=0.0)
        return int((standing @ turned).abs().argmax())

    def _layer(self, index: int, layer: Any, cached: list[Any]) -> OracleLayer:
        modules = [getattr(layer, name, None) for name in _MIXERS]
        attention = next((each for each in modules if hasattr(each, "scaling")), None)
        state = next((each for each in modules if _convolution(each) is not None), None)
        fields: dict[str, Any] = {"kind": LayerKind.NONE}
        if state is not None:
            fields |= _state(state)
        if attention is not None:
            found = fields["kind"] if state is not None else None
            fields |= self._attention(attention) | self._reach(index, attention, cached)
            if found is not None:
                fields["kind"] = LayerKind.ATTENTION_AND_MAMBA
        return OracleLayer(**fields)

    def _attention(self, module: Any) -> dict[str, Any]:
        common = {
            "scale": float(module.scaling),
            "has_rope": hasattr(self.text, "rotary_emb")
            and self.text.rotary_emb is not None
            and bool(getattr(module, "use_rope", True)),
            "has_qk_norm": any(hasattr(module, name) for name in _QK_NORMS),
        }
        if hasattr(module, "kv_a_proj_with_mqa"):
            return common | {
                "kind": LayerKind.LATENT_ATTENTION,
                "num_heads": module.q_b_proj.out_features // module.qk_head_dim
                if module.q_lora_rank is not None
                else module.q_proj.out_features // module.qk_head_dim,
                "kv_num_heads": 1,
                "head_size": module.kv_a_proj_with_mqa.out_features,
                "v_head_size": module.kv_a_layernorm.weight.shape[0],
            }
        size = module.head_dim
        output = module.o_proj if hasattr(module, "o_proj") else module.out_proj
        heads = output.in_features // size
        key = getattr(module, "k_proj", None)
        kv_heads = heads // module.num_key_value_groups if key is None else key.out_features // size
        return common | {
            "kind": LayerKind.ATTENTION,
            "num_heads": heads,
            "kv_num_heads": kv_heads,
            "head_size": size,
            "v_head_size": size,
        }

    def _reach(self, index: int, module: Any, cached: list[Any]) -> dict[str, Any]:
        """Return window, chunk and shared cache of a layer that attends."""
        kept = cached[index] if index < len(cached) else None
        width = getattr(module, "sliding_window", None)
        if width is None and isinstance(kept, DynamicSlidingWindowLayer):
            width = kept.sliding_window
        is_chunked = self.layer_type(index) == "chunked_attention"
        found = (
            {"chunk_tokens": width} if is_chunked else {"window": -1 if width is None else width}
        )
        return found | {"shares_cache_of": self._source(index, module)}

    def _source(self, index: int, module: Any) -> int | None:
        if not getattr(module, "is_kv_shared_layer", False):
            return None
        stores = [
            other
            for other, layer in enumerate(self.text.layers)
            if layer.self_attn.store_full_length_kv
            and self.layer_type(other) == self.layer_type(index)
        ]
        return stores[0]


def _rotated(function: Any, units: torch.Tensor, angle: float) -> torch.Tensor:
    """Rotate every unit vector by one angle: [width, width]."""
    width = units.shape[-1]
    if "cos" in inspect.signature(function).parameters:
        cos, sin = (torch.full((len(units), 1, width), turn) for turn in _turns(angle))
        found = function(units, units, cos, sin)[0]
    else:
        angles = torch.full((len(units), 1, width // 2), angle)
        found = function(units, units, torch.polar(torch.ones_like(angles), angles))[0]
    return torch.as_tensor(found).reshape(width, width)


def _turns(angle: float) -> tuple[float, float]:
    return math.cos(angle), math.sin(angle)


def _convolution(module: Any) -> Any:
    conv = getattr(module, "conv1d", None)
    return getattr(module, "conv", None) if conv is None else conv


def _state(module: Any) -> dict[str, Any]:
    weight = _convolution(module).weight
    found: dict[str, Any] = {"kind": LayerKind.CONV, "conv": (weight.shape[0], weight.shape[2])}
    if hasattr(module, "num_v_heads"):
        found["kind"] = LayerKind.LINEAR_ATTENTION
        found["recurrent"] = (module.num_v_heads, module.head_v_dim, module.head_k_dim)
    elif hasattr(module, "ssm_state_size"):
        found["kind"] = LayerKind.MAMBA
        found["recurrent"] = (module.num_heads, module.head_dim, module.ssm_state_size)
    return found
