"""Teaches the onnx library the operator and those that exporters write beside it."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pa_spec.checker.graph.attention_shape import attention_inference
from pa_spec.checker.graph.attribute import NEUTRAL_ATTRIBUTES
from pa_spec.checker.graph.companion import MICROSOFT, TYPES, Companion, companions
from pa_spec.checker.graph.companion_shape import companion_inference
from pa_spec.checker.graph.walk import ATTENTION
from pa_spec.contract.operator_table import (
    operator_attributes,
    operator_inputs,
    operator_outputs,
    type_constraints,
)

CHECK_DOMAIN = "pa_spec.check"
"""Where the checker registers its own copies, so that nobody's registration matters to it."""

_KINDS = {"i": "INT", "f": "FLOAT", "s": "STRING", "is": "INTS"}
_ONNX_NAMES = {"float32": "float", "float64": "double"}


def register_schemas() -> tuple[str, ...]:
    """Register com.microsoft::PagedAttention and its companions with the onnx library.

    After it `onnx.checker.check_model` and `onnx.shape_inference.infer_shapes` know the operator:
    its inputs, outputs, attributes and types, and what follows from a call. A call that breaks a
    rule of inference (V15, V55, ...) raises onnx.shape_inference.InferenceError with its message.

    The element type of output_qk is its declaration's alone, so a model that has that output
    cannot be checked with check_type or full_check.

    Returns the names registered by this call. A schema that is there already is left alone, so
    that a second call returns () and another library's schema stays.

    Raises ImportError when the onnx library is not installed (extra pa-spec[onnx]).
    """
    return _register(MICROSOFT, "", attention_inference(raises=True))


def register_check_schemas() -> frozenset[tuple[str, str]]:
    """Register the checker's own copies; return (domain, name) of the operators they stand for.

    Their inference never raises: rules are the checker's to report.
    """
    _register(CHECK_DOMAIN, CHECK_DOMAIN, attention_inference(raises=False))
    known = {(each.domain, each.name) for each in companions()}
    return frozenset(known | {(MICROSOFT, ATTENTION)})


def _register(
    domain: str, own_domain: str, infer_attention: Callable[[Any], None]
) -> tuple[str, ...]:
    """Register everything that is not there; own_domain replaces ONNX's own domain."""
    from onnx import defs

    added: list[str] = []
    for name, place, build in (
        (ATTENTION, domain, lambda: _attention_schema(domain, infer_attention)),
        *(_entry(each, domain, own_domain) for each in companions()),
    ):
        if not _is_registered(name, place):
            defs.register_schema(build())  # type: ignore[no-untyped-call]
            # Older releases of the library end the process badly when it still holds functions of
            # an interpreter that is gone.
            atexit.register(_deregister, name, place)
            added.append(f"{place}::{name}" if place else name)
    return tuple(added)


def _deregister(name: str, domain: str) -> None:
    from onnx import defs

    with suppress(defs.SchemaError):
        defs.deregister_schema(name, 1, domain)


def _is_registered(name: str, domain: str) -> bool:
    from onnx import defs

    try:
        defs.get_schema(name, 10**6, domain)
    except defs.SchemaError:
        return False
    return True


def _entry(each: Companion, domain: str, own_domain: str) -> tuple[str, str, Callable[[], Any]]:
    place = domain if each.domain else own_domain
    return each.name, place, lambda: _companion_schema(each, place)


def _attention_schema(domain: str, infer: Callable[[Any], None]) -> Any:
    from onnx import defs, helper

    schema = defs.OpSchema
    option = schema.FormalParameterOption
    attributes = []
    for each in operator_attributes():
        if each.default is None:
            kind = getattr(schema.AttrType, each.type.upper())
            attributes.append(schema.Attribute(each.name, kind, each.meaning, required=True))
        else:
            default = helper.make_attribute(each.name, each.default)
            attributes.append(schema.Attribute(each.name, default, each.meaning))
    for name, value in NEUTRAL_ATTRIBUTES.items():
        meaning = f"of a later revision; {value!r} is the only value here"
        attributes.append(schema.Attribute(name, helper.make_attribute(name, value), meaning))
    slots = [
        [
            schema.FormalParameter(
                each.name,
                each.type,
                each.meaning,
                param_option=option.Single if each.presence == "required" else option.Optional,
            )
            for each in table
        ]
        for table in (operator_inputs(), operator_outputs())
    ]
    constraints = [
        (each.name, [_type(kind.value) for kind in each.allowed], each.meaning)
        for each in type_constraints().values()
    ]
    found = schema(
        ATTENTION, domain, 1, "Attention over a paged cache of keys and values.",
        inputs=slots[0], outputs=slots[1], type_constraints=constraints, attributes=attributes,
    )  # fmt: skip
    found.set_type_and_shape_inference_function(infer)
    return found


def _companion_schema(each: Companion, domain: str) -> Any:
    from onnx import defs

    schema = defs.OpSchema
    option = schema.FormalParameterOption
    slots = [
        [
            schema.FormalParameter(
                slot.name,
                slot.types,
                param_option=option.Optional if slot.is_optional else option.Single,
            )
            for slot in table
        ]
        for table in (each.inputs, each.outputs)
    ]
    used = sorted({slot.types for slot in (*each.inputs, *each.outputs)})
    found = schema(
        each.name, domain, 1,
        inputs=slots[0],
        outputs=slots[1],
        type_constraints=[(name, [_type(kind) for kind in TYPES[name[0]]], "") for name in used],
        attributes=[
            schema.Attribute(
                attribute.name,
                getattr(schema.AttrType, _KINDS[attribute.kind]),
                required=attribute.is_required,
            )
            for attribute in each.attributes
        ],
    )  # fmt: skip
    found.set_type_and_shape_inference_function(companion_inference(each))
    return found


def _type(name: str) -> str:
    return f"tensor({_ONNX_NAMES.get(name, name)})"
