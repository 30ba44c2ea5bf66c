"""The operator in torch's library: torch.ops.pa.paged_attention, for graphs and compilers.

Importing this module registers it. It is the function `paged_attention` with flat arguments: the
inputs by position or name, the attributes by name. Its schema is made from the contract's types,
so the two cannot differ.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, replace

import torch
from pa_spec import (
    KvCacheLayout,
    PagedAttentionAttributes,
    PagedAttentionInputs,
    check,
    rules,
)
from torch import Tensor

from pa_kernels.prepare import paged_attention
from pa_kernels.signature import signature_of

OPERATOR = "pa::paged_attention"

_MUTATED = {"key_cache": "Tensor(a!)", "value_cache": "Tensor(b!)"}
_INPUTS = tuple(field.name for field in fields(PagedAttentionInputs))

Attribute = int | float | str


def _schema() -> str:
    inputs, attributes = [], []
    for field in fields(PagedAttentionInputs):
        kind = _MUTATED.get(field.name, "Tensor") + ("?" if "None" in str(field.type) else "")
        inputs.append(f"{kind} {field.name}{'' if field.default is MISSING else '=None'}")
    for field in fields(PagedAttentionAttributes):
        default = "" if field.default is MISSING else f"={field.default!r}".replace("'", '"')
        attributes.append(f"{field.type} {field.name}{default}")
    return f"({', '.join(inputs)}, *, {', '.join(attributes)}) -> (Tensor, Tensor)"


def _run(*tensors: Tensor | None, **attributes: Attribute) -> tuple[Tensor, Tensor]:
    """Run the operator; the second tensor is output_qk in float32, empty when not asked for."""
    inputs, given = _typed(tensors, attributes)
    result = paged_attention(inputs, given)
    if result.output_qk is None:
        return result.output, inputs.query.new_empty(0, dtype=torch.float32)
    return result.output, result.output_qk


def _fake(*tensors: Tensor | None, **attributes: Attribute) -> tuple[Tensor, Tensor]:
    """Return tensors of the output shapes, from shapes alone.

    Raises ContractViolation for a broken rule, while the call is traced.
    """
    inputs, given = _typed(tensors, attributes)
    _check_traced(inputs, given)
    num_tokens, head_size = inputs.query.shape[0], inputs.key_cache.shape[3]
    is_latent = given.kv_cache_layout == KvCacheLayout.LATENT.value
    width = (given.v_head_size if is_latent else 0) or head_size
    output = inputs.query.new_empty(num_tokens, given.num_heads * width)
    if given.qk_output == 0:
        return output, inputs.query.new_empty(0, dtype=torch.float32)
    context: int | torch.SymInt
    if inputs.attention_metadata is None:
        context = inputs.block_table.shape[1] * inputs.key_cache.shape[1]
    else:
        # The metadata's bound is a value, which tracing does not have.
        context = torch.library.get_ctx().new_dynamic_size()
    shape = (given.num_heads, num_tokens, context)
    return output, inputs.query.new_empty(shape, dtype=torch.float32)


def _check_traced(
    inputs: PagedAttentionInputs[Tensor], attributes: PagedAttentionAttributes
) -> None:
    given = [tensor for _, tensor in inputs.named() if tensor is not None]
    if all(isinstance(each, int) for tensor in given for each in (*tensor.shape, *tensor.stride())):
        # The metadata's values come with the call itself.
        check(signature_of(replace(inputs, attention_metadata=None), attributes))
    elif inputs.key_cache.dim() != 4:
        # A comparison of an extent that varies would fix it for the whole graph.
        raise rules()["V28"].violation("key_cache", f"{list(inputs.key_cache.shape)}")


def _typed(
    tensors: tuple[Tensor | None, ...], attributes: dict[str, Attribute]
) -> tuple[PagedAttentionInputs[Tensor], PagedAttentionAttributes]:
    # The dispatcher leaves out trailing arguments that have their default.
    inputs = dict(zip(_INPUTS, tensors, strict=False))
    return (
        PagedAttentionInputs(**inputs),  # type: ignore[arg-type]
        PagedAttentionAttributes(**attributes),  # type: ignore[arg-type]
    )


_definition = torch.library.custom_op(
    OPERATOR, _run, mutates_args=tuple(_MUTATED), schema=_schema()
)
_definition.register_fake(_fake)
