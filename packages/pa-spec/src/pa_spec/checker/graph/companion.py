"""Operators beside PagedAttention that today's exporters write and the onnx library lacks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

MICROSOFT = "com.microsoft"

# One line for each operator: name | inputs | outputs | attributes | shapes.
#   inputs, outputs   name:types, with ? where optional; one name of types is one type within a node
#   attributes        name:i (int), f (float), s (string), is (ints), with ! where required
#   shapes            output=input copies a shape and type; output=input:other takes the type of
#                     another; a word names an inference of its own (companion_shape.py)
_TABLE = """
SimplifiedLayerNormalization | X:F scale:F2 | Y:F2 inv_std_var:U?
 | axis:i epsilon:f stash_type:i | 0=0:1
SkipSimplifiedLayerNormalization | input:F skip:F gamma:F bias:F?
 | output:F mean:U? inv_std_var:U? input_skip_bias_sum:F? | epsilon:f | 0=0 3=0
SkipLayerNormalization | input:F skip:F gamma:F beta:F? bias:F?
 | output:F mean:U? inv_std_var:U? input_skip_bias_sum:F? | epsilon:f | 0=0 3=0
GatedRMSNorm | X:F scale:F gate:F | Y:F | activation:s epsilon:f | 0=0
GatedAdd | X:F Y:F gate:F gate_weight:F? | output:F | | 0=0
RotaryEmbedding | input:F position_ids:M cos_cache:F sin_cache:F | output:F
 | num_heads:i rotary_embedding_dim:i interleaved:i is_packed_batching:i scale:f | 0=0
MRotaryEmbedding | input:F position_ids:M cos_cache:F sin_cache:F | output:F
 | mrope_section:is! num_heads:i rotary_embedding_dim:i interleaved:i mrope_layout:i
   is_packed_batching:i scale:f | 0=0
MatMulNBits | A:F B:Q scales:S zero_points:Q2? g_idx:M? bias:F? | Y:F
 | K:i! N:i! bits:i block_size:i! accuracy_level:i weight_prepacked:i | columns
MatMulBnb4 | A:F B:Q absmax:F | Y:F
 | K:i! N:i! block_size:i! quant_type:i! training_mode:i transB:i | columns
MatMulBlockQuantizedFp8Weight | A:F B:Q b_scale:S a_scale:S? bias:F? | Y:F | block_size:i |
MatMulBlockQuantizedFp4Weight | A:F B:Q weight_scale:S weight_scale_2:S2 input_scale:S2? bias:F?
 | Y:F | block_size:i |
GatherBlockQuantized | data:Q indices:M scales:F zero_points:Q? | output:F
 | gather_axis:i quantize_axis:i block_size:i bits:i | rows
MoE | input:F router_probs:F fc1_experts_weights:F fc1_experts_bias:F? fc2_experts_weights:F
   fc2_experts_bias:F? fc3_experts_weights:F? fc3_experts_bias:F? | output:F
 | activation_type:s swiglu_fusion:i swiglu_limit:f swiglu_limit_after_activation:i
   activation_alpha:f activation_beta:f k:i normalize_routing_weights:i use_sparse_mixer:i | 0=0
QMoE | input:F router_probs:F fc1_experts_weights:Q fc1_scales:S? fc1_experts_bias:F?
   fc2_experts_weights:Q fc2_scales:S? fc2_experts_bias:F? fc3_experts_weights:Q? fc3_scales:S?
   fc3_experts_bias:F? fc1_zero_points:Q? fc2_zero_points:Q? fc3_zero_points:Q? router_weights:F?
   fc1_global_scale:S2? fc2_global_scale:S2? fc1_act_scale:S2? fc2_act_scale:S2?
   fc1_act_block_scale:S? fc2_act_block_scale:S? | output:F
 | activation_type:s swiglu_fusion:i swiglu_limit:f swiglu_limit_after_activation:i
   activation_alpha:f activation_beta:f k:i normalize_routing_weights:i use_sparse_mixer:i
   expert_weight_bits:i fc1_expert_weight_bits:i fc2_expert_weight_bits:i
   fc3_expert_weight_bits:i block_size:i quant_type:s weights_prepacked:i accuracy_level:i | 0=0
Gelu | X:F | Y:F | | 0=0
FastGelu | X:F bias:F? | Y:F | | 0=0
QuickGelu | X:F | Y:F | alpha:f | 0=0
BiasGelu | A:F B:F | C:F | | 0=0
Attention | input:F weights:F bias:F? mask_index:M? past:F? attention_bias:F?
   past_sequence_length:M? | output:F present:F?
 | num_heads:i! unidirectional:i qkv_hidden_sizes:is past_present_share_buffer:i do_rotary:i
   rotary_embedding_dim:i mask_filter_value:f scale:f |
MultiHeadAttention | query:F key:F? value:F? bias:F? key_padding_mask:M? attention_bias:F?
   past_key:F? past_value:F? past_sequence_length:M? cache_indirection:M?
 | output:F present_key:F? present_value:F? qk:F2?
 | num_heads:i! mask_filter_value:f scale:f unidirectional:i | heads
