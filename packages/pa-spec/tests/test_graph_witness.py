"""Goal: a symbol in the wrong place is reported by the rule about that input.

Method: symbolic shapes of one input of a right node are changed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from graph_changes import Change
from paged_graphs import HALF, INT32, Input, Shape, separate_inputs

V33 = "past_seqlens: expected [B], got [{}] (V33)"


@pytest.mark.rule("V33")
@pytest.mark.rule("V34")
@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (
            {"block_table": ("max_num_blocks", "batch_size")},
            "block_table: expected [B, M], got [max_num_blocks, batch_size] (V34)",
        ),
        (
            {"block_table": ("num_tokens", "max_num_blocks")},
            "block_table: expected [B, M], got [num_tokens, max_num_blocks] (V34)",
        ),
        (
            {"block_table": ("num_blocks", "max_num_blocks")},
            "block_table: expected [B, M], got [num_blocks, max_num_blocks] (V34)",
        ),
        ({"past_seqlens": ("num_tokens",)}, V33.format("num_tokens")),
        ({"past_seqlens": ("num_blocks",)}, V33.format("num_blocks")),
        (
            {"cumulative_sequence_length": ("batch_size + 2",)},
            "past_seqlens: expected [B=batch_size + 1], got [batch_size] (V33)",
        ),
        (
            {"cumulative_sequence_length": ("boundaries",), "past_seqlens": ("num_blocks",)},
            V33.format("num_blocks"),
        ),
    ],
)
def test_rows_are_what_most_inputs_call_them(
    inputs: dict[str, Input | int | Shape], expected: str, tmp_path: Path
) -> None:
    assert Change(inputs=inputs).findings(tmp_path) == [f"model.onnx: attn: {expected}"]


@pytest.mark.parametrize(
    "inputs",
    [
        # Every row has one token.
        {"query": ("batch_size", 128)},
        {"block_table": ("rows", "max_num_blocks")},
        {"block_table": ("rows", "columns"), "cumulative_sequence_length": ("boundaries",)},
        {"cumulative_sequence_length": ("batch_size",)},
        {"cumulative_sequence_length": ("rows + 2",)},
        {"past_seqlens": (4,), "block_table": (4, "batch_size")},
        {"block_table": ("batch_size", "batch_size")},
    ],
)
def test_symbols_that_may_be_right_are(
    inputs: dict[str, Input | int | Shape], tmp_path: Path
) -> None:
    assert Change(inputs=inputs).findings(tmp_path) == []


@pytest.mark.rule("V12")
def test_keys_have_as_many_tokens_as_query(tmp_path: Path) -> None:
    change = Change(separate_inputs, inputs={"key": ("batch_size", 32)})

    (found,) = change.findings(tmp_path)

    assert found.startswith("model.onnx: attn: key: ")
    assert found.endswith("got [batch_size, 32] (V12)")


@pytest.mark.rule("V67")
def test_a_bias_has_rows_that_are_known_elsewhere(tmp_path: Path) -> None:
    right = Change(inputs={"attention_bias": Input("bias", HALF, ("batch_size", 1, "q", "c"))})
    wrong = Change(inputs={"attention_bias": Input("bias", HALF, ("num_tokens", 1, "q", "c"))})

    assert right.findings(tmp_path) == []
    (found,) = wrong.findings(tmp_path)
    assert found.endswith("got [num_tokens, 1, q, c] (V67)")


def test_a_windowed_table_of_int32_is_judged_alike(tmp_path: Path) -> None:
    turned = Input("block_table_windowed", INT32, ("max_num_blocks", "batch_size"))

    (found,) = Change(inputs={"block_table": turned}).findings(tmp_path)

    assert found.endswith("(V34)")
