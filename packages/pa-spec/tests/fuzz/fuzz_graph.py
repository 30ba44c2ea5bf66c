"""Target: ONNX files, as bytes (first byte odd) and as models with changed fields (even)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fuzz_choices import Choices
from fuzz_report import checked
from onnx import ModelProto, helper
from paged_graphs import HALF, Node, decoder, latent_inputs, model_of, separate_inputs

NUMBERS = (0, 1, -1, 2, 3, 4, 6, 7, 8, 10, 16, 17, 64, 127, 2**31 - 1, 2**31, 2**62, 2**63 - 1)
FLOATS = (0.0, -0.0, 1.0, 1e-30, 1e30, float("nan"), float("inf"))
NAMES = (
    *("", "x", "query", "past", "num_blocks", "block_size", "batch_size", "batch_size + 1", "1"),
    *("past_key_values.0.key", "present.0.key", "PagedAttention", "If", "Loop", "Reshape", "Scan"),
    *("Constant", "Split", "Gather", "Concat", "ConstantOfShape", "Expand", "Range", "Unsqueeze"),
    *("Slice", "Tile", "Pad", "Conv", "Resize", "Einsum", "TopK", "com.microsoft", "ai.onnx"),
    *("LATENT", "int4", "PER_TOKEN", "PER_CHANNEL", "location", "../x", "model.onnx", "\x1b[2J"),
)
FOUND: tuple[bytes, ...] = ()
MAX_CHANGES = 8
_FOLDER = TemporaryDirectory()


def models() -> tuple[ModelProto, ...]:
    """Return models to start from: a decoder, single nodes, a branch, a function."""
    body = helper.make_graph([Node(outputs=("y",)).proto()], "body", [], [])
    branch = helper.make_node("If", ["c"], ["z"], then_branch=body, else_branch=body)
    inside = Node().model()
    inside.graph.node.append(branch)
    called = decoder(1)
    opsets = [helper.make_opsetid("com.microsoft", 1)]
    nodes = [Node(outputs=("y",)).proto()]
    called.functions.append(helper.make_function("local", "F", ["x"], ["y"], nodes, opsets))
    mixed = [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("Split", ["r"], ["a", "b"], num_outputs=2),
        helper.make_node("Concat", ["a", "b"], ["c"], axis=0),
        helper.make_node("MatMulNBits", ["c", "w", "s"], ["d"], domain="com.microsoft", N=8, K=4),
    ]
    shape = helper.make_tensor("shape", 7, [2], [-1, 4])
    fed = [helper.make_tensor_value_info("x", HALF, ["t", 8])]
    results = [helper.make_tensor_value_info("d", HALF, ["t", 8])]
    latent = Node(inputs=latent_inputs(), outputs=("attention", "present.0.key"))
    return (
        decoder(1),
        Node(inputs=separate_inputs()).model(),
        latent.model(),
        inside,
        called,
        model_of(helper.make_graph(mixed, "mixed", fed, results, [shape])),
    )


_MODELS = models()


def seeds() -> Iterator[bytes]:
    """Yield whole files and choices."""
    yield from (b"\x01" + model.SerializeToString() for model in _MODELS)
    yield b"\x01hello"
    for number in range(60):
        yield bytes([2 * (number % 6)]) + bytes((number * 7 + k * 13) % 256 for k in range(50))
    yield from FOUND


def one_input(data: bytes) -> None:
    """Check a file: whatever it holds there is a report."""
    path = Path(_FOLDER.name) / "model.onnx"
    if data[:1] and data[0] % 2:
        path.write_bytes(data[1:])
    else:
        path.write_bytes(changed_model(Choices(data)).SerializeToString())
    checked(path)


def changed_model(choices: Choices) -> ModelProto:
    """Return one of the models with a few fields set, repeated, moved or removed."""
    model = ModelProto()
    model.CopyFrom(_MODELS[choices.number(12) // 2])
    for _ in range(1 + choices.number(MAX_CHANGES)):
        _change(_chosen(model, choices), choices)
    return model


def _chosen(message: Any, choices: Choices) -> Any:
    """Walk from a message to one inside it."""
    while choices.number(8):
        inner = [
            part
            for field, value in message.ListFields()
            if field.type == field.TYPE_MESSAGE
            for part in (value if hasattr(value, "append") or hasattr(value, "add") else (value,))
        ]
        if not inner:
            break
        message = choices.one_of(inner)
    return message


def _change(message: Any, choices: Choices) -> None:
    field = choices.one_of(message.DESCRIPTOR.fields)
    value = getattr(message, field.name)
    is_list = hasattr(value, "extend")
    action = choices.number(4)
    if action == 0:
        message.ClearField(field.name)
    elif field.type == field.TYPE_MESSAGE:
        _change_messages(message, field, choices)
    elif is_list and action == 1 and value:
        del value[choices.number(len(value))]
    elif is_list and action == 2 and value:
        value[choices.number(len(value))] = _scalar(field, choices)
    elif is_list:
        value.append(_scalar(field, choices))
    else:
        setattr(message, field.name, _scalar(field, choices))


def _change_messages(message: Any, field: Any, choices: Choices) -> None:
    value = getattr(message, field.name)
    if not hasattr(value, "add"):
        value.SetInParent()
        return
    action = choices.number(3)
    if action == 0 or not value:
        value.add()
    elif action == 1:
        value.add().CopyFrom(value[choices.number(len(value) - 1 or 1)])
    else:
        del value[choices.number(len(value))]


def _scalar(field: Any, choices: Choices) -> Any:
    if field.type == field.TYPE_STRING:
        return choices.one_of(NAMES)
    if field.type == field.TYPE_BYTES:
        return choices.rest(choices.number(40))
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return choices.one_of(FLOATS)
    if field.type == field.TYPE_ENUM:
        return choices.one_of([each.number for each in field.enum_type.values])
    number = choices.one_of(NUMBERS)
    smallest = 0 if field.type == field.TYPE_UINT64 else -1
    largest = 2**31 - 1 if field.type == field.TYPE_INT32 else 2**63 - 1
    return max(min(number, largest), smallest)
