"""The command `pa-spec check`."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, _SubParsersAction
from typing import TextIO

from pa_spec.checker.capacity import parse_memory
from pa_spec.checker.check import check_model
from pa_spec.checker.report import CheckOptions, Verdict
from pa_spec.checker.report_document import report_json
from pa_spec.checker.report_text import report_text
from pa_spec.checker.text import printable, shortened
from pa_spec.errors import InputUnusable

MAX_LENGTH_TOKENS = 2**31 - 1
_INTERRUPTED = 130  # 128 + SIGINT, as shells count
_DESCRIPTION = (
    "PATH is an ONNX file; a folder with genai_config.json, with config.json or with one ONNX "
    "file; one of these files; or an engine configuration (.json, .toml). Weights are not read. "
    "Exit status: 0 conforms, 1 violations, 2 cannot be read."
)


def add_check(commands: _SubParsersAction[ArgumentParser]) -> None:
    """Add the command to the parser of pa-spec."""
    parser = commands.add_parser(
        "check", help="check a model or an engine configuration", description=_DESCRIPTION
    )
    parser.add_argument("path", metavar="PATH", help="what to check")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--strict", action="store_true", help="warnings are violations")
    memory = "say how many sequences fit in it, 24GiB for example; with --length"
    parser.add_argument("--memory", type=_memory, metavar="AMOUNT", help=memory)
    length = "tokens of each of these sequences"
    parser.add_argument("--length", type=_length, metavar="TOKENS", help=length)
    config = "a config.json, or a folder with one, that an export is compared with"
    parser.add_argument("--config", metavar="PATH", help=config)
    parser.add_argument("--debug", action="store_true", help="raise a fault of the checker itself")
    parser.set_defaults(run=run_check)


def run_check(chosen: Namespace) -> int:
    """Check, print the report and return the exit status."""
    options = CheckOptions(chosen.strict, chosen.memory, chosen.length, chosen.config)
    try:
        report = check_model(chosen.path, options)
        text = report_json(report) if chosen.format == "json" else report_text(report)
    except InputUnusable as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        _fail(f"{chosen.path}: interrupted")
        return _INTERRUPTED
    except MemoryError:
        return _fail(f"{chosen.path}: cannot be checked in the memory that there is")
    except Exception as error:
        if chosen.debug:
            raise
        cause = f"{type(error).__name__}: {error}"
        return _fail(
            f"{chosen.path}: checker fault, not checked: {cause}. Please report it with what you "
            "checked; --debug shows where it happened."
        )
    written = write(sys.stdout, f"{text}\n")
    return report.verdict.value if written else Verdict.UNREADABLE.value


def write(stream: TextIO, text: str) -> bool:
    """Write text whatever the stream's encoding; return whether it arrived or nobody reads."""
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except OSError as error:
        # What is still in the buffer must not fail again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not isinstance(error, BrokenPipeError):
            write(sys.stderr, f"pa-spec: the report cannot be written: {error.strerror}\n")
            return False
    return True


def _fail(message: str) -> int:
    write(sys.stderr, f"pa-spec: {shortened(printable(message), 1000)}\n")
    return Verdict.UNREADABLE.value


def _memory(text: str) -> int:
    try:
        return parse_memory(text)
    except InputUnusable as error:
        raise ArgumentTypeError(str(error)) from error


def _length(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise ArgumentTypeError(f"{text[:40]!r} is no number of tokens")
    if not 1 <= int(text) <= MAX_LENGTH_TOKENS:
        raise ArgumentTypeError(f"{text} is not from 1 to {MAX_LENGTH_TOKENS}")
    return int(text)
