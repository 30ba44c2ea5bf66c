"""Runs a parsed command and turns every expected failure into one line and a status."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import Protocol

from pa_spec import EngineFailed, PagedAttentionError

from pa_serve.exit_status import ExitStatus, complain

_BROKEN_PIPE = 141
"""What a shell reports for a command whose reader went away (128 + SIGPIPE)."""


class Subcommand(Protocol):
    """A module that is one subcommand of `pa`."""

    DESCRIPTION: str

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's options to its parser."""

    def run(self, arguments: argparse.Namespace) -> ExitStatus:
        """Do what the parsed arguments ask for."""


def _prefer_passive_threads() -> None:
    """Let idle threads sleep, unless the environment says otherwise; before torch is loaded.

    Spinning threads gain little on idle cores and slow everything down on shared ones.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")


def run_command(
    program: str, run: Callable[[argparse.Namespace], ExitStatus], arguments: argparse.Namespace
) -> int:
    """Run a command; failures that are its user's to mend become one line, bugs a traceback."""
    _prefer_passive_threads()
    try:
        return int(run(arguments))
    except EngineFailed as error:
        complain(program, error)
        return ExitStatus.ENGINE_FAILED
    except PagedAttentionError as error:
        complain(program, error)
        return ExitStatus.INPUT_UNUSABLE
    except BrokenPipeError:
        # Python's own flush at exit must not complain about the lost reader again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except OSError as error:  # a file that was fine when the arguments were checked
        complain(program, error)
        return ExitStatus.INPUT_UNUSABLE
    except KeyboardInterrupt:
        complain(program, "interrupted")
        return ExitStatus.INTERRUPTED
