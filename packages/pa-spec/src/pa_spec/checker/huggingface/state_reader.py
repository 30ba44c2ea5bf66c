"""Reads the widths of a mixed decoder's state from the keys of its family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from pa_spec.checker.huggingface.family import Family
from pa_spec.checker.huggingface.field import Fields
from pa_spec.checker.huggingface.state_row import (
    DeltaNetWidths,
    MambaWidths,
    delta_net_rows,
    mamba_rows,
    short_conv_rows,
)
from pa_spec.checker.meaning import FixedRow
from pa_spec.element_type import ElementType


def read_rows(
    fields: Fields, family: Family, activation: ElementType, *, is_used: bool
) -> tuple[FixedRow, ...]:
    """Return what one layer with a state keeps for each request.

    is_used: whether there is such a layer; without one nothing has to fit but what the class
    itself checks.
    """
    rows = _READERS[str(family.rules["state"])](fields, activation, _Use(is_used))
    return rows if is_used and not fields.is_broken else ()


class _Use(NamedTuple):
    """Whether any layer keeps the state."""

    is_any: bool


def _short_conv(fields: Fields, activation: ElementType, _: _Use) -> tuple[FixedRow, ...]:
    return short_conv_rows(fields.count("hidden_size"), fields.count("conv_L_cache"), activation)


def _delta_net(fields: Fields, activation: ElementType, use: _Use) -> tuple[FixedRow, ...]:
    widths = DeltaNetWidths(
        key_heads=fields.count("linear_num_key_heads"),
        value_heads=fields.count("linear_num_value_heads"),
        key_head_size=fields.count("linear_key_head_dim"),
        value_head_size=fields.count("linear_value_head_dim"),
        kernel=fields.count("linear_conv_kernel_dim"),
    )
    if use.is_any and not fields.is_broken and widths.value_heads % widths.key_heads:
        allowed = f"a multiple of linear_num_key_heads={widths.key_heads}"
        key = "linear_num_value_heads"
        fields.refuse("config.contradiction", key, widths.value_heads, allowed=allowed)
    return delta_net_rows(widths, activation)


def _mamba2(fields: Fields, activation: ElementType, use: _Use) -> tuple[FixedRow, ...]:
    """Read Granite's and Falcon-H1's keys; their classes check the heads against the width."""
    expand = fields.count("mamba_expand")
    is_read = fields.default("mamba_d_ssm") is not None
    written = fields.optional_count("mamba_d_ssm") if is_read else None
    inner = written or expand * fields.count("hidden_size")
    heads = fields.count("mamba_n_heads")
    is_derived = fields.raw("mamba_d_head") == "auto" or not fields.is_written("mamba_d_head")
    head_size = max(inner // heads, 1) if is_derived else fields.count("mamba_d_head")
    groups = fields.count("mamba_n_groups")
    state, kernel = fields.count("mamba_d_state"), fields.count("mamba_d_conv")
    widths = MambaWidths(inner, heads, head_size, groups, state, kernel)
    if not fields.is_broken and heads * head_size != inner:
        key = "mamba_n_heads" if is_derived else "mamba_d_head"
        allowed = f"heads that are {inner} wide together"
        fields.refuse("config.contradiction", key, f"{heads} of {head_size}", allowed=allowed)
    elif use.is_any:
        _check_groups(fields, "mamba_n_groups", widths)
    return mamba_rows(widths, activation)


def _nemotron(fields: Fields, activation: ElementType, use: _Use) -> tuple[FixedRow, ...]:
    heads, head_size = fields.count("mamba_num_heads"), fields.count("mamba_head_dim")
    groups = fields.count("n_groups")
    state, kernel = fields.count("ssm_state_size"), fields.count("conv_kernel")
    widths = MambaWidths(heads * head_size, heads, head_size, groups, state, kernel)
    if use.is_any:
        _check_groups(fields, "n_groups", widths)
    return mamba_rows(widths, activation)


def _check_groups(fields: Fields, key: str, widths: MambaWidths) -> None:
    if not fields.is_broken and widths.heads % widths.groups:
        allowed = f"a divisor of the {widths.heads} heads"
        fields.refuse("config.contradiction", key, widths.groups, allowed=allowed)


_READERS: Mapping[str, Callable[[Fields, ElementType, _Use], tuple[FixedRow, ...]]] = (
    MappingProxyType(
        {
            "short_conv": _short_conv,
            "delta_net": _delta_net,
            "mamba2": _mamba2,
            "nemotron": _nemotron,
        }
    )
)
