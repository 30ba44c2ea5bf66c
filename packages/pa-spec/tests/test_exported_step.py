"""Inputs and outputs of a step beside state, and the inputs that nothing feeds."""

from __future__ import annotations

from typing import Any

import pytest
from exported_model import (
    FULL,
    HALF,
    INT32,
    INT64,
    configured,
    found_in,
    graph,
    ids_in,
    tensor,
    with_state,
)
from pa_spec.checker.graph.graph import GraphNode, GraphTensor

INPUTS = "model.decoder.inputs"
PROVIDERS = "model.decoder.session_options.provider_options"


@pytest.mark.rule("V96")
@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (tensor("position_ids", INT32, "num_tokens"), "expected int64, got int32 (V96)"),
        (
            tensor("position_ids", INT64, 2, "num_tokens"),
            "expected [T] or [3, T], got [2, num_tokens] (V96)",
        ),
        (
            tensor("position_ids", INT64, 1, 3, "num_tokens"),
            "expected [T] or [3, T], got [1, 3, num_tokens] (V96)",
        ),
        (tensor("position_ids", INT64, "num_tokens"), None),
        (tensor("position_ids", INT64, 3, "num_tokens"), None),
        (tensor("position_ids", INT64, "axes", "num_tokens"), None),
    ],
)
def test_packed_positions_are_int64_on_one_axis_or_three(
    positions: GraphTensor, message: str | None
) -> None:
    expected = [] if message is None else [f"{INPUTS}.position_ids: position_ids: {message}"]

    assert found_in(configured(), graph(positions)) == expected


@pytest.mark.rule("V97")
def test_an_export_packs_token_ids() -> None:
    embeddings = tensor("inputs_embeds", HALF, "num_tokens", 128)
    model = graph(embeddings, without=["input_ids"])
    document = configured({f"{INPUTS}.inputs_embeds": "inputs_embeds"})

    assert found_in(document, model) == [
        (
            f"{INPUTS}.input_ids: input_ids: expected an input of the graph, "
            "because paged attention "
            "packs token ids, got embeddings inputs_embeds (V97)"
        )
    ]
    assert found_in(document, graph()) == []


@pytest.mark.rule("V97")
def test_an_export_yields_logits() -> None:
    hidden = tensor("hidden_states", HALF, "num_tokens", 128)

    assert found_in(configured(), graph(without=["logits"], outputs=[hidden])) == [
        (
            "model.decoder.outputs.logits: logits: expected an output of the graph, because every "
            "step samples, got output hidden_states (V97)"
        )
    ]
    assert found_in(configured(), graph(outputs=[hidden])) == []


@pytest.mark.rule("V97")
def test_an_export_runs_on_cuda() -> None:
    assert found_in(configured({PROVIDERS: [{"dml": {}}]}), graph()) == [
        (
            f"{PROVIDERS}: provider_options: expected cuda among the execution providers, "
            'got "dml" (V97)'
        )
    ]
    legal: list[Any] = [[], [{"CUDAExecutionProvider": {}}], [{"cuda": {}}, {"dml": {}}]]
    for providers in legal:
        assert found_in(configured({PROVIDERS: providers}), graph()) == []


@pytest.mark.spec("V80")
def test_an_input_of_a_step_under_another_name_is_one_finding() -> None:
    pages = tensor("block_tables", INT32, "batch_size", "max_num_blocks")

    assert found_in(configured(), graph(pages, without=["block_table"])) == [
        (
            f"{INPUTS}.block_table: block_table: expected an input of the graph, "
            "got no such input; "
            "block_tables is one that nothing feeds (V80)"
        )
    ]
    assert found_in(configured({f"{INPUTS}.block_table": "block_tables"}), graph(pages)) != []


@pytest.mark.spec("V80")
def test_a_step_can_do_without_the_inputs_that_only_some_models_have() -> None:
    given = {f"{INPUTS}.position_ids": "position_ids", f"{INPUTS}.logits_indices": "rows"}

    assert found_in(configured(given), graph(without=["attention_metadata"])) == []


