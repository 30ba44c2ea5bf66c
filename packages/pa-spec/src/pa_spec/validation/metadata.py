"""Rules about metadata bounds, the bias and the score output."""

from __future__ import annotations

from pa_spec.validation.call import Call, shape_text


def check_metadata(call: Call) -> None:
    """V51, V52, V53: two or three bounds that are possible."""
    tensor, bounds = call.inputs.attention_metadata, call.signature.metadata
    if tensor is not None and tensor.shape not in ((2,), (3,)):
        call.report("V51", "attention_metadata", shape_text(tensor.shape))
    if bounds is None:
        return
    if len(bounds) not in (2, 3):
        call.report("V51", "attention_metadata", shape_text((len(bounds),)))
    elif min(bounds) < 0:
        call.report("V52", "attention_metadata", shape_text(bounds))
    elif len(bounds) == 3:
        _check_lower_bound(call, bounds)


def check_bias(call: Call) -> None:
    """V67: a bias broadcasts over rows and heads only."""
    bias = call.inputs.attention_bias
    if bias is None:
        return
    heads, shape = call.attributes.num_heads, bias.shape
    rank_fits = len(shape) == 4
    rows_fit = rank_fits and (call.rows is None or shape[0] in (1, call.rows))
    if not (rows_fit and shape[1] in (1, heads)):
        rows = "?" if call.rows is None else call.rows
        values = {"B": rows, "num_heads": heads}
        call.report("V67", "attention_bias", shape_text(shape), "shape", **values)


def check_scores(call: Call) -> None:
    """V69: output_qk is asked for exactly when qk_output selects something."""
    selected, element_type = call.attributes.qk_output, call.signature.output_qk_type
    if selected in (0, 1, 2) and (selected != 0) is not (element_type is not None):
        found = "none" if element_type is None else element_type.value
        call.report("V69", "output_qk", f"{found} with qk_output={selected}")


def _check_lower_bound(call: Call, bounds: tuple[int, ...]) -> None:
    table, cache = call.inputs.block_table.shape, call.inputs.key_cache.shape
    if len(table) == 2 and len(cache) == 4:
        capacity = table[1] * cache[1]
        bound = min(bounds[1], capacity) or capacity
        if bounds[2] > bound:
            call.report("V53", "attention_metadata", shape_text(bounds), bound=bound)
