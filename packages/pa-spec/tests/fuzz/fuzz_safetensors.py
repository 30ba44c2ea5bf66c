"""Target: one safetensors file beside a configuration that resolves, cut and changed anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fuzz_choices import Choices, changed
from fuzz_report import checked
from llama_config import LLAMA
from pa_spec.checker import Findings
from pa_spec.checker.huggingface.weights.safetensors_header import LENGTH_BYTES, read_header

NAMES = (
    "model.embed_tokens.weight",
    "model.norm.weight",
    "lm_head.weight",
    "model.layers.0.self_attn.q_proj.weight",
    "model.layers.99.self_attn.q_proj.weight",
    "language_model.model.layers.0.input_layernorm.weight",
    "__metadata__",
)
KEYS = (*NAMES, "dtype", "shape", "data_offsets", "x")
FOUND: tuple[bytes, ...] = ()
_FOLDER = TemporaryDirectory()


def header() -> dict[str, Any]:
    """Return a header of three tensors."""
    return {
        NAMES[0]: {"dtype": "BF16", "shape": [100, 64], "data_offsets": [0, 12800]},
        NAMES[1]: {"dtype": "F32", "shape": [64], "data_offsets": [12800, 13056]},
        NAMES[3]: {"dtype": "F4", "shape": [64, 64], "data_offsets": [13056, 15104]},
        "__metadata__": {"format": "pt"},
    }


def seeds() -> Iterator[bytes]:
    """Yield whole files (first byte odd) and choices that change a right one (even)."""
    for text in (json.dumps(header()).encode(), b"{}", b'{"a":{}}', b"[" * 200):
        yield b"\x01" + len(text).to_bytes(LENGTH_BYTES, "little") + text
    yield b"\x01" + (2**60).to_bytes(LENGTH_BYTES, "little") + b"{}"
    yield b"\x01version https://git-lfs.github.com/spec/v1"
    yield from (bytes([2 * number]) + bytes(range(number, number + 60)) for number in range(40))
    yield from FOUND


def one_input(data: bytes) -> None:
    """Check the file alone and in its folder: what is read covers all of the data."""
    folder = Path(_FOLDER.name)
    path = folder / "model.safetensors"
    (folder / "config.json").write_text(json.dumps(LLAMA))
    if data[:1] and data[0] % 2:
        path.write_bytes(data[1:])
    else:
        choices = Choices(data[1:])
        text = json.dumps(changed(header(), choices, KEYS)).encode()
        path.write_bytes(len(text).to_bytes(LENGTH_BYTES, "little") + text + bytes(15104))
    findings = Findings()
    found = read_header(path, findings, path.name)
    assert (found is None) <= bool(list(findings))
    if found is not None and not list(findings):
        begin = LENGTH_BYTES + int.from_bytes(path.read_bytes()[:LENGTH_BYTES], "little")
        stored = sum(each.num_bytes for each in found.tensors.values())
        assert stored == path.stat().st_size - begin
    checked(folder)
