"""Goal: a check costs what reading the graph costs, whatever the graph is.

Method: processor time and memory of a process of its own for an export's size; processor time for
graphs of a hundred thousand nodes, well-formed and hostile.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest
from onnx import ModelProto, helper
from paged_graphs import (
    HALF,
    INT32,
    Input,
    Node,
    check_model_proto,
    decoder,
    model_of,
    packed_inputs,
)

NODES = 100_000
SECONDS = 20

# The memory of a process includes the interpreter's, numpy's and the onnx library's. Its peak is
# read from VmHWM, because ru_maxrss begins with that of the process which started it.
PROGRAM = """
import sys, time
from pathlib import Path
from pa_spec.checker import check_model
report = check_model(sys.argv[1])
status = Path("/proc/self/status").read_text().split()
print(report.verdict.value, time.process_time(), 1024 * int(status[status.index("VmHWM:") + 1]))
"""


def test_a_model_of_thirty_layers_takes_two_seconds_and_300_mb(tmp_path: Path) -> None:
    model = decoder(30)
    for tensor in model.graph.initializer:
        tensor.ClearField("raw_data")
        tensor.data_location = tensor.EXTERNAL
        tensor.external_data.add(key="location", value="model.onnx.data")
    # As large as a model of 20 GB, and takes no room on the disk.
    with (tmp_path / "model.onnx.data").open("wb") as file:
        file.truncate(20 * 2**30)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())

    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, check=True
    )

    verdict, seconds, memory = map(float, result.stdout.split())
    assert verdict == 0
    assert seconds < 2
    assert memory < 300e6


def chain() -> ModelProto:
    """Return a decoder of 40 layers with a long tail behind it."""
    model = decoder(40)
    tail = NODES - len(model.graph.node)
    nodes = [
        helper.make_node("Add", [f"t{i - 1}" if i else "logits", "logits"], [f"t{i}"])
        for i in range(tail)
    ]
    model.graph.node.extend(nodes)
    return model


def unlike() -> ModelProto:
    """Return attention nodes that are all wrong, each in its own way."""
    model = Node(outputs=("a",)).model()
    first = model.graph.node[0]
    for index in range(1, NODES // 10):
        node = model.graph.node.add()
        node.CopyFrom(first)
        node.name, node.output[0] = f"n{index}", f"a{index}"
        next(each for each in node.attribute if each.name == "num_heads").i = 5 + index
    return model


def undefined() -> ModelProto:
    """Return one node with very many inputs that nothing defines."""
    node = helper.make_node("Sum", [f"u{i}" for i in range(NODES)], ["sum"])
    results = [helper.make_tensor_value_info("sum", HALF, None)]
    return model_of(helper.make_graph([node], "wide", [], results))


def branches() -> ModelProto:
    """Return very many bodies."""
    body = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "body", [], [])
    nodes = [
        helper.make_node("If", ["c"], [f"z{i}"], then_branch=body, else_branch=body)
        for i in range(NODES // 3)
    ]
    fed = [helper.make_tensor_value_info("x", HALF, []), helper.make_tensor_value_info("c", 9, [])]
    return model_of(helper.make_graph(nodes, "branches", fed, []))


def test_long_names_and_shapes_take_no_time(tmp_path: Path) -> None:
    inputs = packed_inputs()
    lengths = (" " * 20_000, "+ " * 10_000, *(2**62,) * 20_000)
    inputs["query"] = Input("query", HALF, lengths)
    inputs["block_table"] = Input("block_table", INT32, (" + 1" * 5000, "a" * 100_000))
    started = process_time()

    found = check_model_proto(Node(inputs=inputs).model(), tmp_path)

    assert process_time() - started < 2
    assert {each.id for each in found} == {"V9"}
    assert all(len(str(each)) < 20_000 for each in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "ids"),
    [
        (chain, set()),
        (unlike, {"V2", "V10", "V15", "V30", "graph.unchecked"}),
        (undefined, {"graph.undefined_name", "graph.no_attention"}),
        (branches, {"graph.no_attention"}),
    ],
)
def test_a_hundred_thousand_nodes_take_less_than_twenty_seconds(
    make: Callable[[], ModelProto], ids: set[str], tmp_path: Path
) -> None:
    model = make()
    started = process_time()

    found = check_model_proto(model, tmp_path)

    assert process_time() - started < SECONDS
    assert {each.id for each in found} == ids
