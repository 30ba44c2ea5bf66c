"""Rules about sinks, QK-norm and rotary tables."""

from __future__ import annotations

from pa_spec.validation.call import Call, presence, shape_text


def check_sink(call: Call) -> None:
    """V36: one sink for each query head."""
    if call.attributes.num_heads > 0:
        call.require("V36", "head_sink", call.inputs.head_sink, (call.attributes.num_heads,))


def check_norms(call: Call) -> None:
    """V37, V38: both gains or neither, each of the head size."""
    query, key = call.inputs.q_norm_weight, call.inputs.k_norm_weight
    if query is None and key is None:
        return
    if query is None or key is None:
        call.report("V37", "q_norm_weight" if query is None else "k_norm_weight", "none")
    if call.head_size is not None:
        call.require("V38", "q_norm_weight", query, (call.head_size,))
        call.require("V38", "k_norm_weight", key, (call.head_size,))


def check_rotary(call: Call) -> None:
    """V39 to V42: both tables or neither, of one shape, within the head."""
    cos, sin = call.inputs.cos_cache, call.inputs.sin_cache
    if cos is None or sin is None:
        if cos is not None or sin is not None:
            call.report("V39", "cos_cache" if cos is None else "sin_cache", "none")
        elif call.attributes.do_rotary == 1:
            call.report("V41", "cos_cache", presence(cos))
        return
    if len(cos.shape) != 2:
        call.report("V40", "cos_cache", shape_text(cos.shape), "cos_cache")
        return
    if sin.shape != cos.shape:
        shape = shape_text(cos.shape)
        call.report("V40", "sin_cache", shape_text(sin.shape), "sin_cache", shape=shape)
    offset, rotary_dim = call.attributes.rotary_offset, 2 * cos.shape[1]
    if call.head_size is not None and max(offset, 0) + rotary_dim > call.head_size:
        call.report("V42", "rotary_offset", offset, rotary_dim=rotary_dim, D=call.head_size)
