"""What transformers makes of a config.json: measured on a model constructed on the meta device.

Nothing is read back from the configuration where it can be measured: an attention function of our
own records what each layer hands over, a mask function of our own how many keys it lets through,
and the rotary embedding is asked for the angles of position 1 in sequences of chosen lengths.
"""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers import AttentionInterface, AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.masking_utils import AttentionMaskInterface
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

transformers.logging.set_verbosity_error()

PROBE = "paged_probe"
_FAR = 2**40
_DECODERS = (
    "model.language_model",
    "model.text_model",
    "model.decoder",
    "model",
    "transformer",
    "gpt_neox",
    "language_model.model",
)
_QUERY_NORMS = {"q_norm", "q_layernorm", "query_layernorm"}


@dataclass
class SeenLayer:
    """What one layer handed to attention. visible: keys that a late token sees, itself included."""

    num_heads: int
    kv_num_heads: int
    head_size: int
    v_head_size: int
    scale: float
    softcap: float
    visible: int
    has_sink: bool
    has_qk_norm: bool
    layer_type: str = ""
    rotated_channels: int = 0
    pairs_neighbours: bool = False


@dataclass
class Seen:
    """A constructed model and what its layers did. dtype: as its configuration says, "" = not."""

    model: Any
    text: Any
    dtype: str = ""
    layers: list[SeenLayer] = field(default_factory=list)

    @property
    def config(self) -> Any:
        """Return the text model's configuration object."""
        return self.text.config

    @property
    def is_tied(self) -> bool:
        """Whether the output projection is the embedding."""
        self.model.tie_weights()
        embedding = self.model.get_input_embeddings().weight
        return bool(self.model.get_output_embeddings().weight is embedding)

    @property
    def final_softcap(self) -> float:
        """Return the cap of the vocabulary's logits, 0 where the model's code has none."""
        is_read = "final_logit_softcapping" in inspect.getsource(type(self.model).forward)
        cap = getattr(self.config, "final_logit_softcapping", None) if is_read else None
        return float(cap or 0.0)

    def angles(self, tokens: int, layer_type: str = "") -> tuple[Tensor, float]:
        """Return the angle of position 1 for each pair, and the multiplier of cos and sin."""
        rotary = self.text.rotary_emb.rebuilt()
        is_table = hasattr(rotary, "embed_positions")  # GPT-J's, with the sines first
        last = min(tokens, len(rotary.embed_positions)) if is_table else tokens
        positions = torch.tensor([[1, last - 1]])
        values = torch.zeros(1, dtype=torch.float32)
        by_type = {"layer_type": layer_type} if layer_type else {}
        cos, sin = (each[0, 0].double() for each in rotary(values, positions, **by_type))
        if is_table:
            return torch.atan2(cos, sin), 1.0
        half = cos.numel() // 2
        if torch.equal(sin[:half], sin[half:]):
            cos, sin = cos[:half], sin[:half]
        elif torch.equal(sin[::2], sin[1::2]):
            cos, sin = cos[::2], sin[::2]
        return torch.atan2(sin, cos), float(torch.hypot(cos, sin).mean())


class Refused(Exception):
    """Transformers refused the configuration, or its model failed."""


def observe(config: Mapping[str, Any]) -> Seen:
    """Construct the model of a configuration and run one token through it.

    Raises Refused with transformers' own words.
    """
    try:
        return _observe(copy.deepcopy(dict(config)))
    except Exception as error:
        if "meta tensor" in str(error):
            raise  # the device's fault, not the configuration's
        raise Refused(f"{type(error).__name__}: {error}") from error


def _observe(config: dict[str, Any]) -> Seen:
    kind: Any = CONFIG_MAPPING[config["model_type"]]
    resolved = kind.from_dict(config)
    dtype = resolved.dtype or resolved.get_text_config().dtype
    model = _construct(resolved)
    text = _decoder(model)
    seen = Seen(model, text, str(dtype or "").removeprefix("torch."))
    layers = text.layers if hasattr(text, "layers") else text.h
    for layer in layers:
        _silence_experts(layer)
    if hasattr(text, "rotary_emb"):
        text.rotary_emb = _HostRotary(text.rotary_emb, text.config)
    with _recorded_rotation(layers) as rotations, torch.device("meta"), torch.no_grad():
        _CALLS.clear()
        text(input_ids=torch.zeros(1, 1, dtype=torch.long), use_cache=True)
    types = getattr(text.config, "layer_types", None) or [""] * len(layers)
    for index, call in enumerate(_CALLS):
        call.layer_type = types[index]
        call.rotated_channels, call.pairs_neighbours = rotations.get(index, (0, False))
    seen.layers = list(_CALLS)
    return seen


def _construct(config: Any) -> Any:
    with torch.device("meta"):
        for auto in (AutoModelForCausalLM, AutoModelForImageTextToText):
            if type(config) in auto._model_mapping:
                return auto.from_config(config, attn_implementation=PROBE)
    raise ValueError(f"{type(config).__name__} is no decoder's")


def _decoder(model: Any) -> Any:
    """Return the module that holds the decoder's layers."""
    for name in _DECODERS:
        found = model
        for part in name.split("."):
            found = getattr(found, part, None)
        if hasattr(found, "layers") or hasattr(found, "h"):
            return found
    raise ValueError(f"{type(model).__name__} has no layers")


