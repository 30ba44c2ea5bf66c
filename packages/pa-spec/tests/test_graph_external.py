"""Goal: data beside a model is found and measured, and never read.

Method: one tensor of a decoder moved out of the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper
from paged_graphs import check_model_proto, decoder

SIZE = 100 * 64 * 2


def checked(folder: Path, **entries: str) -> list[str]:
    """Check a decoder whose embedding is outside, without "model.onnx: embedding: "."""
    model = decoder()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    found = map(str, check_model_proto(model, folder))
    return [each.removeprefix("model.onnx: embedding: ") for each in found]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a data file that takes no room on the disk."""
    found = tmp_path / "model"
    (found / "data").mkdir(parents=True)
    with (found / "data" / "weights").open("wb") as file:
        file.truncate(2**36)
    return found


def test_data_of_any_size_is_measured_only(folder: Path) -> None:
    offset = str(2**36 - SIZE)

    assert checked(folder, location="data/weights") == []
    assert checked(folder, location="data/weights", offset=offset, length=str(SIZE)) == []
    assert checked(folder, location="./data/../data/weights", checksum="x") == []


def test_data_ends_inside_its_file(folder: Path) -> None:
    offset = 2**36 - SIZE + 1

    assert checked(folder, location="data/weights", offset=str(offset)) == [
        (
            f"embedding: expected data inside the file of {2**36} bytes, "
            f"got bytes {offset} to {2**36 + 1} (graph.external_range)"
        )
    ]


def test_data_is_as_long_as_the_tensor(folder: Path) -> None:
    assert checked(folder, location="data/weights", length=str(SIZE - 2)) == [
        (
            f"embedding: expected {SIZE} bytes, as shape and type need, got length {SIZE - 2} "
            "(graph.external_range)"
        )
    ]


@pytest.mark.parametrize("number", ["-1", "x", "", "1e3", "٣", "9" * 30])
def test_numbers_are_numbers(folder: Path, number: str) -> None:
    assert checked(folder, location="data/weights", offset=number) == [
        (
            "embedding: expected a number that is at least 0, "
            f"got offset {number!r} (graph.external_range)"
        )
    ]


@pytest.mark.parametrize(
    "location",
    ["", "/etc/passwd", "../weights", "data/../../weights", "C:\\weights", "\\\\host\\weights"],
)
def test_paths_stay_inside_the_folder(folder: Path, location: str) -> None:
    assert checked(folder, location=location) == [
        (
            f"embedding: expected a path below the model's folder, got {location!r} "
            "(graph.external_path)"
        )
    ]


def test_links_that_leave_the_folder_are_refused(folder: Path) -> None:
    (folder.parent / "elsewhere").write_bytes(bytes(SIZE))
    (folder / "link").symlink_to("../elsewhere")
    (folder / "inside").symlink_to("data/weights")

    assert checked(folder, location="inside") == []
    assert checked(folder, location="link") == [
        "embedding: expected a path below the model's folder, got 'link' (graph.external_path)"
    ]


def test_a_store_that_links_every_file_is_served(tmp_path: Path) -> None:
    # A cache of downloads keeps files under their digests and links a model's folder to them.
    blobs, folder = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    folder.mkdir()
    (blobs / "1").write_bytes(bytes(SIZE))
    (blobs / "2").touch()
    (folder / "weights").symlink_to("../blobs/1")
    (folder / "model.onnx").symlink_to("../blobs/2")

    assert checked(folder, location="weights") == []


def test_a_missing_file_is_said_once(folder: Path) -> None:
    model = decoder()
    for tensor in model.graph.initializer:
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="absent")

    (found,) = check_model_proto(model, folder)

    assert str(found) == (
        "model.onnx: embedding: absent: expected a file beside the model, got no such file "
        "(graph.external_missing)"
    )
    assert [each.split("got ")[1] for each in checked(folder, location="data")] == [
        "no such file (graph.external_missing)"
    ]


def test_tensors_of_bodies_and_attributes_are_looked_at(folder: Path) -> None:
    tensor = TensorProto(name="t", data_type=TensorProto.FLOAT, dims=[2])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../t")
    constant = helper.make_node("Constant", [], ["c"], name="constant", value=tensor)
    body = helper.make_graph([constant], "body", [], [helper.make_empty_tensor_value_info("c")])
    model = decoder()
    model.graph.input.append(helper.make_tensor_value_info("x", TensorProto.BOOL, []))
    model.graph.node.append(
        helper.make_node("If", ["x"], ["y"], name="if", then_branch=body, else_branch=body)
    )

    found = [each for each in check_model_proto(model, folder) if each.id != "graph.control_flow"]

    assert [str(each.place) for each in found] == [
        "model.onnx: if.else_branch > constant",
        "model.onnx: if.then_branch > constant",
    ]
    assert {each.id for each in found} == {"graph.external_path"}


