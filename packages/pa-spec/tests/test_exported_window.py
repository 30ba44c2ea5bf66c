"""Rings of windowed layers: what they need, and the nodes that read them."""

from __future__ import annotations

from typing import Any

import pytest
from exported_model import INT32, PAST, STEP, configured, found_in, graph, ids_in, node, tensor
from pa_spec.checker.graph.graph import Graph

RING = "model.decoder.sliding_window"
CHUNK = "search.chunk_size"
WINDOWED = tensor("block_table_windowed", INT32, "batch_size", "max_num_blocks")


def ringed(changes: dict[str, Any] | None = None, without: tuple[str, ...] = ()) -> Any:
    """Return a sound configuration in which layer 1 has a ring."""
    ring = {RING: {"window_size": 64, "layers": [1]}, CHUNK: 32}
    names = {"model.decoder.inputs.block_table_windowed": "block_table_windowed"}
    return configured({**ring, **names, **(changes or {})}, without)


def windowed(table: str = "block_table_windowed", window: int = 64) -> Graph:
    inputs = {**STEP, **PAST, WINDOWED.name: WINDOWED}
    second = node(1, inputs, table, local_window_size=window)
    return graph(WINDOWED, nodes=[node(0, inputs), second])


@pytest.mark.rule("V85")
def test_a_sound_ring_passes() -> None:
    assert found_in(ringed(), windowed()) == []


@pytest.mark.rule("V85")
@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            ringed({f"{RING}.window_size": 0}),
            f"{RING}.window_size: window_size: expected an integer above 0, got 0 (V85)",
        ),
        (
            ringed(without=(f"{RING}.window_size",)),
            f"{RING}.window_size: window_size: expected an integer above 0, got no such key (V85)",
        ),
        (
            ringed(without=(RING,)),
            f"{RING}: sliding_window: expected an integer above 0, got no such key (V85)",
        ),
        (
            ringed(without=(CHUNK,)),
            (
                f"{CHUNK}: chunk_size: expected an integer above 0, because layers have rings, "
                "got no such key (V85)"
            ),
        ),
        (
            ringed({CHUNK: -1}),
            (
                f"{CHUNK}: chunk_size: expected an integer above 0, because layers have rings, "
                "got -1 (V85)"
            ),
        ),
        (
            ringed({f"{RING}.layers": [2]}),
            f"{RING}.layers: layers: expected layer ids from 0 to 1, got 2 (V85)",
        ),
        (
            ringed({f"{RING}.layers": [0, 1]}),
            (
                f"{RING}.layers: layers: expected at least one paged layer with full context, "
                "got all 2 of them (V85)"
            ),
        ),
    ],
)
def test_a_ring_needs_a_window_chunks_and_a_layer_with_full_context(
    document: Any, message: str
) -> None:
    assert found_in(document, windowed()) == [message]


@pytest.mark.rule("V85")
def test_a_ring_is_of_a_paged_layer() -> None:
    groups = [{"kind": "paged_kv", "layer_ids": [0]}, {"kind": "fixed_conv", "layer_ids": [1]}]
    document = ringed({"model.decoder.state_groups": groups})
    found = found_in(document, windowed())

    assert (f"{RING}.layers: layers: expected layers of the paged_kv group, got 1 (V85)") in found


@pytest.mark.spec("V85", "E101")
def test_without_the_window_table_every_layer_keeps_its_full_context() -> None:
    document = configured({RING: {"window_size": 64, "layers": [0, 1]}})

    assert found_in(document, graph()) == []


@pytest.mark.spec("E103")
def test_ring_layers_and_no_others_read_the_window_table() -> None:
    assert found_in(ringed(), windowed(table="block_table")) == [
        (
            "model.onnx: /model/layers.1/attn/PagedAttention: block_table: expected "
            "block_table_windowed, got block_table in layer 1 (exported.ring_table)"
        )
    ]
    assert found_in(ringed({f"{RING}.layers": [0]}), windowed()) == [
        (
            "model.onnx: /model/layers.0/attn/PagedAttention: block_table: expected "
            "block_table_windowed, got block_table in layer 0 (exported.ring_table)"
        ),
        (
            "model.onnx: /model/layers.1/attn/PagedAttention: block_table: expected "
            "block_table, got block_table_windowed in layer 1 (exported.ring_table)"
        ),
        (
            "model.onnx: /model/layers.0/attn/PagedAttention: local_window_size: expected 64, the "
            "window_size of its ring, got -1 in layer 0 (exported.ring_window)"
        ),
    ]


@pytest.mark.spec("E102")
def test_a_ring_layer_sees_the_window_of_its_ring() -> None:
    for window in (-1, 32, 128):
        assert found_in(ringed(), windowed(window=window)) == [
            (
                "model.onnx: /model/layers.1/attn/PagedAttention: local_window_size: expected 64, "
                f"the window_size of its ring, got {window} in layer 1 (exported.ring_window)"
            )
        ]


def test_rings_forget_prefixes() -> None:
    key = "engine.dynamic_batching.prefix_caching"

    assert found_in(ringed({key: True}), windowed()) == [
        (
            f"{key}: prefix_caching: expected false, because layers have rings, got true "
            "(exported.prefix_caching)"
        )
    ]
    assert found_in(ringed({key: False}), windowed()) == []


@pytest.mark.parametrize("layers", [["1"], [True], {"1": 1}, 1])
def test_ring_layers_that_are_no_integers_are_reported(layers: Any) -> None:
    assert ids_in(found_in(ringed({f"{RING}.layers": layers}), windowed())) == ["exported.value"]