class _Marker:
    """Travels through the model in place of an attention mask."""

    def __init__(self, visible: int) -> None:
        self.visible = visible


_CALLS: list[SeenLayer] = []


def _attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Any, **words: Any
) -> tuple[Tensor, None]:
    names = {name.split(".")[0] for name, _ in module.named_modules()}
    _CALLS.append(
        SeenLayer(
            num_heads=query.shape[1],
            kv_num_heads=key.shape[1],
            head_size=query.shape[-1],
            v_head_size=value.shape[-1],
            scale=float(words["scaling"]) * _query_scale(module),
            softcap=float(words.get("softcap") or 0.0),
            visible=mask.visible,
            has_sink=words.get("s_aux") is not None,
            has_qk_norm=bool(names & _QUERY_NORMS),
        )
    )
    shape = (query.shape[0], query.shape[2], query.shape[1], value.shape[-1])
    return torch.empty(shape, dtype=query.dtype, device=query.device), None


def _query_scale(module: Any) -> float:
    """Return the factor that queries have already when attention is called: OPT's do."""
    return float(module.scaling) if type(module).__name__ == "OPTAttention" else 1.0


def _mask(*_: Any, mask_function: Callable[..., Any], **__: Any) -> _Marker:
    """Find by bisection how far back the mask reaches from a late token."""

    def sees(distance: int) -> bool:
        return bool(mask_function(0, 0, torch.tensor(_FAR), torch.tensor(_FAR - distance)))

    with torch.device("cpu"):
        if sees(_FAR // 2):
            return _Marker(-1)
        low, high = -1, _FAR // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if sees(middle) else (low, middle)
    return _Marker(high)


AttentionInterface.register(PROBE, _attention)
AttentionMaskInterface.register(PROBE, _mask)


class _Same(nn.Module):
    """Stands in for a mixture of experts, whose routing the meta device cannot run."""

    def __init__(self, *, returns_scores: bool) -> None:
        super().__init__()
        self._returns_scores = returns_scores

    def forward(self, hidden: Tensor, *_: Any, **__: Any) -> Any:
        return (hidden, None) if self._returns_scores else hidden


class _HostRotary(nn.Module):
    """Stands in for a rotary embedding: some compare lengths, which the meta device cannot."""

    def __init__(self, original: Any, config: Any) -> None:
        super().__init__()
        self._kind, self._config = type(original), getattr(original, "config", config)
        self._host = self.rebuilt()
        self.rope_type = getattr(original, "rope_type", "")

    def rebuilt(self) -> Any:
        """Construct it again on the CPU, where its numbers are."""
        with torch.device("cpu"):
            return self._kind(copy.deepcopy(self._config))

    def forward(self, hidden: Tensor, *more: Any, **words: Any) -> Any:
        words.pop("position_ids", None)
        with torch.device("cpu"):
            positions = torch.zeros(1, 1, dtype=torch.long)
            found = self._host(torch.zeros(1), positions, *more[1:], **words)
        return tuple(each.to(hidden.device) for each in found)


def _attention_module(layer: Any) -> Any:
    named = (getattr(layer, name, None) for name in ("self_attn", "attention", "attn"))
    return next((each for each in named if each is not None), None)


def _silence_experts(layer: Any) -> None:
    for name in ("mlp", "block_sparse_moe", "feed_forward"):
        block = getattr(layer, name, None)
        if block is not None and any(hasattr(block, each) for each in ("experts", "gate_experts")):
            setattr(layer, name, _Same(returns_scores="GptOss" in type(block).__name__))


@contextmanager
def _recorded_rotation(layers: Any) -> Iterator[dict[int, tuple[int, bool]]]:
    """Record which layers rotate, how many channels, and whether neighbours form pairs."""
    found: dict[int, tuple[int, bool]] = {}
    attention = next(filter(None, map(_attention_module, layers)), None)
    module: Any = sys.modules[type(attention).__module__] if attention is not None else None
    rotate = getattr(module, "apply_rotary_pos_emb", None)
    if rotate is None:
        yield found
        return

    def recorded(query: Tensor, *more: Any, **words: Any) -> Any:
        width = words["cos"] if "cos" in words else more[1]
        found[len(_CALLS)] = (
            query.shape[-1],
            _pairs_neighbours(rotate, width.shape[-1], query.shape[-1]),
        )
        return rotate(query, *more, **words)

    module.apply_rotary_pos_emb = recorded
    try:
        yield found
    finally:
        module.apply_rotary_pos_emb = rotate


def _pairs_neighbours(rotate: Callable[..., Any], width: int, channels: int) -> bool:
    """Turn channel 0 by a right angle and see where it arrives."""
    is_for_one = next(iter(inspect.signature(rotate).parameters)) == "tensor"  # GPT-J's
    with torch.device("cpu"):
        unit = torch.zeros(1, 1, 1, channels)
        unit[..., 0] = 1.0
        cos, sin = torch.zeros(1, 1, width), torch.ones(1, 1, width)
        turned = rotate(unit, sin, cos) if is_for_one else rotate(unit, unit, cos, sin)[0]
    return int(turned.abs().argmax()) == 1
