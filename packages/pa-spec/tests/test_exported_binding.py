"""State tensors that a configuration names, against the graph's inputs and outputs."""

from __future__ import annotations

from typing import Any

import pytest
from exported_model import (
    CACHE,
    FULL,
    HALF,
    PAST,
    STEP,
    configured,
    found_in,
    graph,
    ids_in,
    node,
    tensor,
)
from pa_spec.checker.graph.graph import GraphTensor

GROUPS = "model.decoder.state_groups"
HYBRID = [{"kind": "paged_kv", "layer_ids": [0, 1]}, {"kind": "fixed_conv", "layer_ids": [1]}]
CONV = "past_key_values.1.conv_state"


def past(layer: int = 0, part: str = "key", *shape: Any, **other: Any) -> GraphTensor:
    element_type = other.get("element_type", HALF)
    return tensor(f"past_key_values.{layer}.{part}", element_type, *(shape or CACHE))


def present(layer: int = 0, part: str = "key", *shape: Any, **other: Any) -> GraphTensor:
    element_type = other.get("element_type", HALF)
    return tensor(f"present.{layer}.{part}", element_type, *(shape or CACHE))


def both(*shape: Any, layer: int = 0, part: str = "key", **other: Any) -> dict[str, Any]:
    """Change a cache as input and as output alike."""
    return {
        "more": past(layer, part, *shape, **other),
        "outputs": [present(layer, part, *shape, **other)],
    }


@pytest.mark.rule("V80")
def test_a_bound_tensor_is_an_input_and_an_output_of_the_graph() -> None:
    document = configured()

    assert found_in(document, graph(without=["past_key_values.1.value"])) == [
        (
            "model.decoder.inputs.past_value_names: past_key_values.1.value: expected an input of "
            "the graph, got no such input (V80)"
        )
    ]
    assert found_in(document, graph(without=["present.0.key"])) == [
        (
            "model.decoder.outputs.present_key_names: present.0.key: expected an output of the "
            "graph, got no such output (V80)"
        )
    ]
    assert found_in(document, graph()) == []


@pytest.mark.spec("V80")
def test_a_renamed_template_is_one_finding() -> None:
    document = configured({"model.decoder.inputs.past_key_names": "cache_%d_of_keys"})

    assert found_in(document, graph()) == [
        (
            "model.decoder.inputs.past_key_names: cache_0_of_keys: expected an input of the graph, "
            "got no such input, nor are 1 more of cache_%d_of_keys (V80)"
        )
    ]


@pytest.mark.rule("V80")
def test_input_and_output_of_a_cache_are_alike() -> None:
    other_type = graph(outputs=[present(element_type=FULL)])
    other_heads = graph(outputs=[present(0, "key", "num_blocks", "block_size", 4, 32)])
    other_names = graph(outputs=[present(0, "key", "N", "S", 2, 32)])

    assert found_in(configured(), other_type) == [
        (
            "model.decoder.outputs.present_key_names: present.0.key: expected float16, the element "
            "type of past_key_values.0.key, got float32 (V80)"
        )
    ]
    assert found_in(configured(), other_heads) == [
        (
            "model.decoder.outputs.present_key_names: present.0.key: expected [num_blocks, "
            "block_size, 2, 32], the shape of past_key_values.0.key, got "
            "[num_blocks, block_size, 4, "
            "32] (V80)"
        )
    ]
    assert found_in(configured(), other_names) == []


@pytest.mark.rule("V81")
def test_a_paged_cache_has_the_geometry_of_the_configuration() -> None:
    changed = both("num_blocks", "block_size", 2, 64, layer=1, part="value")
    document, place = configured(), "model.decoder.state_groups: past_key_values"

    assert found_in(document, graph(changed["more"], outputs=changed["outputs"])) == [
        (
            f"{place}.1.value: expected head_size=32 on axis 3, got [num_blocks, "
            "block_size, 2, 64] "
            "(V81)"
        )
    ]
    assert found_in(configured({"model.decoder.num_key_value_heads": 4}), graph()) == [
        (
            f"{place}.0.key: expected num_key_value_heads=4 on axis 2, got "
            "[num_blocks, block_size, "
            "2, 32], as have 3 more (V81)"
        )
    ]
    for size, messages in (
        (32, [f"{place}.0.key: expected block_size=16 on axis 1, got [64, 32, 2, 32] (V81)"]),
        (16, []),
    ):
        static = both(64, size, 2, 32)
        assert found_in(document, graph(static["more"], outputs=static["outputs"])) == messages


@pytest.mark.rule("V81")
def test_paged_caches_are_alike_within_their_group() -> None:
    other_type = both(element_type=FULL, layer=1)
    flat = both("num_blocks", "block_size", 64)
    place = "model.decoder.state_groups: past_key_values"

    assert found_in(configured(), graph(other_type["more"], outputs=other_type["outputs"])) == [
        (
            f"{place}.1.key: expected float16, the element type of past_key_values.0.key, "
            "got float32 (V81)"
        )
    ]
    assert found_in(configured(), graph(flat["more"], outputs=flat["outputs"])) == [
        f"{place}.0.key: expected [N, S, K, D], got [num_blocks, block_size, 64] (V81)"
    ]


