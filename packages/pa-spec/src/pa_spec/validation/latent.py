"""Rules about the LATENT layout and the width of values."""

from __future__ import annotations

from pa_spec.validation.call import Call, presence


def check_value_width(call: Call) -> None:
    """V19, V20, V21: v_head_size against the head size, and the scale it makes necessary."""
    width, head_size = call.attributes.v_head_size, call.head_size
    if head_size is None or width <= 0 or width == head_size:
        return
    if width > head_size:
        call.report("V19", "v_head_size", width, D=head_size)
    if call.separate:
        call.report("V20", "v_head_size", width, D=head_size)
    elif call.latent and call.attributes.scale == 0:
        found = call.attributes.scale
        call.report("V21", "scale", found, v_head_size=width, D=head_size)


def check_latent(call: Call) -> None:
    """V22 to V26: what cannot be combined with LATENT."""
    if not call.latent:
        return
    inputs, attributes = call.inputs, call.attributes
    if inputs.value_cache is not None:
        call.report("V22", "value_cache", presence(inputs.value_cache))
    if attributes.kv_num_heads > 1:
        call.report("V23", "kv_num_heads", attributes.kv_num_heads)
    if inputs.head_sink is not None:
        call.report("V24", "head_sink", presence(inputs.head_sink))
    if inputs.q_norm_weight is not None:
        call.report("V25", "q_norm_weight", presence(inputs.q_norm_weight))
    if inputs.k_norm_weight is not None:
        call.report("V25", "k_norm_weight", presence(inputs.k_norm_weight))
    if inputs.v_scale is not None:
        call.report("V26", "v_scale", presence(inputs.v_scale), "v_scale")
    if attributes.v_quant_type != "NONE":
        call.report("V26", "v_quant_type", attributes.v_quant_type, "v_quant_type")
    if attributes.v_cache_dtype:
        call.report("V26", "v_cache_dtype", attributes.v_cache_dtype, "v_cache_dtype")
