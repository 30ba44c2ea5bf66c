"""Changes of a right PagedAttention node, and what a check of the changed node reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paged_graphs import (
    FLOAT,
    HALF,
    INT8,
    LATENT,
    Input,
    Node,
    Shape,
    check_model_proto,
    latent_inputs,
    packed_inputs,
)

CACHE_NAMES = ("key_cache", "value_cache")
THREE = ("attention", "present.0.key", "present.0.value")
SCALE: tuple[int, ...] = (2, 1, 16)
PER_CHANNEL = {"k_quant_type": "PER_CHANNEL", "v_quant_type": "PER_CHANNEL"}


@dataclass(frozen=True, slots=True)
class Change:
    """What differs from a right node. An attribute of None is left out, an input of None too."""

    base: Callable[[], dict[str, Input]] = packed_inputs
    attributes: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Input | int | Shape] = field(default_factory=dict)
    outputs: tuple[str, ...] = THREE
    block_size: int | None = None

    def findings(self, folder: Path) -> list[str]:
        """Check the changed node."""
        node = Node(inputs=self.base(), outputs=self.outputs)
        if self.base is latent_inputs:
            node.attributes = dict(LATENT)
            node.outputs = self.outputs if self.outputs != THREE else THREE[:2]
        for name, change in self.inputs.items():
            _apply(node.inputs, name, change)
        merged = node.attributes | dict(self.attributes)
        node.attributes = {name: value for name, value in merged.items() if value is not None}
        return list(map(str, check_model_proto(node.model(), folder, self.block_size)))


def both(change: Input | int | Shape) -> dict[str, Input | int | Shape]:
    """Change both caches."""
    return dict.fromkeys(CACHE_NAMES, change)


def quantized(**changes: Input | int | Shape) -> dict[str, Input | int | Shape]:
    """Return int8 caches with a scale for each channel."""
    return {
        **both(INT8),
        "k_scale": Input("k_scale", FLOAT, SCALE),
        "v_scale": Input("v_scale", FLOAT, SCALE),
        **changes,
    }


def _apply(inputs: dict[str, Input], name: str, change: Input | int | Shape) -> None:
    known = inputs.get(name, Input(name, HALF, None))
    if isinstance(change, Input):
        inputs[name] = change
    elif isinstance(change, int):
        inputs[name] = Input(known.name, change, known.shape)
    elif change is None:
        inputs.pop(name, None)
    else:
        inputs[name] = Input(known.name, known.element, change)
