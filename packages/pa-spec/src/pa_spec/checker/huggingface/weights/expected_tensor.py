"""The names and shapes of the tensors that a model needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

from pa_spec.checker.huggingface.weights.size_expression import MAX_SIZE, UNKNOWN, evaluate
from pa_spec.checker.huggingface.weights.tensor_layout import (
    TensorLayout,
    TensorPart,
    TensorPrefix,
    TensorRow,
    tensor_parts,
)
from pa_spec.checker.meaning import NO_WINDOW, ModelMeaning

Shape = tuple[int | None, ...]
"""Extents; None = cannot be known, and is not compared."""


@dataclass(frozen=True, slots=True)
class ExpectedTensor:
    """One tensor that a model needs.

    is_needed: False where it may be left out, or the configuration does not decide whether it is
    there.
    """

    name: str
    shape: Shape
    role: str = ""
    is_needed: bool = True


@final
class ModelSizes:
    """Everything that expressions of tensors.toml may name, of one model.

    config: the decoder's own configuration. defaults: values for keys that it does not have.
    aliases: keys that others use for a key of this family.
    """

    def __init__(
        self,
        layout: TensorLayout,
        meaning: ModelMeaning,
        config: Mapping[str, Any],
        defaults: Mapping[str, Any],
    ) -> None:
        self._sizes = layout.sizes
        self._layers = meaning.layers
        self._written = {**defaults, **layout.defaults, **config}
        self._resolved = {
            "vocab_size": meaning.vocab_size,
            "hidden_size": meaning.hidden_size,
            "num_layers": len(meaning.layers),
            "context_tokens": meaning.context_tokens,
            "model_type": meaning.family,
        }

    @property
    def num_layers(self) -> int:
        """Layers of the model."""
        return len(self._layers)

    def value(self, text: str, layer: int | None, open_names: frozenset[str] = frozenset()) -> Any:
        """Return an expression's value in a layer, None = of the whole model.

        open_names: sizes being computed; within its own expression a name is the configuration's.
        """
        return evaluate(text, lambda name: self._named(name, layer, open_names))

    def extent(self, text: str, layer: int | None) -> int | None:
        """Return an expression's value as a number of elements, None when it is none."""
        value = self.value(text, layer)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return int(value) if value == int(value) and 0 <= value <= MAX_SIZE else None

    def _named(self, name: str, layer: int | None, open_names: frozenset[str]) -> Any:
        if layer is not None:
            known = self._of_layer(name, layer)
            if known is not UNKNOWN:
                return known
        if name in self._resolved:
            return self._resolved[name]
        if name in self._sizes and name not in open_names:
            return self.value(self._sizes[name], layer, open_names | {name})
        return self._written.get(name, UNKNOWN)

    def _of_layer(self, name: str, layer: int) -> Any:
        meaning = self._layers[layer]
        match name:
            case "layer":
                return layer
            case "kind":
                return meaning.kind.value
            case "has_window":
                return meaning.window != NO_WINDOW
            case "shares_cache":
                return meaning.shares_cache_of is not None
            case "num_heads" | "kv_num_heads" | "head_size" | "has_qk_norm":
                return getattr(meaning, name)
            case _:
                return UNKNOWN


@final
class TensorGroup:
    """One row of a layout in one model: a tensor of the model, or one in each layer.

    pattern: its name with {layer} and {index} for the numbers.
    """

    def __init__(self, sizes: ModelSizes, part: TensorPart, row: TensorRow, before: str) -> None:
        self.pattern = before + row.name
        self.role = row.role
        self._sizes = sizes
        self._part = part
        self._row = row

    @property
    def is_vector(self) -> bool:
        """Whether it has one axis; no method of quantization changes such a tensor."""
        return "," not in self._row.shape and not self._row.count

    @property
    def layers(self) -> Collection[int | None]:
        """The layers that it may be in; (None,) = it is the model's."""
        return range(self._sizes.num_layers) if self._part.scope == "layer" else (None,)

    def of_layer(self, layer: int | None) -> Iterator[ExpectedTensor]:
        """Yield the tensors of a layer, computed when asked for: a count may be anything."""
        sizes, row = self._sizes, self._row
        truths = [sizes.value(each, layer) for each in (self._part.when, row.when) if each]
        if any(each is not UNKNOWN and not each for each in truths):
            return
        is_needed = UNKNOWN not in truths
        if row.optional and sizes.value(row.optional, layer) is not False:
            is_needed = False
        extents = [each.strip() for each in row.shape.split(",")] if row.shape else []
        shape = tuple(sizes.extent(each, layer) for each in extents)
        name = self.pattern.replace("{layer}", str(layer))
        if not row.count:
            yield ExpectedTensor(name, shape, row.role, is_needed)
            return
        for index in range(sizes.extent(row.count, layer) or 0):
            yield ExpectedTensor(name.replace("{index}", str(index)), shape, row.role, is_needed)


def tensor_groups(
    layout: TensorLayout, sizes: ModelSizes, prefix: TensorPrefix, stored: Collection[str]
) -> Iterator[TensorGroup]:
    """Yield every row of a layout; stored: names of the checkpoint, to choose among spellings."""
    for ids in layout.parts:
        parts = [tensor_parts()[each] for each in ids.split(" | ")]
        chosen = next(
            (each for each in parts if _is_stored(each, layout, prefix, stored)), parts[0]
        )
        for row in chosen.tensors:
            yield TensorGroup(sizes, chosen, row, _before(chosen, row, layout, prefix))


def _before(part: TensorPart, row: TensorRow, layout: TensorLayout, prefix: TensorPrefix) -> str:
    if row.role in {"head", "head_bias"}:
        return prefix.head
    return f"{prefix.body}{layout.layers}.{{layer}}." if part.scope == "layer" else prefix.body


def _is_stored(
    part: TensorPart, layout: TensorLayout, prefix: TensorPrefix, stored: Collection[str]
) -> bool:
    # The last row of a part is what tells it from its alternatives; layer 0 has it.
    row = part.tensors[-1]
    pattern = _before(part, row, layout, prefix) + row.name
    return pattern.replace("{layer}", "0").replace("{index}", "0") in stored
