"""Attributes of a PagedAttention node, as the operator's table has them."""

from __future__ import annotations

from typing import Any

from pa_spec.checker.finding import Findings, Place
from pa_spec.checker.graph.graph import AttributeValue, GraphNode
from pa_spec.checker.tensor_text import name_text
from pa_spec.contract.operator_table import OperatorAttribute, operator_attributes
from pa_spec.contract.rule import rules
from pa_spec.operator import PagedAttentionAttributes, QuantType

_KINDS = {"int": int, "float": float, "string": str}
_REQUIRED = {"num_heads": "V1", "kv_num_heads": "V2"}
_QUANT_TYPES = tuple(each.value for each in QuantType)
NEUTRAL_ATTRIBUTES: dict[str, int | str] = {
    "is_causal": 1,
    "qk_rotation": "NONE",
    "v_rotation": "NONE",
}
"""Attributes of a later revision: what each must be for a node to mean what it means here."""


def report_newer_scheme(node: GraphNode, place: Place, findings: Findings) -> bool:
    """Report a quantization scheme of a later revision (V8); whether there is one.

    Such a node has other inputs and outputs than this revision's, so that no other rule applies.
    """
    found = False
    for name in ("k_quant_type", "v_quant_type"):
        value = node.attributes.get(name)
        is_scheme = isinstance(value, str) and value.startswith("PER_")
        if is_scheme and not str(value).startswith(_QUANT_TYPES):
            actual = f"{name_text(str(value))!r} (a newer revision of the operator)"
            allowed = ", ".join(_QUANT_TYPES)
            findings.violation(rules()["V8"].violation(name, actual, allowed=allowed), place)
            found = True
    return found


def read_attributes(
    node: GraphNode, place: Place, findings: Findings
) -> tuple[PagedAttentionAttributes, frozenset[str]]:
    """Return a node's attributes and the names of those that could not be read.

    What could not be read, or is given twice, was reported; it has its default, or 1 where there
    is none.
    """
    known = {each.name: each for each in operator_attributes()}
    for name, value in node.attributes.items():
        if name not in known and value != NEUTRAL_ATTRIBUTES.get(name, ()):
            findings.add("graph.unknown_attribute", place, name_text(name), _value_text(value))
    values: dict[str, Any] = {}
    unread: set[str] = set(node.repeated)
    for name, attribute in known.items():
        if name not in node.attributes:
            if attribute.default is None:
                heads = node.attributes.get("num_heads", "?")
                findings.add(_REQUIRED[name], place, name, "none", num_heads=heads)
                unread.add(name)
            continue
        value = node.attributes[name]
        if name in node.repeated:
            # Which of its values counts is anyone's guess.
            continue
        if _fits(attribute, value):
            values[name] = value
        else:
            actual = f"{_value_text(value)} ({_kind(value)})"
            findings.add("graph.attribute_type", place, name, actual, type=attribute.type)
            unread.add(name)
    for name in _REQUIRED:
        values.setdefault(name, 1)
    return PagedAttentionAttributes(**values), frozenset(unread)


def _fits(attribute: OperatorAttribute, value: AttributeValue) -> bool:
    return isinstance(value, _KINDS[attribute.type])


def _kind(value: AttributeValue) -> str:
    for name, kind in _KINDS.items():
        if isinstance(value, kind):
            return name
    return "another type" if value is None else "a list"


def _value_text(value: AttributeValue) -> str:
    return "a value of another type" if value is None else name_text(repr(value))
