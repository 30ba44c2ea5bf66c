"""Small expressions of named sizes, as spec/models/tensors.toml writes them.

Integers, names, text, lists; + - * // %, comparisons, in, and, or, not, a if b else c, list[index],
and either(a, b): the first that is known and not null. A name that nothing is known of makes
whatever needs it UNKNOWN. Nothing else is evaluated: an expression cannot call or reach anything.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from math import isfinite
from typing import Any

from pa_spec.errors import InputUnusable


class _Unknown(Enum):
    UNKNOWN = "unknown"


UNKNOWN = _Unknown.UNKNOWN
"""The value of what cannot be computed from what is known."""

MAX_SIZE = 2**62
"""Results beyond it are UNKNOWN: no tensor has so many elements."""

Names = Callable[[str], Any]
"""Value of a name: a number, a truth value, text, a list, None = null, or UNKNOWN."""

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISON: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda value, values: value in values,
    ast.NotIn: lambda value, values: value not in values,
}


@cache
def parsed(text: str) -> ast.expr:
    """Parse an expression. Raises InputUnusable for what is none."""
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise InputUnusable(f"expression {text!r}", str(error.msg), "see tensors.toml") from error


def evaluate(text: str, names: Names) -> Any:
    """Return an expression's value, UNKNOWN where a name that it needs is."""
    return _value(parsed(text), names)


def _value(node: ast.expr, names: Names) -> Any:
    function = _NODES.get(type(node))
    if function is None:
        raise InputUnusable(f"expression {ast.unparse(node)}", "is not allowed")
    return function(node, names)


def _unary(node: ast.UnaryOp, names: Names) -> Any:
    operand = _value(node.operand, names)
    if isinstance(node.op, ast.Not):
        return UNKNOWN if operand is UNKNOWN else not operand
    return _apply(operator.sub, 0, operand)


def _binary(node: ast.BinOp, names: Names) -> Any:
    left, right = _value(node.left, names), _value(node.right, names)
    return _apply(_BINARY[type(node.op)], left, right)


def _comparison(node: ast.Compare, names: Names) -> Any:
    left, right = _value(node.left, names), _value(node.comparators[0], names)
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    try:
        return bool(_COMPARISON[type(node.ops[0])](left, right))
    except TypeError:
        return UNKNOWN


def _truth(node: ast.BoolOp, names: Names) -> Any:
    """Like Python's, but what decides by itself decides although another part is UNKNOWN."""
    is_or = isinstance(node.op, ast.Or)
    values = [_value(each, names) for each in node.values]
    if any(each is not UNKNOWN and bool(each) == is_or for each in values):
        return is_or
    return UNKNOWN if UNKNOWN in values else not is_or


def _choice(node: ast.IfExp, names: Names) -> Any:
    condition = _value(node.test, names)
    if condition is UNKNOWN:
        return UNKNOWN
    return _value(node.body if condition else node.orelse, names)


def _item(node: ast.Subscript, names: Names) -> Any:
    values, index = _value(node.value, names), _value(node.slice, names)
    is_listed = isinstance(values, list | str) and type(index) is int
    return values[index] if is_listed and 0 <= index < len(values) else UNKNOWN


def _either(node: ast.Call, names: Names) -> Any:
    if ast.unparse(node.func) != "either":
        raise InputUnusable(f"expression {ast.unparse(node)}", "is not allowed")
    values = (_value(each, names) for each in node.args)
    return next((each for each in values if each is not UNKNOWN and each is not None), UNKNOWN)


_NODES: Mapping[type[ast.expr], Callable[[Any, Names], Any]] = {
    ast.Constant: lambda node, _: node.value,
    ast.Name: lambda node, names: names(node.id),
    ast.List: lambda node, names: [_value(each, names) for each in node.elts],
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.Compare: _comparison,
    ast.BoolOp: _truth,
    ast.IfExp: _choice,
    ast.Subscript: _item,
    ast.Call: _either,
}


def _apply(function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    if not (_is_number(left) and _is_number(right)):
        return UNKNOWN
    try:
        result = function(left, right)
    except ZeroDivisionError:
        return UNKNOWN
    return result if isfinite(result) and abs(result) <= MAX_SIZE else UNKNOWN


def _is_number(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and isfinite(value) and abs(value) <= MAX_SIZE  # type: ignore[arg-type]
