"""The exit statuses of every `pa` command, and the one line that explains a failure."""

from __future__ import annotations

import sys
from enum import IntEnum


class ExitStatus(IntEnum):
    """What a `pa` command ends with.

    SERVED: everything asked for was done. ENGINE_FAILED: the engine stopped; finished results are
    kept. INPUT_UNUSABLE: an option, a file or some of the prompts cannot be used; the good
    prompts' results are kept. INTERRUPTED: Ctrl-C, TERMINATED: SIGTERM; finished results are kept.
    """

    SERVED = 0
    ENGINE_FAILED = 1
    INPUT_UNUSABLE = 2
    INTERRUPTED = 130
    TERMINATED = 143


def one_line(message: object) -> str:
    """Return the message with every run of white space, line ends included, as one space."""
    return " ".join(str(message).split())


def complain(program: str, message: object) -> None:
    """Write one line to standard error: the program's name and the message."""
    sys.stderr.write(f"{program}: {one_line(message)}\n")
    sys.stderr.flush()
