"""What a decoder keeps between steps: state groups, their geometry, and the bound tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from pa_spec.element_type import ElementType

TensorT = TypeVar("TensorT")
TensorT_co = TypeVar("TensorT_co", covariant=True)


class GroupKind(Enum):
    """Kinds of decoder state (contract section 13.2)."""

    PAGED_KV = "paged_kv"
    FIXED_CONV = "fixed_conv"
    FIXED_RECURRENT = "fixed_recurrent"


@dataclass(frozen=True, slots=True)
class StateGroup:
    """One kind of state that a set of layers keeps.

    layer_ids: the layers that own it, ascending. caches_per_layer: 1 in LATENT, else 2.
    row_shape: one token's row of one cache for paged_kv (kv_num_heads, head_size), one request's
    row for the fixed kinds. v_head_size: width of the value part, 0 = head_size.
    """

    kind: GroupKind
    layer_ids: tuple[int, ...]
    row_shape: tuple[int, ...]
    element_type: ElementType
    caches_per_layer: int = 2
    v_head_size: int = 0

    @property
    def row_bytes(self) -> int:
        """Bytes of one row over all layers and caches of the group."""
        elements = self.caches_per_layer * len(self.layer_ids)
        for extent in self.row_shape:
            elements *= extent
        return elements * self.element_type.itemsize


@dataclass(frozen=True, slots=True)
class StateManifest:
    """All state groups of a decoder (E2, E6)."""

    groups: tuple[StateGroup, ...]

    @property
    def paged(self) -> StateGroup | None:
        """The paged_kv group, or None for a decoder without one (a null executor)."""
        found = [group for group in self.groups if group.kind is GroupKind.PAGED_KV]
        return found[0] if found else None


@dataclass(frozen=True, slots=True)
class PagedLayer(Generic[TensorT_co]):
    """Cache tensors of one layer: key and value [N, S, K, D], written in place by the operator."""

    key: TensorT_co
    value: TensorT_co | None


@dataclass(frozen=True, slots=True)
class DecoderState(Generic[TensorT_co]):
    """Everything that `Decoder.bind` receives once; addresses never change afterwards (E67).

    paged: layer id → its caches. block_size: S, token slots of a block. num_blocks: N.
    """

    paged: Mapping[int, PagedLayer[TensorT_co]]
    block_size: int
    num_blocks: int


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """What an engine must know of a decoder.

    vocab_size: V. context_length: positions the model supports. eos_token_ids: ids that end a
    turn, may be empty. logits_for_chosen_rows: `forward` returns one row for each entry of
    StepInputs.logits_rows; otherwise one for each packed token. wants_positions:
    StepInputs.positions is filled. max_draft_tokens: drafts it can verify in a step, 0 = none.
    device: where its tensors, and so the caches, are ("cpu", "cuda:0").
    """

    vocab_size: int
    context_length: int
    eos_token_ids: tuple[int, ...] = ()
    logits_for_chosen_rows: bool = True
    wants_positions: bool = False
    max_draft_tokens: int = 0
    device: str = "cpu"