GroupQueryAttention | query:F key:F? value:F? past_key:C? past_value:C? seqlens_k:M
   total_sequence_length:M cos_cache:F? sin_cache:F? position_ids:M2? attention_bias:F?
   head_sink:F? k_scale:S? v_scale:S? q_norm_weight:F? k_norm_weight:F? query_seqlens:M?
 | output:F present_key:C? present_value:C? output_qk:F?
 | num_heads:i! kv_num_heads:i! scale:f softcap:f local_window_size:i do_rotary:i
   rotary_interleaved:i smooth_softmax:i qk_output:i causal:i k_quant_type:s v_quant_type:s
   kv_cache_bit_width:i sliding_window_cache:i qk_norm_epsilon:f q_norm_epsilon:f
   k_norm_epsilon:f | heads
SparseAttention | query:F key:F? value:F? past_key:F past_value:F block_row_indices:M
   block_col_indices:M total_sequence_length:M key_total_sequence_lengths:M cos_cache:F?
   sin_cache:F? | output:F present_key:F present_value:F
 | num_heads:i! kv_num_heads:i! scale:f sparse_block_size:i! do_rotary:i rotary_interleaved:i
 | heads
LinearAttention | query:F key:F value:F past_state:F2? decay:F? beta:F?
 | output:F present_state:F2
 | q_num_heads:i! kv_num_heads:i! update_rule:s scale:f chunk_size:i state_window:i |
LinearAttentionGate | a:F dt_bias:F2 decay_scale:F2 b:F? | decay:F beta:F? | | 0=0 1=0
CausalConvWithState | input:F weight:F bias:F? past_state:F?
 | output:F present_state:F state_update:F?
 | ndim:i activation:s state_window:i state_update_capacity:i dilation:i channels_last:i
   state_channels_last:i state_length:i input_channel_offset:i input_channels:i |
VarlenCausalConvWithState | input:F weight:F cumulative_sequence_length:M bias:F?
   initial_state:F capture_count:M? kernel_delta:F? previous_mask:F?
 | output:F final_state:F state_update:F?
 | activation:s state_update_capacity:i dilation:i delta_offset:i group_size:i | 0=0 1=4
GatedDeltaNet | query:F key:F? value:F? cu_seqlens:M? decay:F2? beta:F2? initial_state:S?
   a_log:S? dt_bias:S? capture_count:M? state_update_active:M?
 | output:F final_state:S? state_update:S?
 | update_rule:s scale:f gate_activation:s beta_activation:s qk_l2_norm:i chunk_size:i
   gate_lower_bound:f state_update_capacity:i | tokens
"""

_FLOATS = ("float", "float16", "bfloat16", "double")
_INTEGERS = ("int32", "int64")
_QUANTIZED = (
    "int8", "uint8", "int4", "uint4", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
    "float8e5m2fnuz", "float4e2m1",
)  # fmt: skip
TYPES = {
    "F": _FLOATS,
    "U": _FLOATS,
    "S": (*_FLOATS, "float8e8m0", "float8e4m3fn", "uint8"),
    "C": (*_FLOATS, "int8", "uint8", "float8e4m3fn"),
    "Q": (*_QUANTIZED, *_FLOATS),
    "M": _INTEGERS,
}
"""ONNX element types by the first letter of a name of types."""


@dataclass(frozen=True, slots=True)
class Slot:
    """An input or output of a companion: its name, name of types, and whether it may be absent."""

    name: str
    types: str
    is_optional: bool


@dataclass(frozen=True, slots=True)
class CompanionAttribute:
    """An attribute: kind "i", "f", "s" or "is"."""

    name: str
    kind: str
    is_required: bool


@dataclass(frozen=True, slots=True)
class Companion:
    """One operator; shapes: words that say how output shapes follow (the table's last column)."""

    name: str
    domain: str
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    attributes: tuple[CompanionAttribute, ...]
    shapes: tuple[str, ...]


@cache
def companions() -> tuple[Companion, ...]:
    """Return the operators of the table."""
    lines: list[str] = []
    for line in _TABLE.strip().splitlines():
        if line.startswith(" "):
            lines[-1] += line
        else:
            lines.append(line)
    return tuple(map(_companion, lines))


def _companion(line: str) -> Companion:
    name, inputs, outputs, attributes, shapes = (part.split() for part in line.split("|"))
    # This one lives in ONNX's own domain, where ONNX Runtime registers it and the library does not.
    domain = "" if name == ["SimplifiedLayerNormalization"] else MICROSOFT
    return Companion(
        name[0], domain, tuple(map(_slot, inputs)), tuple(map(_slot, outputs)),
        tuple(map(_attribute, attributes)), tuple(shapes),
    )  # fmt: skip


def _slot(word: str) -> Slot:
    name, _, types = word.partition(":")
    return Slot(name, types.removesuffix("?"), types.endswith("?"))


def _attribute(word: str) -> CompanionAttribute:
    name, _, kind = word.partition(":")
    return CompanionAttribute(name, kind.removesuffix("!"), kind.endswith("!"))
