"""Rules about query, key and value."""

from __future__ import annotations

from pa_spec.validation.call import Call, presence, shape_text


def check_query(call: Call) -> None:
    """V9, V10, V15, V18, V58: query's rank, and a head size that comes out whole."""
    if call.tokens is None:
        call.report("V9", "query", shape_text(call.inputs.query.shape))
    elif call.head_size is None:
        _check_width(call)
    elif call.head_size % 8:
        found = f"head size {call.head_size}, query {shape_text(call.inputs.query.shape)}"
        call.report("V10", "query", found)


def check_presence(call: Call) -> None:
    """V11, V16, V17: which of key and value the layout wants."""
    key, value = call.inputs.key, call.inputs.value
    if call.latent:
        if key is None:
            call.report("V16", "key", presence(key))
        if value is not None:
            call.report("V17", "value", presence(value))
    elif call.separate and (key is None) is not (value is None):
        call.report("V11", "key" if key is None else "value", "none")


def check_key(call: Call) -> None:
    """V12, V13, V18: key's rows and width."""
    key, kv_heads = call.inputs.key, call.attributes.kv_num_heads
    if key is None or call.tokens is None:
        return
    if len(key.shape) != 2 or key.shape[0] != call.tokens:
        call.report("V12", "key", shape_text(key.shape), T=call.tokens)
    elif call.head_size is not None and key.shape[1] != kv_heads * call.head_size:
        values = {"kv_num_heads": kv_heads, "D": call.head_size, "width": kv_heads * call.head_size}
        if call.latent:
            call.report("V18", "key", shape_text(key.shape), "key", **values)
        else:
            call.report("V13", "key", shape_text(key.shape), **values)


def check_value(call: Call) -> None:
    """V14: value's rows and width."""
    key, value = call.inputs.key, call.inputs.value
    if value is None or key is None or call.tokens is None or not call.separate:
        return
    width = key.shape[1] if len(key.shape) == 2 else None
    if len(value.shape) != 2 or value.shape[0] != call.tokens or value.shape[1] != width:
        shown = "width of key" if width is None else width
        call.report("V14", "value", shape_text(value.shape), T=call.tokens, width=shown)


def _check_width(call: Call) -> None:
    """Say why no head size follows from query's width, unless another rule says it."""
    heads, kv_heads = call.attributes.num_heads, call.attributes.kv_num_heads
    found = shape_text(call.inputs.query.shape)
    if heads <= 0 or kv_heads <= 0:
        return
    if call.latent:
        call.report("V18", "query", found, "query", num_heads=heads)
    elif call.separate and call.inputs.key is None and call.inputs.value is None:
        call.report("V15", "query", found, divisor=heads + 2 * kv_heads)
    elif call.separate and call.inputs.key is not None and call.inputs.value is not None:
        call.report("V58", "query", found, num_heads=heads)
