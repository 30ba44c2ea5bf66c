"""`pa demo`: eight prompts of different lengths, answered together, and what the steps cost."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pa_spec import EngineConfig

from pa_serve.argument import OneLineParser
from pa_serve.command import run_command
from pa_serve.demo_prompts import DEMO_PROMPTS
from pa_serve.exit_status import ExitStatus, complain
from pa_serve.prompt_line import read_option
from pa_serve.serving_options import add_serving_options, read_serving_options

if TYPE_CHECKING:
    from pa_serve.report import RunReport

PROGRAM = "pa demo"

DESCRIPTION = """\
Answer eight built-in prompts of 5 to 300 tokens together, by continuous batching, and print each
answer and one table of step statistics."""

LEAST_MEAN_ROWS = 4.0
"""Rows that a step of the eight prompts has on average at least, or they were not batched."""

_MAX_NEW_TOKENS = 48
_ORACLE = "reference"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "--model", default="smollm2", metavar="PATH|smollm2", help="(default: %(default)s)"
    )
    parser.add_argument(
        "--prompt", action="append", metavar="TEXT", help="answer this instead; repeatable"
    )
    add_serving_options(parser)
    parser.set_defaults(max_new_tokens=_MAX_NEW_TOKENS)


def run(arguments: argparse.Namespace) -> ExitStatus:
    """Answer, print, and check what the demo is there to show."""
    serving = read_serving_options(arguments)
    texts = arguments.prompt or DEMO_PROMPTS
    lines = [read_option(index, text) for index, text in enumerate(texts)]

    from pa_serve.progress import AnswerProgress
    from pa_serve.result_sink import TextSink
    from pa_serve.served_model import ServedModel
    from pa_serve.serving_run import ServingRun

    model = ServedModel.load(arguments.model, serving.element_type)
    serving_run = ServingRun(model.engine(serving.config), model.codec(chat=False), serving)
    progress = AnswerProgress(len(lines), says_end=True)
    outcome = serving_run.serve(lines, TextSink(shows_prompts=True), progress)
    report = serving_run.report(model.attention_backends)
    report.print_table()
    problem = outcome.failure or outcome.first_error
    if outcome.is_complete and not problem:
        holds_all = serving.config.max_batch_size >= EngineConfig().max_batch_size
        problem = _broken_promise(report, batched=not arguments.prompt and holds_all)
        if problem:
            complain(PROGRAM, problem)
            return ExitStatus.ENGINE_FAILED
    elif problem:
        complain(PROGRAM, problem)
    return outcome.status


def _broken_promise(report: RunReport, *, batched: bool) -> str:
    """Return what the run should have shown and did not, empty when all is well."""
    mean_rows = report.statistics.mean_rows
    if batched and mean_rows < LEAST_MEAN_ROWS:
        return f"mean rows a step: {mean_rows:.2f}; expected: at least {LEAST_MEAN_ROWS:g}"
    if _ORACLE in report.attention_backends:
        return f"attention backend: the oracle {_ORACLE!r} ran; expected: a compiled backend"
    return ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo by itself: `python -m pa_serve.demo`."""
    parser = OneLineParser(prog=PROGRAM, description=DESCRIPTION, allow_abbrev=False)
    add_options(parser)
    try:
        parsed = parser.parse_args(arguments)
    except SystemExit as error:
        return int(error.code or 0)
    return run_command(PROGRAM, run, parsed)


if __name__ == "__main__":
    sys.exit(main())
