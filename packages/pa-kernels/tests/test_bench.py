"""The benchmark compares like with like and prints what it promises."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from pa_kernels import bench, prepare, signature_of
from pa_kernels.testing import expect_close
from pa_spec import PagedAttentionAttributes

TINY = (
    bench.Case("decode", rows=3, past=37, new=1, num_heads=4, kv_num_heads=2, head_size=16),
    bench.Case("prefill", rows=2, past=0, new=19, num_heads=4, kv_num_heads=2, head_size=16),
    bench.Case("chunk", rows=2, past=21, new=5, num_heads=4, kv_num_heads=2, head_size=16),
)


@pytest.fixture(autouse=True)
def small_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "last_level_cache_bytes", lambda: 1 << 16)
    monkeypatch.setattr(bench, "CASES", TINY)


@pytest.mark.parametrize("case", TINY, ids=lambda case: case.name)
def test_both_sides_compute_the_same(case: bench.Case) -> None:
    inputs = bench.make_inputs(case, torch.float32)[0]
    attributes = PagedAttentionAttributes(case.num_heads, case.kv_num_heads)

    ours = prepare(signature_of(inputs, attributes)).run(inputs).output
    theirs = bench.gather_and_attend(inputs, case).transpose(1, 2).reshape(ours.shape)

    expect_close(ours, theirs)


def test_the_caches_together_exceed_the_last_level_cache() -> None:
    inputs = bench.make_inputs(replace(TINY[0], rows=1), torch.float32)
    addresses = {each.key_cache.data_ptr() for each in inputs}
    total = sum(2 * each.key_cache.nbytes for each in inputs)

    assert len(addresses) == len(inputs)
    assert total >= 4 << 16


def test_every_line_is_one_object_with_the_three_times(capsys: pytest.CaptureFixture[str]) -> None:
    bench.main(["--repeats", "1", "--rounds", "1", "--case", "decode", "--dtype", "float32"])

    (line,) = capsys.readouterr().out.splitlines()

    found = json.loads(line)
    assert found["case"] == "decode"
    assert found["dtype"] == "float32"
    assert found["backend"] == "cpu"
    assert min(found[name] for name in ("us", "gather_sdpa_us", "read_gb_per_s")) > 0


def test_the_machine_has_a_last_level_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert bench.last_level_cache_bytes() >= 1 << 18
