"""What attention nodes read: a step's tensors in their places, every layer's caches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from exported_model import INT32, PAST, STEP, configured, found_in, graph, ids_in, node, tensor
from pa_spec.checker.graph.graph import Graph, TensorSource

INPUTS = "model.decoder.inputs"
EVERY = {**STEP, **PAST}


def exchanged(one: str, other: str) -> Any:
    return configured({f"{INPUTS}.{one}": other, f"{INPUTS}.{other}": one})


def test_a_tensor_of_a_step_is_read_in_its_own_place() -> None:
    document = exchanged("cumulative_sequence_lengths", "past_sequence_lengths")

    assert found_in(document, graph()) == [
        (
            f"{INPUTS}.cumulative_sequence_lengths: cumulative_sequence_lengths: expected a tensor "
            "that the nodes read as cumulative_sequence_length, got past_sequence_lengths, which "
            "they read as past_seqlens (exported.input_exchanged)"
        )
    ]
    assert found_in(configured(), graph()) == []


def test_one_name_for_two_tensors_is_one_finding() -> None:
    document = configured({f"{INPUTS}.cumulative_sequence_lengths": "past_sequence_lengths"})

    assert ids_in(found_in(document, graph())) == ["exported.input_exchanged"]


def test_a_tensor_that_some_node_reads_in_its_place_is_left_to_the_nodes() -> None:
    second = node(1, EVERY)
    inputs = list(second.inputs)
    inputs[5], inputs[6] = inputs[6], inputs[5]
    model = graph(nodes=[node(0, EVERY), replace(second, inputs=tuple(inputs))])

    assert found_in(configured(), model) == []


def test_a_step_feeds_three_bounds_and_a_table_of_two_axes() -> None:
    two = tensor("attention_metadata", INT32, 2)
    flat = tensor("block_table", INT32, "batch_size")
    any_length = tensor("attention_metadata", INT32, "bounds")
    nodes = [node(0, EVERY, "none"), node(1, EVERY, "none")]

    assert found_in(configured(), graph(two)) == [
        f"{INPUTS}.attention_metadata: attention_metadata: expected [3], got [2] (exported.tensor)"
    ]
    assert found_in(configured(), graph(flat, nodes=nodes)) == [
        f"{INPUTS}.block_table: block_table: expected [B, M], got [batch_size] (exported.tensor)"
    ]
    assert found_in(configured(), graph(any_length)) == []


def test_every_paged_layer_has_a_node_that_reads_its_caches() -> None:
    expected = [
        (
            "model.onnx: PagedAttention: expected a PagedAttention node for each layer of "
            "paged_kv, got none for 1 (exported.layer_unread)"
        )
    ]
    alone = graph(nodes=[node(0, EVERY)])

    assert found_in(configured(), alone) == expected
    assert found_in(configured(), replace(alone, functions=1)) == []
    assert found_in(configured(), replace(alone, is_sound=False)) == []
    shared = graph(nodes=[node(0, EVERY), node(1, EVERY), node(0, EVERY)])
    assert found_in(configured(), shared) == []


def test_a_node_without_a_key_cache_may_be_the_missing_layers() -> None:
    second = node(1, EVERY)
    absent = replace(second, inputs=second.inputs[:3])
    assert found_in(configured(), _with(absent)) == []

    copied = tensor("copied", *_type())
    computed = replace(copied, source=TensorSource.NODE, producer="Identity")
    inputs = (*second.inputs[:3], computed, *second.inputs[4:])
    assert found_in(configured(), _with(replace(second, inputs=inputs))) == []


def _type() -> Any:
    first = PAST["past_key_values.1.key"].tensor
    return first.element_type, *(first.shape or ())


def _with(second: Any) -> Graph:
    return graph(nodes=[node(0, EVERY), second])
