"""What GroupQueryAttention gives for the rows of a paged problem.

Two ways. `whole_row` hands a row to one node as it is: prologue, window and all; its caches are
floats. `staged_row` lets one node prepare queries and keys (rotary embedding) and another attend to
the context as our cache holds it after the call: for quantized and rounded caches, and for tokens
whose keys the call does not store.
"""

from __future__ import annotations

from dense_rows import DenseRow, context_of, heads_of
from gqa_oracle import Attribute, group_query_attention, lengths
from pa_kernels.testing import PagedProblem
from stored_rows import OracleRow
from torch import Tensor
from torch.nn.functional import rms_norm


def whole_row(problem: PagedProblem, row: DenseRow) -> OracleRow:
    """Run a row through one node: [past | new], with everything that the problem asks for."""
    inputs, options = problem.inputs, problem.options
    tensors = {**lengths(row.past, row.new), **_new_tokens(problem, row)}
    past = slice(0, row.past)
    assert inputs.value_cache is not None
    for name, cache in (("past_key", inputs.key_cache), ("past_value", inputs.value_cache)):
        tensors[name] = _heads_first(context_of(cache, None, row)[past])
    tensors |= _rotary(problem) | _logit_terms(problem, row)
    rotary: dict[str, Attribute] = {
        "do_rotary": int(options.rotary_dim > 0),
        "rotary_interleaved": int(options.rotary_interleaved),
    }
    found = group_query_attention(tensors, _attributes(problem) | rotary)
    scores = found.get("output_qk")
    return OracleRow(
        found["output"][0],
        found["present_key"][0, :, row.past :].transpose(0, 1),
        found["present_value"][0, :, row.past :].transpose(0, 1),
        None if scores is None else scores[0],
    )


def staged_row(before: PagedProblem, after: PagedProblem, row: DenseRow) -> OracleRow:
    """Run a row in two stages; the second reads the caches of `after`, a backend's own run."""
    query, key, value = normalized_heads(before)
    assert value is not None
    turned_query = _rotated(before, row, query[row.tokens])
    turned_key = _rotated(before, row, key[row.tokens])
    inputs, past = after.inputs, slice(0, row.past)
    assert inputs.value_cache is not None
    tensors = {**lengths(row.past, row.new), **_logit_terms(before, row)}
    tensors["query"] = _flat(turned_query)
    for name, cache, scale in (
        ("key", inputs.key_cache, inputs.k_scale),
        ("value", inputs.value_cache, inputs.v_scale),
    ):
        context = context_of(cache, scale, row)
        tensors[f"past_{name}"] = _heads_first(context[past])
        tensors[name] = _flat(context[row.past :])
    found = group_query_attention(tensors, _attributes(before))
    scores = found.get("output_qk")
    return OracleRow(
        found["output"][0],
        turned_key,
        value[row.tokens],
        None if scores is None else scores[0],
    )


def normalized_heads(problem: PagedProblem) -> tuple[Tensor, Tensor, Tensor | None]:
    """Separate the heads and apply QK-norm, which the node's CPU kernel does not have."""
    inputs = problem.inputs
    query, key, value = heads_of(problem)
    if inputs.q_norm_weight is not None and inputs.k_norm_weight is not None:
        epsilon, size = problem.attributes.qk_norm_epsilon, (problem.options.head_size,)
        query = rms_norm(query, size, inputs.q_norm_weight.float(), epsilon)
        key = rms_norm(key, size, inputs.k_norm_weight.float(), epsilon)
    return query, key, value


def _new_tokens(problem: PagedProblem, row: DenseRow) -> dict[str, Tensor]:
    """Packed where the problem is, unless QK-norm has to come between."""
    if problem.inputs.key is None and not problem.options.has_qk_norm:
        return {"query": problem.inputs.query[row.tokens].float()[None]}
    query, key, value = normalized_heads(problem)
    assert value is not None
    heads = {"query": query, "key": key, "value": value}
    return {name: _flat(each[row.tokens]) for name, each in heads.items()}


def _rotated(problem: PagedProblem, row: DenseRow, heads: Tensor) -> Tensor:
    """Let a node turn heads [n, heads, D] as the keys of a head each."""
    options = problem.options
    if options.rotary_dim == 0:
        return heads
    count, size = heads.shape[1:]
    past = heads.new_zeros(1, count, row.past, size)
    tensors = {"query": _flat(heads), "key": _flat(heads), "value": _flat(heads)}
    tensors |= lengths(row.past, row.new) | _rotary(problem)
    tensors |= {"past_key": past, "past_value": past}
    attributes: dict[str, Attribute] = {
        "num_heads": count,
        "kv_num_heads": count,
        "do_rotary": 1,
        "rotary_interleaved": int(options.rotary_interleaved),
    }
    found = group_query_attention(tensors, attributes)
    return found["present_key"][0, :, row.past :].transpose(0, 1)


def _rotary(problem: PagedProblem) -> dict[str, Tensor]:
    inputs = problem.inputs
    if inputs.cos_cache is None or inputs.sin_cache is None:
        return {}
    return {"cos_cache": inputs.cos_cache.float(), "sin_cache": inputs.sin_cache.float()}


def _logit_terms(problem: PagedProblem, row: DenseRow) -> dict[str, Tensor]:
    inputs, terms = problem.inputs, {}
    if inputs.head_sink is not None:
        terms["head_sink"] = inputs.head_sink.float()
    if inputs.attention_bias is not None:
        own = inputs.attention_bias[row.index if inputs.attention_bias.shape[0] > 1 else 0]
        terms["attention_bias"] = own[None, :, : row.new, : row.context].float()
    return terms


def _attributes(problem: PagedProblem) -> dict[str, Attribute]:
    given = problem.attributes
    return {
        "num_heads": given.num_heads,
        "kv_num_heads": given.kv_num_heads,
        "scale": given.scale,
        "softcap": given.softcap,
        "local_window_size": given.local_window_size,
        "qk_output": given.qk_output,
    }


def _flat(heads: Tensor) -> Tensor:
    """[n, heads, D] as a batch of one: [1, n, heads*D]."""
    return heads.flatten(1)[None]


def _heads_first(context: Tensor) -> Tensor:
    """[L, K, D] as a batch of one: [1, K, L, D]."""
    return context.transpose(0, 1)[None]
