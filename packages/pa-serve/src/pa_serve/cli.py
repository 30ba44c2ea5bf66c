"""The `pa` command and its subcommands."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from pa_serve._version import __version__
from pa_serve.argument import OneLineParser
from pa_serve.command import Subcommand, run_command
from pa_serve.exit_status import ExitStatus, complain

_EPILOG = (
    "Exit status: 0 done, 1 the engine failed, 2 an option, a file or a prompt is unusable, "
    "130 interrupted."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line, that of the process by default, and return its exit status."""
    try:
        parsed, unknown = build_parser().parse_known_args(arguments)
    except SystemExit as error:  # --help, --version and bad arguments: everything is said
        return int(error.code or 0)
    if unknown:
        program = parsed.program
        complain(program, f"{unknown[0]}: unknown; allowed: the options of {program} --help")
        return ExitStatus.INPUT_UNUSABLE
    return run_command(parsed.program, parsed.run, parsed)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    # Not at the top: `python -m pa_serve.demo` runs that module, so importing pa_serve must not.
    from pa_serve import demo, generate
    from pa_serve.bench import host, throughput

    parser = OneLineParser(
        prog="pa", description="Generate text and measure.", epilog=_EPILOG, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"pa {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add(commands, "generate", generate, "answer prompts from options or a file of JSON lines")
    _add(commands, "demo", demo, "answer eight built-in prompts and show step statistics")
    bench = commands.add_parser("bench", help="measure", allow_abbrev=False)
    measured = bench.add_subparsers(required=True, metavar="WHAT")
    _add(measured, "host", host, "host time of a step, without a model")
    _add(measured, "throughput", throughput, "tokens a second with a model")
    return parser


def _add(
    commands: argparse._SubParsersAction[OneLineParser],
    name: str,
    module: Subcommand,
    help_text: str,
) -> None:
    parser = commands.add_parser(
        name,
        help=help_text,
        description=module.DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_options(parser)
    parser.set_defaults(run=module.run, program=parser.prog)
