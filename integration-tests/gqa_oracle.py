"""ONNX Runtime's GroupQueryAttention on the CPU: one node, one session for each form of it.

What was found by running it (onnxruntime 1.32), and what the callers of this module do about it:

- local_window_size counts the query's own position, attention_bias comes after scale and softcap,
  qk_output 1 is the logit after softcap and bias, head_sink is in the denominator alone: as ours.
- An int8 cache is read by the very call that writes it, as ours is; round is half to even.
- Outside the mask its score matrix holds 0; ours holds -inf before the softmax (qk_output 1).
- Its CPU kernel refuses q_norm_weight and k_norm_weight: they are applied before, by torch.
- It refuses a K cache and a V cache of different granularity, float8 caches, bfloat16, and rotary
  widths that are no multiple of 16: those caches are given to it as floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import onnx
import onnxruntime
import torch
from torch import Tensor

_INPUTS = (
    *("query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length"),
    *("cos_cache", "sin_cache", "position_ids", "attention_bias", "head_sink", "k_scale"),
    *("v_scale", "q_norm_weight", "k_norm_weight", "query_seqlens"),
)
_OUTPUTS = ("output", "present_key", "present_value", "output_qk")
_TYPES = {
    torch.float32: onnx.TensorProto.FLOAT,
    torch.float16: onnx.TensorProto.FLOAT16,
    torch.int8: onnx.TensorProto.INT8,
    torch.int32: onnx.TensorProto.INT32,
}
Attribute = int | float | str


def group_query_attention(
    tensors: Mapping[str, Tensor], attributes: Mapping[str, Attribute]
) -> dict[str, Tensor]:
    """Run one node on dense tensors and return its outputs by name.

    tensors: query [B, S, H*D], past_key [B, K, P, D], and the rest by the node's input names.
    output_qk comes only where the attributes ask for it.
    """
    outputs = _OUTPUTS if attributes.get("qk_output") else _OUTPUTS[:3]
    form = tuple((name, tensors[name].dtype, tensors[name].ndim) for name in sorted(tensors))
    session = _session(form, outputs, tuple(sorted(attributes.items())))
    feeds = {name: tensor.contiguous().numpy() for name, tensor in tensors.items()}
    results = session.run(list(outputs), feeds)
    return {name: torch.from_numpy(each) for name, each in zip(outputs, results, strict=True)}


def lengths(past: int, new: int) -> dict[str, Tensor]:
    """Return the two inputs that tell a batch of one how long it is."""
    return {
        "seqlens_k": torch.tensor([past + new - 1], dtype=torch.int32),
        "total_sequence_length": torch.tensor([past + new], dtype=torch.int32),
    }


@cache
def _session(
    form: tuple[tuple[str, torch.dtype, int], ...],
    outputs: tuple[str, ...],
    attributes: tuple[tuple[str, Attribute], ...],
) -> onnxruntime.InferenceSession:
    given = {name: (_TYPES[dtype], rank) for name, dtype, rank in form}
    names = [name if name in given else "" for name in _INPUTS]
    while not names[-1]:
        names.pop()
    node = onnx.helper.make_node(
        "GroupQueryAttention", names, list(outputs), domain="com.microsoft"
    )
    node.attribute.extend(onnx.helper.make_attribute(*each) for each in attributes)
    value_info = onnx.helper.make_tensor_value_info
    cache_type = given.get("past_key", given["query"])[0]
    graph = onnx.helper.make_graph(
        [node],
        "one",
        [value_info(name, kind, [None] * rank) for name, (kind, rank) in given.items()],
        [
            value_info(name, cache_type if "present" in name else given["query"][0], None)
            for name in outputs
        ],
    )
    opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