def test_dimensions_are_lengths(folder: Path) -> None:
    many = f"[{'1, ' * 40}…]"
    for dims, text in (
        ((-1, 64), "[-1, 64]"),
        ((2**62, 64), f"[{2**62}, 64]"),
        ((1,) * 100_000, many),
    ):
        model = decoder()
        model.graph.initializer[0].dims[:] = dims

        (found,) = check_model_proto(model, folder)

        assert str(found) == (
            "model.onnx: embedding: embedding: expected at most 64 dimensions that are at least 0, "
            f"with fewer than 2^63 elements, got {text} (graph.tensor_size)"
        )


def test_data_inside_the_file_is_as_long_as_the_tensor(folder: Path) -> None:
    model = decoder()
    model.graph.initializer[0].raw_data += b"x"

    (found,) = check_model_proto(model, folder)

    assert str(found) == (
        f"model.onnx: embedding: embedding: expected {SIZE} bytes, as shape and type need, "
        f"got {SIZE + 1} bytes (graph.tensor_size)"
    )


STORED = "model.onnx: stored: stored: expected"


def short(count: int, field: str, actual: str) -> str:
    """Return what is said of a list that has not as many elements as the shape."""
    needed = f"{count} elements of {field}, as shape and type need"
    return f"{STORED} {needed}, got {actual} (graph.tensor_size)"


def stored(folder: Path, tensor: TensorProto) -> list[str]:
    """Check a decoder with one more tensor."""
    model = decoder(1)
    model.graph.initializer.append(tensor)
    return list(map(str, check_model_proto(model, folder)))


@pytest.mark.parametrize(
    ("kind", "field", "count"),
    [
        (TensorProto.FLOAT, "float_data", 4),
        (TensorProto.COMPLEX64, "float_data", 8),
        (TensorProto.INT64, "int64_data", 4),
        (TensorProto.INT8, "int32_data", 4),
        (TensorProto.FLOAT16, "int32_data", 4),
        (TensorProto.BOOL, "int32_data", 4),
        (TensorProto.INT4, "int32_data", 2),
        (TensorProto.DOUBLE, "double_data", 4),
        (TensorProto.UINT32, "uint64_data", 4),
        (TensorProto.STRING, "string_data", 4),
    ],
)
def test_numbers_of_a_list_are_as_many_as_the_shape_says(
    folder: Path, kind: int, field: str, count: int
) -> None:
    value: Any = b"1" if kind == TensorProto.STRING else 1
    for given in (count - 1, count, count + 1):
        tensor = TensorProto(name="stored", data_type=kind, dims=[2, 2])
        getattr(tensor, field).extend([value] * given)

        assert stored(folder, tensor) == (
            [short(count, field, f"{given} there")] if given != count else []
        )


def test_a_tensor_without_data_has_no_elements(folder: Path) -> None:
    tensor = TensorProto(name="stored", data_type=TensorProto.FLOAT, dims=[0, 2])

    assert stored(folder, tensor) == []
    tensor.dims[0] = 1
    assert stored(folder, tensor) == [short(2, "float_data", "0 there")]


def test_numbers_are_in_the_list_of_their_type(folder: Path) -> None:
    tensor = TensorProto(name="stored", data_type=TensorProto.INT64, dims=[1], float_data=[1.0])

    assert stored(folder, tensor) == [short(1, "int64_data", "float_data")]


def test_data_is_stored_once(folder: Path) -> None:
    twice = helper.make_tensor("stored", TensorProto.FLOAT, [1], [1.0])
    twice.raw_data = bytes(4)
    beside = TensorProto(name="stored", data_type=TensorProto.FLOAT, dims=[1], raw_data=bytes(4))
    beside.data_location = TensorProto.EXTERNAL
    beside.external_data.add(key="location", value="data/weights")

    for tensor, actual in (
        (twice, "raw_data and float_data"),
        (beside, "raw_data and external data"),
    ):
        assert stored(folder, tensor) == [
            f"{STORED} data in one place, got {actual} (graph.tensor_size)"
        ]
