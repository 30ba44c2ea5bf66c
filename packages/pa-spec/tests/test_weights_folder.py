"""Weights of a folder: its files, its index, and the tensors that its model needs.

Each mistake is planted in a folder that conforms, and reports exactly the ids written beside it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pa_spec.checker import CheckOptions, Report
from pa_spec.checker.check import check_model
from safetensors_writer import (
    header_of,
    llama_shapes,
    write_folder,
    write_header,
    write_index,
    write_shards,
)

INDEX = "model.safetensors.index.json"
ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
Shapes = dict[str, tuple[int, ...]]


def ids(report: Report) -> list[str]:
    return [each.id for each in report.findings]


def halves() -> dict[str, Shapes]:
    names = list(llama_shapes().items())
    return {ONE: dict(names[:10]), TWO: dict(names[10:])}


def test_shards_that_are_right_conform(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    write_shards(folder, halves(), total_size=54208)

    report = check_model(folder)

    assert ids(report) == []
    assert report.meaning is not None
    assert report.meaning.weight_bytes == 54208


def no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def only_bin(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def shards_without_index(folder: Path) -> None:
    write_shards(folder, halves())
    (folder / INDEX).unlink()


def gguf_beside(folder: Path) -> None:
    (folder / "model-q4.gguf").touch()


def index_beside(folder: Path) -> None:
    write_index(folder, dict.fromkeys(llama_shapes(), "model.safetensors"))


def shard_missing(folder: Path) -> None:
    write_shards(folder, halves())
    (folder / TWO).unlink()


def shard_is_folder(folder: Path) -> None:
    shard_missing(folder)
    (folder / TWO).mkdir()


def shard_is_loop(folder: Path) -> None:
    shard_missing(folder)
    (folder / TWO).symlink_to(TWO)


def shard_cut_off(folder: Path) -> None:
    write_shards(folder, halves())
    os.truncate(folder / TWO, (folder / TWO).stat().st_size - 1)


def leaves_the_folder(folder: Path) -> None:
    weight_map = write_shards(folder, halves())
    write_index(folder, {n: f"../m/{f}" if f == TWO else f for n, f in weight_map.items()})


def absolute(folder: Path) -> None:
    weight_map = write_shards(folder, halves())
    write_index(folder, {n: str(folder / f) if f == TWO else f for n, f in weight_map.items()})


def file_is_number(folder: Path) -> None:
    write_index(folder, write_shards(folder, halves()) | {"model.norm.weight": 3})


def not_in_shard(folder: Path) -> None:
    shards = halves()
    moved = "model.norm.weight"
    weight_map = write_shards(folder, shards)
    write_header(folder / TWO, header_of({n: s for n, s in shards[TWO].items() if n != moved}))
    write_index(folder, weight_map)


def not_in_index(folder: Path) -> None:
    weight_map = write_shards(folder, halves())
    del weight_map["model.norm.weight"]
    write_index(folder, weight_map)


def in_both_shards(folder: Path) -> None:
    shards = halves()
    name = "model.norm.weight"
    write_shards(folder, {ONE: shards[ONE] | {name: (32,)}, TWO: shards[TWO]})


def wrong_total(folder: Path) -> None:
    write_shards(folder, halves(), total_size=7)


def map_is_list(folder: Path) -> None:
    write_shards(folder, halves())
    (folder / INDEX).write_text('{"weight_map": ["a"]}')


def map_is_missing(folder: Path) -> None:
    write_shards(folder, halves())
    (folder / INDEX).write_text("{}")


def index_is_text(folder: Path) -> None:
    write_shards(folder, halves())
    (folder / INDEX).write_text("weights")


PLANTED: Mapping[Callable[[Path], None], tuple[int, list[str]]] = {
    no_weights: (0, ["weights.absent"]),
    only_bin: (1, ["weights.other_format"]),
    shards_without_index: (1, ["weights.index_missing"]),
    gguf_beside: (0, ["weights.gguf_beside"]),
    index_beside: (0, ["weights.two_checkpoints"]),
    shard_missing: (1, ["weights.shard_missing"]),
    shard_is_folder: (2, ["file.unreadable"]),
    shard_is_loop: (2, ["file.unreadable"]),
    shard_cut_off: (1, ["weights.data_length"]),
    leaves_the_folder: (1, ["weights.shard_outside"]),
    absolute: (1, ["weights.shard_outside"]),
    file_is_number: (2, ["weights.index_malformed"]),
    not_in_shard: (1, ["weights.not_in_shard"]),
    not_in_index: (1, ["weights.not_in_index"]),
    in_both_shards: (0, ["weights.in_two_shards"]),
    wrong_total: (0, ["weights.total_size"]),
    map_is_list: (2, ["weights.index_malformed"]),
    map_is_missing: (2, ["weights.index_malformed"]),
    index_is_text: (2, ["file.not_json"]),
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_planted_mistake_is_the_only_finding(plant: Callable[[Path], None], tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    plant(folder)

    report = check_model(folder)

    assert (report.verdict.value, ids(report)) == PLANTED[plant]


def test_unknown_weights_are_not_counted(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    shard_missing(folder)

    report = check_model(folder, CheckOptions(memory_bytes=2**30, length_tokens=32))

    assert report.meaning is not None
    assert report.meaning.weight_bytes is None


def test_name_of_a_shard_with_a_zero_byte_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    write_index(folder, {"a": "x\0y"})

    assert ids(check_model(folder)) == ["weights.shard_outside"]
