"""Reads the widths of a mixed decoder's state from the keys of its family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from pa_spec.checker.huggingface.config.family import Family
from pa_spec.checker.huggingface.config.field import Fields
from pa_spec.checker.huggingface.decoder.state_row import (
    DeltaNetWidths,
    MambaWidths,
    delta_net_rows,
    mamba_rows,
    short_conv_rows,
)
from pa_spec.checker.meaning import FixedRow
from pa_spec.element_type import ElementType

_Misfit: TypeAlias = tuple[str, int, str]
"""A key, its value, and what it has to be for layers that keep the state."""

_Read: TypeAlias = tuple[tuple[FixedRow, ...], _Misfit | None]


def read_rows(
    fields: Fields, family: Family, activation: ElementType, *, is_used: bool
) -> tuple[FixedRow, ...]:
    """Return what one layer with a state keeps for each request.

    is_used: whether there is such a layer; without one nothing has to fit but what the class
    itself checks.
    """
    rows, misfit = _READERS[str(family.rules["state"])](fields, activation)
    if is_used and misfit is not None and not fields.is_broken:
        key, found, allowed = misfit
        fields.refuse("config.contradiction", key, found, allowed=allowed)
    return rows if is_used else ()


def _short_conv(fields: Fields, activation: ElementType) -> _Read:
    channels, kernel = fields.count("hidden_size"), fields.count("conv_L_cache")
    return short_conv_rows(channels, kernel, activation), None


def _delta_net(fields: Fields, activation: ElementType) -> _Read:
    widths = DeltaNetWidths(
        key_heads=fields.count("linear_num_key_heads"),
        value_heads=fields.count("linear_num_value_heads"),
        key_head_size=fields.count("linear_key_head_dim"),
        value_head_size=fields.count("linear_value_head_dim"),
        kernel=fields.count("linear_conv_kernel_dim"),
    )
    misfit = None
    if widths.value_heads % widths.key_heads:
        allowed = f"a multiple of linear_num_key_heads={widths.key_heads}"
        misfit = ("linear_num_value_heads", widths.value_heads, allowed)
    return delta_net_rows(widths, activation), misfit


def _mamba2(fields: Fields, activation: ElementType) -> _Read:
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
    return mamba_rows(widths, activation), _uneven_groups("mamba_n_groups", widths)


def _nemotron(fields: Fields, activation: ElementType) -> _Read:
    heads, head_size = fields.count("mamba_num_heads"), fields.count("mamba_head_dim")
    groups = fields.count("n_groups")
    state, kernel = fields.count("ssm_state_size"), fields.count("conv_kernel")
    widths = MambaWidths(heads * head_size, heads, head_size, groups, state, kernel)
    return mamba_rows(widths, activation), _uneven_groups("n_groups", widths)


def _uneven_groups(key: str, widths: MambaWidths) -> _Misfit | None:
    if widths.heads % widths.groups == 0:
        return None
    return key, widths.groups, f"a divisor of the {widths.heads} heads"


_READERS: Mapping[str, Callable[[Fields, ElementType], _Read]] = MappingProxyType(
    {
        "short_conv": _short_conv,
        "delta_net": _delta_net,
        "mamba2": _mamba2,
        "nemotron": _nemotron,
    }
)
