"""What a random problem is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from pa_spec import PagedAttentionAttributes

GROUP_SIZES = (1, 2, 3, 5, 6, 7, 8, 12, 16, 71)
"""Query heads for each KV head that tests cover; 71 is Falcon's."""


@dataclass(frozen=True, slots=True)
class ProblemOptions:
    """Everything about a problem but its data; features are off by default.

    rows: (past, new) tokens of each row, None = drawn around block edges. cache_dtype: None = as
    the query, int8 or float8_e4m3fn = quantized with `quant_type`. v_quant_type: of the value
    cache, "" = as the key cache's. window_tokens, softcap, scale: 0 = off or default. rotary_dim:
    0 = no RoPE. v_head_size: above 0 selects LATENT. is_strided: query, key and value are column
    slices of one wider matrix. has_padding_row: one row has tokens but no blocks. has_holes: blocks
    in the middle of contexts are unmapped.
    """

    dtype: torch.dtype = torch.float32
    cache_dtype: torch.dtype | None = None
    quant_type: str = "NONE"
    v_quant_type: str = ""
    num_heads: int = 4
    kv_num_heads: int = 2
    head_size: int = 32
    v_head_size: int = 0
    block_size: int = 16
    rows: tuple[tuple[int, int], ...] | None = None
    is_packed: bool = False
    is_strided: bool = False
    rotary_dim: int = 0
    rotary_interleaved: bool = False
    rotary_offset: int = 0
    has_qk_norm: bool = False
    has_sink: bool = False
    has_slot_mapping: bool = False
    has_query_positions: bool = False
    has_bias: bool = False
    is_bias_of_all_heads: bool = False
    metadata_entries: int = 0
    qk_output: int = 0
    softcap: float = 0.0
    scale: float = 0.0
    window_tokens: int = 0
    has_padding_row: bool = False
    has_holes: bool = False

    @property
    def is_latent(self) -> bool:
        """Whether values are the first channels of the keys."""
        return self.v_head_size > 0

    @property
    def value_quant_type(self) -> str:
        """The attribute v_quant_type."""
        return "NONE" if self.is_latent else self.v_quant_type or self.quant_type

    @property
    def attributes(self) -> PagedAttentionAttributes:
        """The operator's attributes."""
        return PagedAttentionAttributes(
            num_heads=self.num_heads,
            kv_num_heads=self.kv_num_heads,
            scale=self.scale,
            softcap=self.softcap,
            local_window_size=self.window_tokens or -1,
            do_rotary=int(self.rotary_dim > 0),
            rotary_interleaved=int(self.rotary_interleaved),
            k_quant_type=self.quant_type,
            v_quant_type=self.value_quant_type,
            v_head_size=self.v_head_size,
            rotary_offset=self.rotary_offset,
            kv_cache_layout="LATENT" if self.is_latent else "SEPARATE",
            qk_output=self.qk_output,
        )


def random_options(seed: int, dtype: torch.dtype = torch.float32) -> ProblemOptions:
    """Draw heads, sizes and the common features: SEPARATE, unquantized, no bias, no output_qk."""
    rng = np.random.default_rng(seed)
    kv_num_heads = int(rng.integers(1, 4))
    head_size = int(rng.choice([8, 16, 24, 64, 80, 128]))
    has_rope = bool(rng.integers(2))
    return ProblemOptions(
        dtype=dtype,
        num_heads=kv_num_heads * int(rng.choice(GROUP_SIZES[:8])),
        kv_num_heads=kv_num_heads,
        head_size=head_size,
        block_size=int(rng.choice([16, 32, 64])),
        is_packed=bool(rng.integers(2)),
        is_strided=bool(rng.integers(2)),
        rotary_dim=int(rng.integers(1, head_size // 8 + 1)) * 8 if has_rope else 0,
        rotary_interleaved=bool(rng.integers(2)),
        has_qk_norm=bool(rng.integers(2)),
        has_sink=bool(rng.integers(2)),
        has_slot_mapping=bool(rng.integers(2)),
        metadata_entries=int(rng.choice([0, 2, 3])),
        softcap=float(rng.choice([0.0, 5.0, 30.0])),
        scale=float(rng.choice([0.0, 0.25])),
        window_tokens=int(rng.choice([0, 0, 1, 7, 16, 33])),
    )
