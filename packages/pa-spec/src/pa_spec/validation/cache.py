"""Rules about the shapes of the caches and of the tables that address them."""

from __future__ import annotations

from pa_spec.validation.call import Call, presence, shape_text


def check_caches(call: Call) -> None:
    """V27, V28, V31: which caches are there, and that they are alike."""
    key, value = call.inputs.key_cache, call.inputs.value_cache
    if len(key.shape) != 4:
        call.report("V28", "key_cache", shape_text(key.shape))
    if value is None:
        if call.separate:
            call.report("V27", "value_cache", presence(value))
    elif len(value.shape) != 4:
        call.report("V28", "value_cache", shape_text(value.shape))
    elif call.separate and len(key.shape) == 4 and value.shape != key.shape:
        call.report("V31", "value_cache", shape_text(value.shape), shape=shape_text(key.shape))


def check_geometry(call: Call) -> None:
    """V29, V30: block size, and the row that a slot holds."""
    shape = call.inputs.key_cache.shape
    if len(shape) != 4:
        return
    block_size, kv_heads = shape[1], call.attributes.kv_num_heads
    if block_size < 16 or block_size & (block_size - 1):
        call.report("V29", "key_cache", f"{block_size} in {shape_text(shape)}")
    if call.head_size is not None and (shape[2] != kv_heads or shape[3] != call.head_size):
        call.report("V30", "key_cache", shape_text(shape), kv_num_heads=kv_heads, D=call.head_size)


def check_rows(call: Call) -> None:
    """V32, V33, V34, V104: the arrays that have one entry for each row."""
    inputs, rows = call.inputs, call.rows
    if rows is None:
        found = shape_text(inputs.cumulative_sequence_length.shape)
        call.report("V32", "cumulative_sequence_length", found)
    else:
        call.require("V33", "past_seqlens", inputs.past_seqlens, (rows,))
    table = inputs.block_table.shape
    if len(table) != 2 or (rows is not None and table[0] != rows):
        call.report("V34", "block_table", shape_text(table), B="?" if rows is None else rows)
    elif table[1] == 0 and call.tokens:
        call.report("V104", "block_table", shape_text(table), T=call.tokens)


def check_tokens(call: Call) -> None:
    """V35, V66: the arrays that have one entry for each packed token."""
    if call.tokens is None:
        return
    call.require("V35", "slot_mapping", call.inputs.slot_mapping, (call.tokens,))
    positions = call.inputs.query_positions
    if positions is not None and positions.shape != (call.tokens,):
        call.report("V66", "query_positions", shape_text(positions.shape), "shape", T=call.tokens)
