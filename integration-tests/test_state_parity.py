"""The state operators give what transformers' hybrid layers give: LFM2's and Qwen3-Next's.

Method: random layers. transformers runs each sequence alone with a cache of its own; ours run them
packed, with states in pools of two banks that change places every step, as an engine has them: a
prompt each, then several tokens for some and one for others, then decode steps. First the functions
on their own, then whole layers from hidden states to output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from pa_kernels import (
    CausalConvInputs,
    GatedDeltaNetAttributes,
    GatedDeltaNetInputs,
    StatePool,
    gated_delta_net,
    varlen_causal_conv,
)
from pa_kernels.testing import expect_close
from torch import Tensor
from transformers import DynamicCache, Lfm2Config, Qwen3NextConfig
from transformers.models.lfm2.modeling_lfm2 import Lfm2ShortConv
from transformers.models.qwen3_next import modeling_qwen3_next as qwen3_next

BACKENDS = ("cpu", "reference")
DTYPES = (torch.float32, torch.bfloat16)

# Tokens of each of four sequences in each step; the last sequence joins in the second one.
STEPS = ((70, 5, 1, 0), (1, 66, 3, 2), (1, 1, 1, 1), (1, 1, 0, 1), (1, 1, 1, 1))
SLOTS = (4, 0, 2, 5)


def boundaries_of(tokens: Sequence[int]) -> Tensor:
    ends = torch.tensor(tokens).cumsum(0).tolist()
    return torch.tensor([0, *ends], dtype=torch.int32)


@dataclass
class Pools:
    """State of the sequences at SLOTS, in two banks that change places with every commit."""

    conv: Tensor
    recurrent: Tensor
    bank: int = 0
    is_new: list[bool] = field(default_factory=lambda: [True] * len(SLOTS))

    @property
    def slots(self) -> int:
        return self.conv.shape[1]

    def rows(self, states: Tensor) -> StatePool:
        read = [
            -1 if is_new else self.bank * self.slots + slot
            for slot, is_new in zip(SLOTS, self.is_new, strict=True)
        ]
        write = [(1 - self.bank) * self.slots + slot for slot in SLOTS]
        return StatePool(states, torch.tensor(read).int(), torch.tensor(write).int())

    def commit(self, tokens: Sequence[int]) -> None:
        self.bank = 1 - self.bank
        self.is_new = [
            is_new and count == 0 for is_new, count in zip(self.is_new, tokens, strict=True)
        ]


def make_pools(conv: Sequence[int], recurrent: Sequence[int], dtype: torch.dtype) -> Pools:
    # Nobody may read what no sequence wrote.
    return Pools(
        torch.full((2, 6, *conv), torch.nan, dtype=dtype),
        torch.full((2, 6, *recurrent), torch.nan),
    )


Layer = Callable[[Tensor, Tensor, Pools], Tensor]
TheirLayer = Callable[[Tensor, DynamicCache], Tensor]


def expect_layers_agree(
    ours: Layer, theirs: TheirLayer, caches: list[DynamicCache], pools: Pools, hidden: Tensor
) -> None:
    """hidden: [4, most tokens of a sequence, width]."""
    done = [0] * len(SLOTS)
    for tokens in STEPS:
        parts = [
            sequence[at : at + count]
            for sequence, at, count in zip(hidden, done, tokens, strict=True)
        ]
        output = ours(torch.cat(parts), boundaries_of(tokens), pools)
        expected = torch.cat(
            [
                theirs(part[None], cache)[0]
                for part, cache in zip(parts, caches, strict=True)
                if len(part)
            ]
        )
        assert float(expected.float().std()) > 0.02
        expect_close(output, expected)
        pools.commit(tokens)
        done = [at + count for at, count in zip(done, tokens, strict=True)]


def lfm2(dtype: torch.dtype, *, has_bias: bool) -> tuple[Any, Any]:
    torch.manual_seed(1)
    config = Lfm2Config(
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        conv_bias=has_bias,
        layer_types=["conv", "full_attention"],
    )
    return config, Lfm2ShortConv(config, 0).to(dtype).eval()


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("backend", BACKENDS)
@torch.no_grad()
def test_a_layer_of_lfm2(backend: str, dtype: torch.dtype, *, has_bias: bool) -> None:
    config, layer = lfm2(dtype, has_bias=has_bias)

    def ours(hidden: Tensor, boundaries: Tensor, pools: Pools) -> Tensor:
        before, after, x = layer.in_proj(hidden).chunk(3, dim=-1)
        inputs = CausalConvInputs(
            input=before * x,
            weight=layer.conv.weight,
            cumulative_sequence_length=boundaries,
            bias=layer.conv.bias,
            pool=pools.rows(pools.conv),
        )
        mixed = varlen_causal_conv(inputs, backend=backend).output
        output: Tensor = layer.out_proj(after * mixed)
        return output

    def theirs(hidden: Tensor, cache: DynamicCache) -> Tensor:
        output: Tensor = layer(hidden, cache=cache)
        return output

    pools = make_pools((48, 2), (0,), dtype)
    caches = [DynamicCache(config=config) for _ in SLOTS]
    hidden = (2 * torch.randn(4, 80, 48)).to(dtype)

    expect_layers_agree(ours, theirs, caches, pools, hidden)

    for slot, cache in zip(SLOTS, caches, strict=True):
        expect_close(pools.conv[pools.bank, slot], cache.get_conv_state(0)[0, :, -2:])


def qwen(dtype: torch.dtype) -> tuple[Any, Any]:
    torch.manual_seed(2)
    config = Qwen3NextConfig(
        hidden_size=64,
        num_hidden_layers=2,
        layer_types=["linear_attention", "full_attention"],
        linear_num_key_heads=2,
        linear_num_value_heads=6,
        linear_key_head_dim=16,
        linear_value_head_dim=24,
    )
    layer = qwen3_next.Qwen3NextGatedDeltaNet(config, 0)
    layer.dt_bias.data.normal_()
    return config, layer.to(dtype).eval()


def qwen_delta(layer: Any, mixed: Tensor, gates: Tensor) -> GatedDeltaNetInputs:
    """Split the convolution's output without copying it; gates: b and a, [2, T, Hv]."""
    tokens = mixed.shape[0]
    key_width, value_width = layer.key_dim, layer.value_dim
    query, key, value = torch.split(mixed, [key_width, key_width, value_width], dim=-1)
    return GatedDeltaNetInputs(
        query=query.view(tokens, layer.num_k_heads, layer.head_k_dim),
        key=key.view(tokens, layer.num_k_heads, layer.head_k_dim),
        value=value.view(tokens, layer.num_v_heads, layer.head_v_dim),
        cumulative_sequence_length=torch.empty(0),
        decay=gates[1],
        beta=gates[0].sigmoid(),
        a_log=layer.A_log,
        dt_bias=layer.dt_bias,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("backend", BACKENDS)
@torch.no_grad()
def test_a_layer_of_qwen3_next(backend: str, dtype: torch.dtype) -> None:
    config, layer = qwen(dtype)

    def ours(hidden: Tensor, boundaries: Tensor, pools: Pools) -> Tensor:
        projected = layer.in_proj_qkvz(hidden[None]), layer.in_proj_ba(hidden[None])
        query, key, value, z, b, a = layer.fix_query_key_value_ordering(*projected)
        packed = torch.cat([x[0].flatten(1) for x in (query, key, value)], dim=-1)
        conv = CausalConvInputs(
            input=packed,
            weight=layer.conv1d.weight,
            cumulative_sequence_length=boundaries,
            pool=pools.rows(pools.conv),
        )
        mixed = varlen_causal_conv(conv, layer.activation, backend).output
        delta = replace(
            qwen_delta(layer, mixed, torch.cat((b, a))),
            cumulative_sequence_length=boundaries,
            pool=pools.rows(pools.recurrent),
        )
        result = gated_delta_net(delta, GatedDeltaNetAttributes(qk_l2norm=True), backend)
        normed = layer.norm(result.output.flatten(0, 1), z[0].flatten(0, 1))
        output: Tensor = layer.out_proj(normed.view(len(hidden), -1))
        return output

    def theirs(hidden: Tensor, cache: DynamicCache) -> Tensor:
        output: Tensor = layer(hidden, cache=cache)
        return output

    pools = make_pools((208, 3), (6, 24, 16), dtype)
    caches = [DynamicCache(config=config) for _ in SLOTS]
    hidden = torch.randn(4, 80, 64).to(dtype)

    expect_layers_agree(ours, theirs, caches, pools, hidden)

    for slot, cache in zip(SLOTS, caches, strict=True):
        expect_close(pools.conv[pools.bank, slot], cache.get_conv_state(0)[0, :, -3:])
        state = cache.get_recurrent_state(0)[0].mT
        expect_close(pools.recurrent[pools.bank, slot], state, dtype)


RULES = {
    "chunk": qwen3_next.torch_chunk_gated_delta_rule,
    "recurrent": qwen3_next.torch_recurrent_gated_delta_rule,
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("tokens", [1, 4, 63, 64, 65, 200])
@pytest.mark.parametrize("dtype", [*DTYPES, torch.float16])
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_gated_delta_rule(backend: str, dtype: torch.dtype, tokens: int, rule: str) -> None:
    torch.manual_seed(tokens)
    query, key = (torch.randn(tokens, 2, 16).to(dtype) for _ in range(2))
    value, beta = torch.randn(tokens, 6, 24).to(dtype), torch.rand(tokens, 6).to(dtype)
    decay, state = -torch.rand(tokens, 6) * 3, torch.randn(1, 6, 24, 16)

    expected, expected_state = RULES[rule](
        *(x[None] for x in (query, key, value)),
        g=decay[None],
        beta=beta[None],
        initial_state=state.mT.contiguous(),
        output_final_state=True,
        use_qk_l2norm_in_kernel=True,
    )

    inputs = GatedDeltaNetInputs(
        query, key, value, boundaries_of([tokens]), decay, beta, initial_state=state
    )
    result = gated_delta_net(inputs, GatedDeltaNetAttributes(qk_l2norm=True), backend)
    expect_close(result.output, expected[0])
    assert result.final_state is not None
    expect_close(result.final_state, expected_state.mT)


@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize("tokens", [1, 2, 40])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_causal_convolution_and_its_update(
    backend: str, dtype: torch.dtype, tokens: int, activation: str | None
) -> None:
    torch.manual_seed(tokens)
    x, weight = torch.randn(tokens, 40).to(dtype), 0.5 * torch.randn(40, 4).to(dtype)
    bias, state = torch.randn(40).to(dtype), torch.randn(1, 40, 3).to(dtype)
    boundaries, name = boundaries_of([tokens]), activation or "none"

    fresh = CausalConvInputs(x, weight, boundaries, bias)
    expected = qwen3_next.causal_conv1d_fn(x.T[None], weight, bias, activation)
    expect_close(varlen_causal_conv(fresh, name, backend).output, expected[0].T)

    updated = state.clone()
    expected = qwen3_next.causal_conv1d_update(x.T[None], updated, weight, bias, activation)
    continued = CausalConvInputs(x, weight, boundaries, bias, initial_state=state)
    result = varlen_causal_conv(continued, name, backend)
    expect_close(result.output, expected[0].T)
    assert result.final_state is not None
    assert torch.equal(result.final_state, updated)
