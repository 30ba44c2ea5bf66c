"""Infers types through the main graph with the onnx library, on a harmless copy of it."""

from __future__ import annotations

from math import prod
from typing import Any

from pa_spec.checker.graph.element import lengths_of, tensor_of_type
from pa_spec.checker.graph.schema import CHECK_DOMAIN, register_check_schemas
from pa_spec.checker.graph.walk import ATTENTION, Walk
from pa_spec.inference.shape import SymbolicTensor

MAX_COPIED_ELEMENTS = 1024
"""Elements of a constant whose values shapes may depend on (a Reshape's target)."""

_SHAPED, _SCORES = 5, 4


def infer_types(model: Any, walk: Walk) -> dict[str, SymbolicTensor] | None:
    """Return what follows for the names of the main graph, None when the library refuses it.

    The copy has no declared types but those of inputs and of results that the library cannot
    infer, no data of large tensors, no subgraphs and no functions; the operators of com.microsoft
    are the checker's own copies.
    """
    from onnx import shape_inference

    # As bytes, so that the copy is gone before the library makes its own of it.
    copy = _copy(model, walk).SerializeToString()
    try:
        # The library reports a bad graph with exceptions of many kinds; none may end the check.
        result = shape_inference.infer_shapes(copy, check_type=False, strict_mode=False)
    except Exception:  # noqa: BLE001 - see above
        return None
    graph = result.graph
    return {
        value.name: tensor_of_type(value.type)
        for value in (*graph.value_info, *graph.output)
        if value.HasField("type")
    }


def _copy(model: Any, walk: Walk) -> Any:
    from onnx import ModelProto

    copy = ModelProto(ir_version=model.ir_version)
    copy.graph.name = "checked"
    for domain, version in _opsets(model, walk).items():
        copy.opset_import.add(domain=domain, version=version)
    copy.graph.input.extend(model.graph.input)
    for tensor in model.graph.initializer:
        if lengths_of(tensor.dims) is not None:
            _copy_tensor(tensor, copy.graph.initializer.add())
    known = register_check_schemas()
    copy.graph.node.extend(model.graph.node)
    foreign: set[str] = set()
    functions = {(each.domain, each.name) for each in model.functions}
    for node in copy.graph.node:
        node.ClearField("name")
        node.ClearField("doc_string")
        kind = (_plain(node.domain), node.op_type)
        if kind in known and kind not in functions:
            node.domain = CHECK_DOMAIN
            if node.op_type == ATTENTION and len(node.output) < _SCORES:
                # Only the scores' shape follows from other inputs.
                del node.input[_SHAPED:]
        elif kind[0] or kind in functions:
            # Nothing is known of these: what the file declares of their results is taken.
            foreign.update(node.output)
            node.ClearField("attribute")
            continue
        if node.attribute:
            _trim_attributes(node, foreign)
    copy.graph.value_info.extend(each for each in model.graph.value_info if each.name in foreign)
    for value in model.graph.output:
        copy.graph.output.add(name=value.name)
    return copy


def _opsets(model: Any, walk: Walk) -> dict[str, int]:
    """Return the imports, with version 1 of whatever is used and not imported."""
    used = {_plain(domain): 1 for domain, _ in walk.operators}
    imported = {_plain(each.domain): each.version for each in model.opset_import}
    return used | imported | {CHECK_DOMAIN: 1}


def _plain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _trim_attributes(node: Any, foreign: set[str]) -> None:
    """Drop subgraphs, and the data of large constants."""
    for attribute in node.attribute:
        if attribute.HasField("g") or attribute.graphs:
            foreign.update(node.output)
            node.ClearField("attribute")
            node.domain = CHECK_DOMAIN
            return
        if attribute.HasField("t"):
            whole = type(attribute.t)()
            whole.CopyFrom(attribute.t)
            attribute.t.Clear()
            _copy_tensor(whole, attribute.t)


def _copy_tensor(tensor: Any, copy: Any) -> None:
    """Copy a tensor, without its data when that is long or elsewhere; nothing of an impossible one.

    copy: an empty tensor.
    """
    dims = lengths_of(tensor.dims)
    if dims is None:
        return
    if tensor.data_location != tensor.EXTERNAL and prod(dims) <= MAX_COPIED_ELEMENTS:
        copy.CopyFrom(tensor)
        return
    copy.name, copy.data_type = tensor.name, tensor.data_type
    copy.dims.extend(dims)
    copy.data_location = tensor.EXTERNAL