def test_an_input_that_nothing_feeds_is_reported() -> None:
    beams = tensor("beam_index", INT32, "batch_size")
    mask = tensor("attention_mask", INT64, "batch_size", "total")
    message = (
        "expected a key that names this input, among those that a packed step feeds, got no such "
        "key (exported.input_unbound)"
    )
    masked = configured({f"{INPUTS}.attention_mask": "attention_mask"})

    assert found_in(configured(), graph(beams)) == [f"{INPUTS}: beam_index: {message}"]
    assert found_in(masked, graph(mask)) == [f"{INPUTS}: attention_mask: {message}"]
    assert found_in(configured({f"{INPUTS}.beam_rows": "beam_index"}), graph(beams)) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (tensor("input_ids", INT32, "num_tokens"), "expected int64, got int32"),
        (tensor("input_ids", INT64, "batch", "length"), "expected [T], got [batch, length]"),
    ],
)
def test_token_ids_are_packed_int64(given: GraphTensor, message: str) -> None:
    place = f"{INPUTS}.input_ids: input_ids"

    assert found_in(configured(), graph(given)) == [f"{place}: {message} (exported.tensor)"]


def test_logits_have_a_row_for_each_token_request_or_wanted_token() -> None:
    wanted = tensor("logits_indices", INT32, "num_logits")
    for rows in ("num_tokens", "batch_size", "num_logits"):
        logits = [tensor("logits", FULL, rows, 512)]
        assert found_in(configured(), graph(wanted, outputs=logits)) == []

    padded = [tensor("logits", HALF, "batch_size", "length", 512)]
    narrow = [tensor("logits", HALF, "num_tokens", 500)]

    assert found_in(configured(), graph(outputs=padded)) == [
        (
            "model.decoder.outputs.logits: logits: expected [T, V], [B, V] or [rows of logits, V], "
            "got [batch_size, length, 512] (exported.tensor)"
        )
    ]
    assert found_in(configured(), graph(outputs=narrow)) == [
        (
            "model.decoder.outputs.logits: logits: expected vocab_size=512 on the last axis, "
            "got [num_tokens, 500] (exported.logits_width)"
        )
    ]


def test_paged_nodes_need_the_dynamic_path() -> None:
    for document in (
        configured(without=["engine"]),
        configured({"engine": {"static_batching": {"max_batch_size": 2}}}),
    ):
        assert found_in(document, graph()) == [
            (
                "engine: dynamic_batching: expected an object, for the path that feeds a block "
                "table, got none, for 2 PagedAttention nodes (exported.not_dynamic)"
            )
        ]


def test_capture_that_an_engine_will_not_make_is_reported() -> None:
    captured = {PROVIDERS: [{"cuda": {"enable_cuda_graph": "1"}}]}
    positions = tensor("position_ids", INT64, "num_tokens")

    assert found_in(configured(captured), graph()) == []
    assert found_in(configured(captured), graph(positions)) == [
        (
            f"{PROVIDERS}: enable_cuda_graph: expected 0, or a model that can be captured, got 1, "
            "with an input position_ids (exported.capture_blocked)"
        )
    ]


@pytest.mark.parametrize("given", [1, True, None, ""])
def test_provider_options_are_texts(given: Any) -> None:
    document = configured({PROVIDERS: [{"cuda": {"enable_cuda_graph": given}}]})

    assert ids_in(found_in(document)) == ["exported.value"]


def test_operators_of_padded_batches_mix_the_rows_of_a_packed_step() -> None:
    padded = GraphNode(
        "/model/layers.0/conv", "CausalConvWithState", "com.microsoft", {}, (), ("out",)
    )
    packed = GraphNode("/conv", "VarlenCausalConvWithState", "com.microsoft", {}, (), ("out",))

    assert found_in(configured(), with_state(graph(), padded, padded)) == [
        (
            "model.onnx: /model/layers.0/conv: CausalConvWithState: expected "
            "VarlenCausalConvWithState, which takes the boundaries of rows, got "
            "CausalConvWithState "
            "and 1 more, whose rows are padded (exported.state_not_packed)"
        )
    ]
    assert found_in(configured(), with_state(graph(), packed)) == []
