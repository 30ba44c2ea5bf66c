"""Files that a run writes: complete or untouched, whatever ends the run."""

from __future__ import annotations

import contextlib
import os
import stat
from itertools import chain, count
from pathlib import Path
from typing import final

from pa_spec import InputUnusable


def check_target(path: Path, option: str, unlike: tuple[Path, ...] = ()) -> None:
    """Raise InputUnusable unless the path can become, or replace, a file of this run.

    unlike: files that the run also reads or writes, so that nothing is written over them.
    """
    name = f"{option} {path}"
    if path.is_dir():
        raise InputUnusable(name, "is a folder", "a file to write")
    if not path.parent.is_dir():
        raise InputUnusable(name, "its folder does not exist", "a file in an existing folder")
    for other in unlike:
        if path.resolve() == other.resolve() or (
            path.exists() and other.exists() and path.samefile(other)
        ):
            raise InputUnusable(name, f"is the same file as {other}", "a file of its own")
    if path.exists() and not _is_writable(path):
        raise InputUnusable(name, "is read-only", "a file that may be written")
    if not os.access(path.resolve().parent, os.W_OK) and not _is_special(path):
        raise InputUnusable(name, "its folder is read-only", "a folder that may be written")


def _is_writable(path: Path) -> bool:
    # The mode bits count even for a superuser, who could write anyway: somebody protected it.
    writable = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
    return os.access(path, os.W_OK) and bool(path.stat().st_mode & writable)


def _is_special(path: Path) -> bool:
    """Whether the path is a pipe, a terminal or a device: written through, never replaced."""
    return path.exists() and not path.is_file()


@final
class ResultFile:
    """Lines on their way to a file, collected beside it and moved over it in one step.

    Life: construct, `write` any number of times, then once either `publish` (everything is
    written: the file is replaced), `keep` (the run ended early: the lines become the file if
    there was none, else they stay beside it) or `discard`. A line is on its way to the disk as
    soon as `write` returns, so a killed run leaves them in `NAME.PID.partial`.
    """

    def __init__(self, path: Path) -> None:
        self._target = path.resolve()
        self._is_special = _is_special(path)
        self._place = self._target
        if not self._is_special:
            self._place = self._target.with_name(f"{self._target.name}.{os.getpid()}.partial")
        self.num_lines = 0
        self._num_bytes = 0
        try:
            self._file = self._place.open("wb")
        except OSError as error:
            problem = error.strerror or str(error)
            raise InputUnusable(str(path), problem, "a file that may be written") from error

    def write(self, line: str) -> None:
        """Add one line; raises InputUnusable when the disk does not take it."""
        data = f"{line}\n".encode()
        try:
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            problem = error.strerror or str(error)
            raise InputUnusable(str(self._target), problem, "a disk with room") from error
        self.num_lines += 1
        self._num_bytes += len(data)

    def publish(self) -> Path:
        """Replace the target by what was written and return its path."""
        return self._move_to(self._target)

    def keep(self) -> Path | None:
        """Save the lines of an unfinished run and return where; None when there are none.

        An older file is worth more than part of a new one: it stays, the lines go beside it, into
        the first of NAME.partial, NAME.partial-2 and so on that is free.
        """
        if not self.num_lines:
            self.discard()
            return None
        if not self._target.exists():
            return self._move_to(self._target)
        names = chain((".partial",), (f".partial-{number}" for number in count(2)))
        beside = (self._target.with_name(self._target.name + name) for name in names)
        return self._move_to(next(path for path in beside if not path.exists()))

    def discard(self) -> None:
        """Leave the target as it was and nothing beside it."""
        self._close()
        if not self._is_special:
            self._place.unlink(missing_ok=True)

    def _close(self) -> None:
        # After a failed write the close fails once more; what was said then is enough.
        with contextlib.suppress(OSError):
            self._file.close()

    def _move_to(self, path: Path) -> Path:
        self._close()
        if self._is_special:
            return self._target
        os.truncate(self._place, self._num_bytes)  # no half line of a failed write
        if path.exists():
            self._place.chmod(stat.S_IMODE(path.stat().st_mode))
        self._place.replace(path)
        return path


def write_file(path: Path, text: str) -> None:
    """Replace a file by the text in one step; raises InputUnusable when it cannot be written."""
    file = ResultFile(path)
    try:
        file.write(text)
    except InputUnusable:
        file.discard()
        raise
    file.publish()
