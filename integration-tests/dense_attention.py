"""torch's own attention over dense rows: scaled_dot_product_attention and FlexAttention.

Both compute in float64. A sink is an appended key for the first, whose logit the mask gives, and a
share of the log-sum-exp for the second. A softcap only the second has.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import pytest
import torch
from dense_rows import DenseRow, context_of, dense_rows
from pa_kernels.testing import PagedProblem
from torch import Tensor
from torch.nn.attention import flex_attention as flex
from torch.nn.functional import pad, scaled_dot_product_attention

Attention = Callable[[Tensor, PagedProblem], Tensor]
"""From queries [T, H, D], ready to attend, and a problem whose call has run, to [T, H*Dv]."""


def sdpa(query: Tensor, after: PagedProblem) -> Tensor:
    """Attend with scaled_dot_product_attention, row by row: the mask has every term of a logit."""
    return torch.cat([_sdpa_row(query[row.tokens], after, row) for row in dense_rows(after)])


def _sdpa_row(query: Tensor, after: PagedProblem, row: DenseRow) -> Tensor:
    inputs, heads = after.inputs, after.options.num_heads
    assert after.options.softcap == 0
    key, value = _context(after, row)
    terms = torch.zeros(heads, row.new, row.context, dtype=torch.float64)
    if inputs.attention_bias is not None:
        terms = terms + _bias(inputs.attention_bias, row)
    terms = terms.masked_fill(~visible(after, row), -torch.inf)
    if inputs.head_sink is not None:
        sink = inputs.head_sink.double()[:, None, None].expand(heads, row.new, 1)
        terms = torch.cat((terms, sink), dim=-1)
        # The appended key has a product of 0, and nothing to give.
        key, value = pad(key, (0, 0, 0, 1)), pad(value, (0, 0, 0, 1))
    output = scaled_dot_product_attention(
        query.double().transpose(0, 1)[None],
        key[None],
        value[None],
        attn_mask=terms[None],
        scale=_scale(after),
        enable_gqa=True,
    )
    return output[0].transpose(0, 1).flatten(1)


def flex_attention(query: Tensor, after: PagedProblem) -> Tensor:
    """Attend with FlexAttention, all rows in one padded batch.

    score_mod has softcap and bias, mask_mod what is visible.
    """
    softcap, rows = after.options.softcap, list(dense_rows(after))
    size = (max(row.new for row in rows), max(row.context for row in rows))
    is_visible = _batch([visible(after, row) for row in rows], *size)
    given = after.inputs.attention_bias
    bias = None if given is None else _batch([_bias(given, row) for row in rows], *size)

    def score_mod(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        capped = softcap * torch.tanh(score / softcap) if softcap else score
        return capped if bias is None else capped + bias[b, h if bias.shape[1] > 1 else 0, q, k]

    def mask_mod(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return is_visible[b, q, k]

    mask = flex.create_block_mask(mask_mod, len(rows), None, *size, device="cpu")
    pairs = [_context(after, row) for row in rows]
    key, value = (
        _batch([pair[part] for pair in pairs], size[1], pairs[0][part].shape[2])
        for part in range(2)
    )
    queries = [query[row.tokens].double().transpose(0, 1) for row in rows]
    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings():
        # Not compiled: the same arithmetic, and it says so in a warning.
        patched.setattr(flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", value=True)
        warnings.simplefilter("ignore")
        output, aux = flex.flex_attention(
            _batch(queries, size[0], query.shape[2]),
            key,
            value,
            score_mod=score_mod,
            block_mask=mask,
            scale=_scale(after),
            enable_gqa=True,
            return_aux=flex.AuxRequest(lse=True),
        )
    if after.inputs.head_sink is not None:
        assert aux.lse is not None
        sink = after.inputs.head_sink.double()[:, None]
        output = output * torch.sigmoid(aux.lse - sink)[..., None]
    found = zip(torch.as_tensor(output), rows, strict=True)
    return torch.cat([each[:, : row.new].transpose(0, 1).flatten(1) for each, row in found])


def _batch(tensors: Sequence[Tensor], rows: int, columns: int) -> Tensor:
    """Stack tensors whose last two axes are filled up with zeros."""
    return torch.stack(
        [pad(each, (0, columns - each.shape[-1], 0, rows - each.shape[-2])) for each in tensors]
    )


def visible(problem: PagedProblem, row: DenseRow) -> Tensor:
    """Return which keys each query may see [n, context]: mapped, not later, within the window."""
    positions = problem.inputs.query_positions
    last = row.past + torch.arange(row.new) if positions is None else positions[row.tokens]
    key, last = torch.arange(row.context), last[:, None]
    window = problem.attributes.local_window_size
    is_visible = (key <= last) & (row.slot >= 0)
    return is_visible & (key > last - window) if window > 0 else is_visible


def _context(after: PagedProblem, row: DenseRow) -> tuple[Tensor, Tensor]:
    """Return keys [K, context, D] and values [K, context, Dv] as the caches hold them."""
    inputs, options = after.inputs, after.options
    key = context_of(inputs.key_cache, inputs.k_scale, row).double().transpose(0, 1)
    if inputs.value_cache is None:
        return key, key[..., : options.v_head_size]
    return key, context_of(inputs.value_cache, inputs.v_scale, row).double().transpose(0, 1)


def _bias(bias: Tensor, row: DenseRow) -> Tensor:
    own = bias[row.index if bias.shape[0] > 1 else 0]
    return own[:, : row.new, : row.context].double()


def _scale(problem: PagedProblem) -> float:
    return float(problem.options.scale or problem.options.head_size**-0.5)
