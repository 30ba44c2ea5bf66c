"""One attention layer of DeepSeek-V2 or V3 as transformers has it, and its absorbed form.

The layer's own forward decompresses the latent for every head. Absorbed, the first half of
kv_b_proj belongs to the query and the second half to the output, and all heads attend to the latent
rows themselves (contract section 8.6). Projections and norms are the module's in both forms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from pa_spec import PagedAttentionAttributes
from torch import Tensor
from transformers import DeepseekV2Config, DeepseekV3Config, DynamicCache
from transformers.models.deepseek_v2 import modeling_deepseek_v2 as v2
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as v3


@dataclass(frozen=True)
class LatentSizes:
    """latent: compressed channels. nope, rope: channels of a key that stay and that turn."""

    num_heads: int = 4
    latent: int = 32
    nope: int = 16
    rope: int = 8
    value: int = 24
    hidden: int = 48
    query_latent: int | None = 40
    yarn: dict[str, float] = field(
        default_factory=lambda: {"factor": 40.0, "mscale": 1.3, "mscale_all_dim": 0.7}
    )


class LatentLayer:
    """transformers' module with weights that keep every activation at about unit size."""

    def __init__(self, family: str, sizes: LatentSizes) -> None:
        self.sizes, self.family = sizes, family
        self.is_interleaved = family != "v3 halves"
        config = _config(family, sizes)
        modules = v2 if family == "v2" else v3
        prefix = "DeepseekV2" if family == "v2" else "DeepseekV3"
        self.module: Any = getattr(modules, f"{prefix}Attention")(config, 0).eval()
        self._rotary: Any = getattr(modules, f"{prefix}RotaryEmbedding")(config)
        generator = torch.Generator().manual_seed(len(family) + sizes.num_heads)
        for name, weight in self.module.named_parameters():
            drawn = torch.randn(weight.shape, generator=generator)
            is_norm = "layernorm" in name
            weight.data = 1 + 0.2 * drawn if is_norm else drawn / weight.shape[1] ** 0.5
            weight.requires_grad_(requires_grad=False)

    @property
    def scale(self) -> float:
        """mscale² / sqrt(the width of a decompressed key), never of an absorbed one."""
        yarn, width = self.sizes.yarn, self.sizes.nope + self.sizes.rope
        mscale = 0.1 * yarn["mscale_all_dim"] * math.log(yarn["factor"]) + 1.0
        return mscale * mscale / math.sqrt(width)

    @property
    def absorbed_attributes(self) -> PagedAttentionAttributes:
        """LATENT: every head attends to the latent row and the part that turns."""
        return PagedAttentionAttributes(
            num_heads=self.sizes.num_heads,
            kv_num_heads=1,
            scale=self.scale,
            do_rotary=1,
            rotary_interleaved=int(self.is_interleaved),
            rotary_offset=self.sizes.latent,
            v_head_size=self.sizes.latent,
            kv_cache_layout="LATENT",
        )

    @property
    def decompressed_attributes(self) -> PagedAttentionAttributes:
        """SEPARATE: every head has keys and values of its own."""
        return PagedAttentionAttributes(
            num_heads=self.sizes.num_heads,
            kv_num_heads=self.sizes.num_heads,
            scale=self.scale,
            do_rotary=1,
            rotary_interleaved=int(self.is_interleaved),
            rotary_offset=self.sizes.nope,
        )

    def forward(self, hidden: Tensor, past: int, cache: DynamicCache) -> Tensor:
        """Run the module itself on one sequence's new tokens [n, hidden]."""
        positions = torch.arange(past, past + len(hidden))[None]
        mask = torch.full((len(hidden), past + len(hidden)), -torch.inf).triu(past + 1)
        output: Tensor = self.module(
            hidden_states=hidden[None],
            position_embeddings=self._rotary(hidden, positions),
            attention_mask=mask[None, None],
            cache=cache,
        )[0]
        return output[0]

    def rotary_tables(self, count: int) -> tuple[Tensor, Tensor]:
        """Return cosine and sine [count, rope/2] of every position, with YaRN's factor in them."""
        found = self._rotary(torch.empty(0), torch.arange(count)[None])
        if isinstance(found, Tensor):
            return found[0].real.contiguous(), found[0].imag.contiguous()
        half = self.sizes.rope // 2
        cosine, sine = (each[0, :, :half].contiguous() for each in found)
        return cosine, sine

    def queries(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return the parts of every head's query [T, H, nope] and [T, H, rope], not turned yet."""
        module, sizes = self.module, self.sizes
        if sizes.query_latent is None:
            query = module.q_proj(hidden)
        else:
            query = module.q_b_proj(module.q_a_layernorm(module.q_a_proj(hidden)))
        heads: Tensor = query.reshape(len(hidden), sizes.num_heads, sizes.nope + sizes.rope)
        return heads[..., : sizes.nope], heads[..., sizes.nope :]

    def latents(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return latent rows [T, latent], normalized, and [T, rope], not turned yet."""
        compressed: Tensor = self.module.kv_a_proj_with_mqa(hidden)
        rows, turning = compressed[:, : self.sizes.latent], compressed[:, self.sizes.latent :]
        return self.module.kv_a_layernorm(rows), turning

    def halves(self) -> tuple[Tensor, Tensor]:
        """Return what kv_b_proj makes of a latent row: [H, nope, latent] and [H, value, latent]."""
        sizes = self.sizes
        weight: Tensor = self.module.kv_b_proj.weight
        heads = weight.reshape(sizes.num_heads, sizes.nope + sizes.value, sizes.latent)
        return heads[:, : sizes.nope], heads[:, sizes.nope :]

    def absorbed(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return the operator's query [T, H*(latent+rope)] and key [T, latent+rope]."""
        still, turning = self.queries(hidden)
        query = torch.cat((torch.einsum("thn,hnr->thr", still, self.halves()[0]), turning), dim=-1)
        return query.flatten(1), torch.cat(self.latents(hidden), dim=-1)

    def decompressed(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value [T, H*(nope+rope)]; values end in zeros."""
        sizes = self.sizes
        rows, turning = self.latents(hidden)
        k_half, v_half = self.halves()
        still = torch.einsum("tr,hnr->thn", rows, k_half)
        turning = turning[:, None].expand(-1, sizes.num_heads, -1)
        key = torch.cat((still, turning), dim=-1)
        value = torch.einsum("tr,hvr->thv", rows, v_half)
        value = torch.nn.functional.pad(value, (0, key.shape[2] - sizes.value))
        query = torch.cat(self.queries(hidden), dim=-1)
        return query.flatten(1), key.flatten(1), value.flatten(1)

    def from_absorbed(self, output: Tensor) -> Tensor:
        """Finish the operator's output [T, H*latent]: decompress, then project."""
        heads = output.reshape(len(output), self.sizes.num_heads, self.sizes.latent)
        return self._project(torch.einsum("thr,hvr->thv", heads, self.halves()[1]))

    def from_decompressed(self, output: Tensor) -> Tensor:
        """Finish the operator's output [T, H*(nope+rope)], of which values are the beginning."""
        heads = output.reshape(len(output), self.sizes.num_heads, -1)
        return self._project(heads[..., : self.sizes.value])

    def _project(self, heads: Tensor) -> Tensor:
        projected: Tensor = self.module.o_proj(heads.flatten(1))
        return projected


def _config(family: str, sizes: LatentSizes) -> DeepseekV2Config | DeepseekV3Config:
    given: dict[str, Any] = {
        "hidden_size": sizes.hidden,
        "num_attention_heads": sizes.num_heads,
        "num_key_value_heads": sizes.num_heads,
        "kv_lora_rank": sizes.latent,
        "q_lora_rank": sizes.query_latent,
        "qk_nope_head_dim": sizes.nope,
        "qk_rope_head_dim": sizes.rope,
        "v_head_dim": sizes.value,
        "max_position_embeddings": 2560,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "original_max_position_embeddings": 64,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            **sizes.yarn,
        },
        "attn_implementation": "eager",
    }
    if family == "v2":
        return DeepseekV2Config(**given)
    return DeepseekV3Config(**given, rope_interleave=family == "v3 pairs")
