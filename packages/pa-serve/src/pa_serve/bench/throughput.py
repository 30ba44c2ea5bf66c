"""`pa bench throughput`: tokens a second with a real model, beside a peer when asked."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pa_serve.argument import integer, integer_list, word_list
from pa_serve.exit_status import ExitStatus
from pa_serve.serving_options import ELEMENT_TYPES

if TYPE_CHECKING:
    from pa_spec import ElementType

    from pa_serve.bench.load import Side, Timing

DESCRIPTION = """\
Generate exactly --output-tokens for each of N prompts of random tokens and print tokens a second.
The prompts run together; nothing ends early. The figure is the best of --rounds after a warm-up.
With --peer transformers its static batch does the same work in the same process, in turns with
this engine; for each N one more line sets the faster element type of each side in relation."""

_PEERS = ("transformers",)
_WARM_UP_TOKENS = 4


@dataclass(frozen=True, slots=True)
class ThroughputFigure:
    """The best round of one side on one load."""

    engine: str
    n: int
    prompt_tokens: int
    output_tokens: int
    dtype: str
    output_tokens_per_s: float
    seconds: float
    time_to_first_token_s: float | None
    time_per_token_s: float | None
    host_share: float | None
    threads: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Each side in its faster element type, on one load; ratio above 1 means this engine is."""

    engine: str
    n: int
    prompt_tokens: int
    output_tokens: int
    dtype: str
    output_tokens_per_s: float
    seconds: float
    peer: str
    peer_dtype: str
    peer_output_tokens_per_s: float
    ratio: float


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--model", default="smollm2", metavar="PATH|smollm2")
    for name, default, help_text in (
        ("--n", (1, 16), "prompts at once (default: 1,16)"),
        ("--prompt-tokens", (64,), "tokens of a prompt (default: 64)"),
        ("--output-tokens", (64,), "tokens of an answer (default: 64)"),
    ):
        parser.add_argument(
            name, type=integer_list(1, 1 << 20), default=default, metavar="N,...", help=help_text
        )
    dtypes = tuple(ELEMENT_TYPES)
    parser.add_argument(
        "--dtype",
        type=word_list(dtypes),
        default=dtypes,
        metavar="NAME,...",
        help=f"(default: {','.join(dtypes)})",
    )
    parser.add_argument("--rounds", type=integer(1, 1000), default=3, metavar="N")
    parser.add_argument("--peer", choices=_PEERS, help="what to compare with")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")


def run(arguments: argparse.Namespace) -> ExitStatus:
    """Measure and print."""
    if arguments.peer is not None:
        from pa_serve.bench.transformers_side import import_transformers

        import_transformers()  # before the model is loaded: it may be missing
    figures: list[ThroughputFigure] = []
    for dtype in arguments.dtype:
        sides = _sides(arguments, ELEMENT_TYPES[dtype])
        for figure in measure(arguments, dtype, sides):
            figures.append(figure)
            _print(figure, as_json=arguments.json)
    if arguments.peer is not None:
        for comparison in _compare(figures):
            _print(comparison, as_json=arguments.json)
    return ExitStatus.SERVED


def _sides(arguments: argparse.Namespace, element_type: ElementType) -> list[Side]:
    from pa_serve.bench.engine_side import EngineSide
    from pa_serve.served_model import ServedModel

    model = ServedModel.load(arguments.model, element_type)
    sides: list[Side] = [EngineSide(model)]
    if arguments.peer is not None:
        from pa_serve.bench.transformers_side import TransformersSide

        sides.append(TransformersSide(model.path, model.loaded.decoder.dtype))
    return sides


def measure(
    arguments: argparse.Namespace, dtype: str, sides: Sequence[Side]
) -> Iterator[ThroughputFigure]:
    """Run every load of the arguments on every side, in turns, and yield the best of each."""
    import torch

    from pa_serve.bench.load import Load

    shapes = (
        (n, prompt_tokens, output_tokens)
        for n in arguments.n
        for prompt_tokens in arguments.prompt_tokens
        for output_tokens in arguments.output_tokens
    )
    for n, prompt_tokens, output_tokens in shapes:
        best: dict[str, Timing] = {}
        for side in sides:
            side.run(Load(n, prompt_tokens, min(_WARM_UP_TOKENS, output_tokens)))
        for _ in range(arguments.rounds):
            for side in sides:
                timing = side.run(Load(n, prompt_tokens, output_tokens))
                held = best.setdefault(side.name, timing)
                best[side.name] = min(held, timing, key=lambda each: each.seconds)
        for name, timing in best.items():
            yield ThroughputFigure(
                engine=name,
                n=n,
                prompt_tokens=prompt_tokens,
                output_tokens=output_tokens,
                dtype=dtype,
                output_tokens_per_s=n * output_tokens / timing.seconds,
                seconds=timing.seconds,
                time_to_first_token_s=timing.first_token_s,
                time_per_token_s=timing.per_token_s,
                host_share=timing.host_share,
                threads=torch.get_num_threads(),
                rounds=arguments.rounds,
            )


def _compare(figures: Sequence[ThroughputFigure]) -> Iterator[Comparison]:
    """Yield, for each load, the faster element type of each side and their ratio."""
    best: dict[tuple[int, int, int], dict[str, ThroughputFigure]] = {}
    for figure in figures:
        load = (figure.n, figure.prompt_tokens, figure.output_tokens)
        sides = best.setdefault(load, {})
        held = sides.setdefault(figure.engine, figure)
        sides[figure.engine] = max(held, figure, key=lambda each: each.output_tokens_per_s)
    for sides in best.values():
        ours, peer = sides.values()
        yield Comparison(
            engine=f"{ours.engine} : {peer.engine}",
            n=ours.n,
            prompt_tokens=ours.prompt_tokens,
            output_tokens=ours.output_tokens,
            dtype=ours.dtype,
            output_tokens_per_s=ours.output_tokens_per_s,
            seconds=ours.seconds,
            peer=peer.engine,
            peer_dtype=peer.dtype,
            peer_output_tokens_per_s=peer.output_tokens_per_s,
            ratio=ours.output_tokens_per_s / peer.output_tokens_per_s,
        )


def _print(record: ThroughputFigure | Comparison, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(record)), flush=True)
        return
    load = f"n={record.n} {record.prompt_tokens}+{record.output_tokens}"
    if isinstance(record, Comparison):
        print(
            f"{load}: {record.ratio:.2f} times {record.peer} "
            f"({record.output_tokens_per_s:.1f} {record.dtype}, "
            f"{record.peer_output_tokens_per_s:.1f} {record.peer_dtype})",
            flush=True,
        )
        return
    line = f"{load} {record.engine} {record.dtype}: {record.output_tokens_per_s:.1f} tokens/s"
    if record.time_to_first_token_s is not None and record.time_per_token_s is not None:
        line += f", first token {record.time_to_first_token_s * 1e3:.0f} ms"
        line += f", then {record.time_per_token_s * 1e3:.1f} ms a token"
    if record.host_share is not None:
        line += f", host {record.host_share:.1%}"
    print(line, flush=True)
