"""Example calls for tests: valid signatures of every input mode, and changes to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pa_spec.contract.data import document
from pa_spec.contract.operator_table import operator_inputs, type_constraints
from pa_spec.element_type import ElementType
from pa_spec.errors import InputUnusable
from pa_spec.operator import (
    CallSignature,
    PagedAttentionAttributes,
    PagedAttentionInputs,
    TensorSignature,
)

_ATTRIBUTES = frozenset(field.name for field in fields(PagedAttentionAttributes))
_INPUTS = tuple(field.name for field in fields(PagedAttentionInputs))


def example_call(mode: str, changes: Mapping[str, Any] | None = None) -> CallSignature:
    """Return the signature of an example call, valid unless the changes break it.

    mode: "separate", "packed" or "latent". changes: by name of an input, attribute, "metadata" or
    "output_qk_type", as in spec/vectors/validation.json: null takes an input away, a mapping
    replaces some of "shape", "element_type", "device", "row_stride" and "contiguous_inner".

    Raises InputUnusable for a mode or a name that does not exist.
    """
    bases = document("vectors/validation.json")["bases"]
    if mode not in bases:
        raise InputUnusable(f"mode {mode!r}", "does not exist", ", ".join(bases))
    tensors: dict[str, TensorSignature | None] = {
        name: _tensor(name, None, bases[mode]["inputs"].get(name)) for name in _INPUTS
    }
    attributes: dict[str, Any] = dict(bases[mode]["attributes"])
    metadata, output_qk_type = None, None
    for name, change in (changes or {}).items():
        if name in _ATTRIBUTES:
            attributes[name] = change
        elif name in tensors:
            tensors[name] = _tensor(name, tensors[name], change)
        elif name == "metadata":
            metadata = tuple(change)
        elif name == "output_qk_type":
            output_qk_type = ElementType(change)
        else:
            raise InputUnusable(name, "is no input, attribute or part of a signature")
    return CallSignature(
        PagedAttentionAttributes(**attributes), _inputs(tensors), metadata, output_qk_type
    )


def _tensor(
    name: str, base: TensorSignature | None, change: Mapping[str, Any] | None
) -> TensorSignature | None:
    """Apply a change to a tensor; one that was absent is contiguous and on the host."""
    if change is None:
        return None
    row = operator_inputs()[_INPUTS.index(name)]
    default = base or TensorSignature(_natural_type(row.type), ())
    return TensorSignature(
        ElementType(change.get("element_type", default.element_type.value)),
        tuple(change.get("shape", default.shape)),
        change.get("device", default.device),
        change.get("row_stride", default.row_stride),
        change.get("contiguous_inner", default.contiguous_inner),
    )


def _natural_type(constraint: str) -> ElementType:
    allowed = type_constraints()[constraint].allowed
    return ElementType.FLOAT32 if ElementType.FLOAT32 in allowed else allowed[0]


def _inputs(tensors: Mapping[str, Any]) -> PagedAttentionInputs[TensorSignature]:
    return PagedAttentionInputs(**tensors)
