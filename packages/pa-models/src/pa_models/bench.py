"""Time a decoder alone, without an engine: `python -m pa_models.bench`.

Prints one JSON object a line: what a plain read of memory reaches, decode steps, prefill, and the
share of each decode step that its weights' bytes would take at the plain read's speed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from pa_models.decoder import LlamaDecoder
from pa_models.load import SMALL_MODEL, load_decoder
from pa_models.testing import PagedRun

_READ_BYTES = 512 * 2**20  # well beyond any last-level cache


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every case that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m pa_models.bench", description=__doc__)
    parser.add_argument("--model", default=SMALL_MODEL)
    parser.add_argument("--dtype", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 16])
    parser.add_argument("--context", type=int, default=96, help="tokens before a decode step")
    parser.add_argument("--prefill", nargs="+", type=int, default=[64, 1024])
    parser.add_argument("--seconds", type=float, default=2.0, help="time to spend on each case")
    chosen = parser.parse_args(arguments)
    read = _read_bandwidth()
    _print(case="read", gigabytes_per_s=round(read / 1e9, 1), threads=torch.get_num_threads())
    for dtype in chosen.dtype:
        decoder = load_decoder(chosen.model, dtype)
        for rows in chosen.rows:
            seconds = _decode_step(decoder, rows, chosen.context, chosen.seconds)
            _print(
                case="decode",
                dtype=dtype,
                rows=rows,
                context=chosen.context,
                ms_per_step=round(seconds * 1e3, 3),
                tokens_per_s=round(rows / seconds, 1),
                read_share=round(decoder.step_bytes / read / seconds, 3),
                backends=dict(decoder.attention_backends),
            )
        for tokens in chosen.prefill:
            seconds = _prefill(decoder, tokens, chosen.seconds)
            speed = round(tokens / seconds, 1)
            _print(case="prefill", dtype=dtype, tokens=tokens, tokens_per_s=speed)
    return 0


def _decode_step(decoder: LlamaDecoder, rows: int, context: int, seconds: float) -> float:
    """Median seconds of a step in which every row gets one token."""
    run = PagedRun(decoder, rows, context + 1)
    run.step([_tokens(decoder, context)] * rows)
    step = [[7]] * rows

    def once() -> None:
        run.rewind(context)
        run.step(step)

    return _median(once, seconds)


def _prefill(decoder: LlamaDecoder, tokens: int, seconds: float) -> float:
    """Median seconds of a step over one prompt."""
    run = PagedRun(decoder, 1, tokens)
    prompt = [_tokens(decoder, tokens)]

    def once() -> None:
        run.rewind(0)
        run.step(prompt)

    return _median(once, seconds)


def _tokens(decoder: LlamaDecoder, count: int) -> list[int]:
    generator = torch.Generator().manual_seed(count)
    ids: list[int] = torch.randint(
        0, decoder.config.vocab_size, (count,), generator=generator
    ).tolist()
    return ids


def _read_bandwidth() -> float:
    """Bytes a second of summing a large array of float32, the best of a few."""
    numbers = torch.ones(_READ_BYTES // 4)
    numbers.sum()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        numbers.sum()
        times.append(time.perf_counter() - start)
    return _READ_BYTES / min(times)


def _median(action: Callable[[], None], seconds: float) -> float:
    action()
    times: list[float] = []
    while len(times) < 5 or sum(times) < seconds:
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def _print(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
