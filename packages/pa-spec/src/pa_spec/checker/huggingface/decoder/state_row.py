"""Fixed state of layers that do not attend: what one request keeps for each of them."""

from __future__ import annotations

from dataclasses import dataclass

from pa_spec.checker.meaning import FixedRow
from pa_spec.element_type import ElementType
from pa_spec.state import GroupKind


@dataclass(frozen=True, slots=True)
class DeltaNetWidths:
    """Widths of a gated delta rule layer; kernel: positions that its convolution sees."""

    key_heads: int
    value_heads: int
    key_head_size: int
    value_head_size: int
    kernel: int

    @property
    def channels(self) -> int:
        """Convolved channels: queries, keys and values beside each other."""
        keys = self.key_heads * self.key_head_size
        return 2 * keys + self.value_heads * self.value_head_size


@dataclass(frozen=True, slots=True)
class MambaWidths:
    """Widths of a Mamba 2 layer; inner: its own width, state: columns of a head's state."""

    inner: int
    heads: int
    head_size: int
    groups: int
    state: int
    kernel: int

    @property
    def channels(self) -> int:
        """Convolved channels: the layer's width and both projections of each group."""
        return self.inner + 2 * self.groups * self.state


def short_conv_rows(channels: int, kernel: int, activation: ElementType) -> tuple[FixedRow, ...]:
    """Return what a gated short convolution keeps.

    All positions of the kernel, the newest one included: contract section 18 and transformers
    agree. A paged export of today's builder has one column less (contract section 12.1).
    """
    return (FixedRow(GroupKind.FIXED_CONV, (channels, kernel), activation),)


def delta_net_rows(widths: DeltaNetWidths, activation: ElementType) -> tuple[FixedRow, ...]:
    """Return the convolution's earlier inputs and the recurrence's float32 state [Hv, Dv, Dk]."""
    recurrent = (widths.value_heads, widths.value_head_size, widths.key_head_size)
    return (*_earlier_inputs(widths.channels, widths.kernel, activation), _recurrent(recurrent))


def mamba_rows(widths: MambaWidths, activation: ElementType) -> tuple[FixedRow, ...]:
    """Return the convolution's earlier inputs and the float32 state [heads, D, state]."""
    recurrent = (widths.heads, widths.head_size, widths.state)
    return (*_earlier_inputs(widths.channels, widths.kernel, activation), _recurrent(recurrent))


def _earlier_inputs(channels: int, kernel: int, activation: ElementType) -> tuple[FixedRow, ...]:
    """Return all positions of the kernel but the newest one; a kernel of one keeps nothing."""
    shape = (channels, kernel - 1)
    return (FixedRow(GroupKind.FIXED_CONV, shape, activation),) if kernel > 1 else ()


def _recurrent(row_shape: tuple[int, ...]) -> FixedRow:
    return FixedRow(GroupKind.FIXED_RECURRENT, row_shape, ElementType.FLOAT32)
