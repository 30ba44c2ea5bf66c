"""The benchmark prints one JSON object a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pa_models import bench
from pa_models.testing import tiny_config, write_checkpoint


def test_every_case_is_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "_READ_BYTES", 2**20)
    write_checkpoint(tmp_path, tiny_config("llama"))
    arguments = ["--model", str(tmp_path), "--seconds", "0", "--prefill", "20"]

    assert bench.main([*arguments, "--rows", "1", "3", "--dtype", "float32"]) == 0

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["case"] for line in lines] == ["read", "decode", "decode", "prefill"]
    assert [line.get("rows") for line in lines] == [None, 1, 3, None]
    assert all(line["tokens_per_s"] > 0 for line in lines[1:])
    assert lines[1]["backends"].keys() == {"cpu"}
