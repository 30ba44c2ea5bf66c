"""Checks keys that no resolver reads: tensors have their sizes, and a wrong type stops loading."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from pa_spec.checker.huggingface.config.declaration import (
    NOTHING,
    Declaration,
    activations,
    declarations,
    key_types,
)
from pa_spec.checker.huggingface.config.family import Family
from pa_spec.checker.huggingface.config.field import MAX_COUNT, Fields, is_number

EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
CHOSEN = ("num_experts_per_tok", "top_k_experts")

_Check: TypeAlias = Callable[[Fields, str, object], None]


def check_declared(fields: Fields, family: Family) -> None:
    """Refuse values that the family's configuration class or its layers refuse."""
    declaration = declaration_of(family)
    for key in (*declaration.keys, *declaration.nullable):
        value = fields.raw(key)
        if not fields.is_written(key) or (value is None and key in declaration.nullable):
            continue
        _CHECKS[key_types()[key]](fields, key, value)
    if not fields.is_broken:
        _check_experts(fields, declaration)


def declaration_of(family: Family) -> Declaration:
    """Return what the class declares that a family is read by."""
    name = str(family.rules.get("read_as", family.model_type))
    return declarations().get(name, NOTHING)


def _check_experts(fields: Fields, declaration: Declaration) -> None:
    """Refuse more experts for each token than there are."""
    is_dense = declaration.declares("enable_moe_block") and not fields.raw("enable_moe_block")
    if is_dense or declaration.is_choice_fixed:
        return
    key, chosen = _first(fields, declaration, CHOSEN)
    _, experts = _first(fields, declaration, EXPERTS)
    # No experts at all is how a file says that every layer is dense.
    if 0 < experts < chosen:
        allowed = f"at most as many as there are experts, {experts}"
        fields.refuse("config.contradiction", key, chosen, allowed=allowed)


def _first(fields: Fields, declaration: Declaration, keys: tuple[str, ...]) -> tuple[str, int]:
    """Return the first of the keys that is written, else its class default, 0 = none is known."""
    if not any(declaration.declares(key) for key in keys):
        return keys[0], 0
    for values in (fields.raw, declaration.defaults.get):
        for key in keys:
            value = values(key)
            if isinstance(value, int):
                return key, value
    return keys[0], 0


def _integer(fields: Fields, key: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        fields.refuse("config.not_a_number", key, value, case="count")


def _at_least(least: int) -> _Check:
    def check(fields: Fields, key: str, value: object) -> None:
        _integer(fields, key, value)
        if type(value) is int and not least <= value <= MAX_COUNT:
            allowed = f"an integer from {least} to {MAX_COUNT}"
            fields.refuse("config.out_of_range", key, value, allowed=allowed)

    return check


def _number(fields: Fields, key: str, value: object) -> None:
    if not is_number(value):
        fields.refuse("config.not_a_number", key, value, case="number")


def _flag(fields: Fields, key: str, value: object) -> None:
    if not isinstance(value, bool):
        fields.refuse("config.wrong_type", key, value, case="flag")


def _text(fields: Fields, key: str, value: object) -> None:
    if not isinstance(value, str):
        fields.refuse("config.wrong_type", key, value, case="text")


def _activation(fields: Fields, key: str, value: object) -> None:
    _text(fields, key, value)
    if isinstance(value, str) and value not in activations():
        allowed = "the name of an activation function, as silu or gelu_pytorch_tanh"
        fields.refuse("config.unknown_value", key, value, allowed=allowed)


def _texts(fields: Fields, key: str, value: object) -> None:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        fields.refuse("config.wrong_type", key, value, case="texts")


def _integers(fields: Fields, key: str, value: object) -> None:
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        fields.refuse("config.not_a_number", key, value, case="counts")


def _numbers(fields: Fields, key: str, value: object) -> None:
    if not isinstance(value, list) or not all(is_number(each) for each in value):
        fields.refuse("config.not_a_number", key, value, case="numbers")


_CHECKS: Mapping[str, _Check] = MappingProxyType(
    {
        "size": _at_least(0),
        "step": _at_least(1),
        "integer": _integer,
        "number": _number,
        "flag": _flag,
        "text": _text,
        "activation": _activation,
        "texts": _texts,
        "integers": _integers,
        "numbers": _numbers,
    }
)