@pytest.mark.spec("V81")
def test_blocks_of_no_configured_size_are_alike() -> None:
    document = configured({"engine.dynamic_batching.block_size": 0})
    longer = both(64, 32, 2, 32, layer=1)
    first = [past(0, "key", 64, 16, 2, 32), longer["more"]]
    outputs = [present(0, "key", 64, 16, 2, 32), *longer["outputs"]]

    assert found_in(document, graph(*first, outputs=outputs))[1:] == [
        (
            "model.decoder.state_groups: past_key_values.1.key: expected [64, 16, 2, 32], "
            "the shape of past_key_values.0.key, got [64, 32, 2, 32] (V81)"
        )
    ]


@pytest.mark.spec("V81")
def test_the_number_of_blocks_may_differ_as_it_does_with_rings() -> None:
    fewer = both(8, 16, 2, 32, layer=1)

    assert found_in(configured(), graph(fewer["more"], outputs=fewer["outputs"])) == []


@pytest.mark.spec("V80", "V81")
def test_a_latent_layer_has_no_value_cache() -> None:
    latent = tensor("past_key_values.0.key", HALF, "num_blocks", "block_size", 1, 576)
    first = node(0, {latent.name: latent}, kv_cache_layout="LATENT")
    model = graph(
        latent,
        outputs=[tensor("present.0.key", HALF, "num_blocks", "block_size", 1, 576)],
        without=["past_key_values.0.value", "present.0.value"],
        nodes=[first, node(1, {**STEP, **PAST})],
    )

    assert found_in(configured(), model) == []


def fixed(*shape: Any, name: str = "past", **other: Any) -> GraphTensor:
    full = CONV if name == "past" else CONV.replace("past_key_values", "present")
    return tensor(full, other.get("element_type", HALF), *shape)


@pytest.mark.rule("V84")
@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((4, 128, 3), "expected a dynamic batch axis, got [4, 128, 3] (V84)"),
        ((0, 128, 3), "expected a dynamic batch axis, got [0, 128, 3] (V84)"),
        ((), "expected a dynamic batch axis, got [] (V84)"),
        (
            ("batch_size", "channels", 3),
            (
                "expected static extents of at least 1 behind the batch axis, got [batch_size, "
                "channels, 3] (V84)"
            ),
        ),
        (
            ("batch_size",),
            "expected static extents of at least 1 behind the batch axis, got [batch_size] (V84)",
        ),
        (("batch_size", 128, 3), None),
    ],
)
def test_fixed_state_has_a_dynamic_batch_axis_and_static_rows(
    shape: tuple[Any, ...], message: str | None
) -> None:
    model = graph(fixed(*shape), outputs=[fixed(*shape, name="present")])
    expected = [] if message is None else [f"model.decoder.state_groups: {CONV}: {message}"]

    assert found_in(configured({GROUPS: HYBRID}), model) == expected


@pytest.mark.spec("V84")
def test_rows_that_only_the_output_leaves_open_are_reported() -> None:
    model = graph(
        fixed("batch_size", 128, 3), outputs=[fixed("batch_size", "channels", 3, name="present")]
    )

    assert found_in(configured({GROUPS: HYBRID}), model) == [
        (
            "model.decoder.state_groups: present.1.conv_state: expected static extents of at least "
            "1 behind the batch axis, got [batch_size, channels, 3] (V84)"
        )
    ]


@pytest.mark.spec("V82")
def test_state_is_not_missed_where_its_group_may_be_of_the_wrong_kind() -> None:
    document = configured({GROUPS: [{"kind": "fixed_conv", "layer_ids": [0, 1]}]})

    assert ids_in(found_in(document, graph())) == ["V82"]


@pytest.mark.spec("V80", "V84")
def test_what_fixed_state_must_share_is_said_once() -> None:
    row = ("batch_size", 128, 3)
    absent = graph(fixed(*row))
    other_rows = graph(fixed(*row), outputs=[fixed("batch_size", 128, 4, name="present")])
    other_type = graph(fixed(*row), outputs=[fixed(*row, name="present", element_type=FULL)])
    renamed = graph(fixed(*row), outputs=[fixed("B", 128, 3, name="present")])

    for model in (absent, other_rows, other_type):
        assert ids_in(found_in(configured({GROUPS: HYBRID}), model)) == ["V80"]
    assert found_in(configured({GROUPS: HYBRID}), renamed) == []


def test_state_of_a_layer_that_no_group_has_is_reported_once_for_the_layer() -> None:
    document = configured({GROUPS: [{"kind": "paged_kv", "layer_ids": [0]}]})

    assert found_in(document, graph()) == [
        (
            "model.decoder.state_groups: past_key_values.1.key: expected its layer "
            "in a state group, "
            "got no group with layer 1 (exported.cache_uncovered)"
        )
    ]


def test_a_hundred_million_layers_take_no_time() -> None:
    document = configured({"model.decoder.num_hidden_layers": 10**8}, without=[GROUPS])

    assert ids_in(found_in(document, graph())) == ["V80"] * 4
