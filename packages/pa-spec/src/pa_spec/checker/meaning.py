"""What a model's configuration resolves to: the numbers that its own modelling code uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from math import prod

from pa_spec.element_type import ElementType
from pa_spec.state import GroupKind, StateManifest

NO_WINDOW = -1
"""The window of a layer that attends to everything before it."""


class LayerKind(Enum):
    """What mixes tokens in a layer."""

    ATTENTION = "attention"
    LATENT_ATTENTION = "latent_attention"
    CONV = "conv"
    LINEAR_ATTENTION = "linear_attention"
    MAMBA = "mamba"
    ATTENTION_AND_MAMBA = "attention_and_mamba"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class RopeMeaning:
    """One rotary embedding, whatever spelling said so.

    kind: "default", "linear", "dynamic", "yarn", "longrope", "llama3" or "proportional".
    rotary_dim: rotated channels of a head. interleaved: pairs are neighbours (2i, 2i+1).
    original_tokens: positions before stretching. parameters: what else the kind's formula takes,
    by its configuration's key. sections: channels pairs of each position axis (mrope), () = one
    axis.
    """

    kind: str
    theta: float
    rotary_dim: int
    trained_tokens: int
    original_tokens: int
    factor: float = 1.0
    interleaved: bool = False
    parameters: tuple[tuple[str, float | bool | tuple[float, ...] | None], ...] = ()
    sections: tuple[int, ...] = ()

    @property
    def context_tokens(self) -> int:
        """Positions that a model with this embedding supports; a stretching factor counts once."""
        match self.kind:
            case "yarn":
                return max(self.trained_tokens, round(self.original_tokens * self.factor))
            case "linear" | "dynamic":
                return round(self.original_tokens * self.factor)
            case _:
                return self.trained_tokens


@dataclass(frozen=True, slots=True)
class FixedRow:
    """Fixed state that a layer keeps for each request: its kind and the row's shape and type."""

    kind: GroupKind
    row_shape: tuple[int, ...]
    element_type: ElementType

    @property
    def row_bytes(self) -> int:
        """Bytes of one request's row in one bank."""
        return prod(self.row_shape) * self.element_type.itemsize


@dataclass(frozen=True, slots=True)
class LayerMeaning:
    """One layer. Widths are 0 in a layer without attention.

    window: positions that a token sees, itself included, NO_WINDOW = all. chunk_tokens: a token
    sees its own chunk of that many positions only, 0 = no chunks. rope: index in
    ModelMeaning.ropes, None = no rotary embedding. scale: factor of the logits. softcap: 0 = off.
    shares_cache_of: the layer whose cache it reads instead of keeping one. fixed: rows of state
    for each request. index_key_size: channels of the key by which an indexer finds a token, 0 = no
    indexer that leaves any out. In LATENT_ATTENTION head_size and v_head_size are the widths of the
    cached latent row and of its value part, kv_num_heads is 1.
    """

    kind: LayerKind
    num_heads: int = 0
    kv_num_heads: int = 0
    head_size: int = 0
    v_head_size: int = 0
    window: int = NO_WINDOW
    chunk_tokens: int = 0
    rope: int | None = None
    scale: float = 0.0
    softcap: float = 0.0
    has_sink: bool = False
    has_qk_norm: bool = False
    shares_cache_of: int | None = None
    fixed: tuple[FixedRow, ...] = ()
    index_key_size: int = 0

    @property
    def kv_elements(self) -> int:
        """Elements that one token adds to this layer's caches, its index key included."""
        if self.kind is LayerKind.LATENT_ATTENTION:
            return self.head_size + self.index_key_size
        if self.shares_cache_of is not None:
            return 0
        return self.kv_num_heads * (self.head_size + (self.v_head_size or self.head_size))


@dataclass(frozen=True, slots=True)
class EosId:
    """One id that ends a turn, and the files and keys that say so ("config.json eos_token_id")."""

    token_id: int
    origins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelMeaning:
    """A model as it will be served.

    family: the name in spec/models. context_tokens: positions that it supports. final_softcap: cap
    of the logits over the vocabulary, 0 = off. manifest: the state that serving keeps, None when
    this project has no kind of state for a layer (the reason is among the findings).
    eos: ids in ascending order; the files' own, no class default. element_type: of the weights,
    None = not said. cache_element_type: of the caches, the weights' where that may be cached.
    backends: by name, "" = would serve it, else why not. weight_bytes: of all stored tensors, None
    = there are none, or not all could be read.
    """

    model_type: str
    architecture: str
    family: str
    vocab_size: int
    hidden_size: int
    context_tokens: int
    layers: tuple[LayerMeaning, ...]
    ropes: tuple[RopeMeaning, ...]
    has_tied_embeddings: bool
    element_type: ElementType | None
    cache_element_type: ElementType
    manifest: StateManifest | None
    eos: tuple[EosId, ...] = ()
    final_softcap: float = 0.0
    backends: Mapping[str, str] | None = None
    weight_bytes: int | None = None

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes that one token adds to the caches, over all layers; windows are not counted off."""
        return sum(layer.kv_elements for layer in self.layers) * self.cache_element_type.itemsize

    @property
    def fixed_bytes_per_request(self) -> int:
        """Bytes of one request's fixed state in one bank, over all layers."""
        return sum(row.row_bytes for layer in self.layers for row in layer.fixed)
