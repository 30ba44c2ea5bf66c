"""Target: an engine configuration, as JSON, as TOML, and as changes to a legal one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fuzz_choices import Choices, changed
from fuzz_report import checked
from pa_spec import EngineConfig, settings

LEGAL: dict[str, Any] = {
    "num_blocks": 4,
    "engine": {
        "dynamic_batching": {"block_size": 16, "max_batch_size": 4, "gpu_utilization_factor": 0.5}
    },
    "search": {"max_length": 100, "chunk_size": 16, "top_p": 1.0, "do_sample": True},
}
KEYS = sorted(
    {*(part for key in settings() for part in key.split(".")), "x"}
    | {each.name for each in fields(EngineConfig)}
)
TOML = b"num_blocks = 4\n[engine.dynamic_batching]\nblock_size = 16\n[search]\ntop_p = 1.0\n"
FOUND: tuple[bytes, ...] = ()
_FOLDER = TemporaryDirectory()


def seeds() -> Iterator[bytes]:
    """Yield one input of each kind: its first byte says which."""
    yield b"\0" + json.dumps(LEGAL).encode()
    yield b"\1" + TOML
    yield b"\2" + bytes(range(40))
    yield from FOUND


def one_input(data: bytes) -> None:
    """Check a file with these bytes, or with changes that they choose."""
    kind = data[0] % 3 if data else 0
    content = data[1:]
    if kind == 2:
        content = json.dumps(changed(LEGAL, Choices(content), KEYS)).encode()
    path = Path(_FOLDER.name, "engine.toml" if kind == 1 else "engine.json")
    path.write_bytes(content)
    checked(path)
