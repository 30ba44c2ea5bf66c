"""The code blocks of the documents, and who runs the commands in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

FENCE = re.compile(
    r"^(?P<mark>`{3,})(?P<language>\w*)\n(?P<text>.*?)^(?P=mark)$", re.MULTILINE | re.DOTALL
)
SHELL = {"bash", "console", "sh", "shell"}
# What these lines do is what ./nox does in an environment of its own.
SET_UP = {"python3 -m pip install nox uv"}
# Sessions that .ci/run cannot run, and the test file that does.
TESTED_ELSEWHERE = {"release": "integration-tests/test_release.py"}
# Records of what was run by hand on machines that tests do not have, with the command.
RECORDS = {"docs/kernels-log.md"}


@dataclass(frozen=True)
class Block:
    """One fenced block; expected is the text block that follows it, None where none does."""

    document: str
    line: int
    language: str
    text: str
    expected: str | None

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def documents_of(root: Path) -> list[Path]:
    """Return every document whose blocks a reader would try."""
    return [
        root / "README.md",
        *sorted((root / "docs").rglob("*.md")),
        *sorted((root / "packages").glob("*/README.md")),
    ]


def blocks_of(document: Path, root: Path) -> list[Block]:
    """Return the fenced blocks of a document in order."""
    content = document.read_text("utf-8")
    found = list(FENCE.finditer(content))
    following = [*found[1:], None][: len(found)]
    return [
        Block(
            str(document.relative_to(root)),
            content.count("\n", 0, match.start()) + 1,
            match["language"],
            match["text"],
            after["text"] if after and after["language"] == "text" else None,
        )
        for match, after in zip(found, following, strict=True)
    ]


def script_of(block: Block) -> str:
    """Return the commands of a shell block; with "$ " prompts only the lines that have one."""
    lines = block.text.splitlines()
    if any(line.startswith("$ ") for line in lines):
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    return "\n".join(lines)


def run_here(block: Block) -> str:
    """Return the part of a shell block that a test executes, "" where none does."""
    if block.document in RECORDS:
        return ""
    lines = script_of(block).splitlines()
    return "\n".join(line for line in lines if not _is_run_by_a_session(line)).strip()


def run_by_sessions(block: Block) -> Iterator[str]:
    """Yield the lines that name a nox session or an installation."""
    yield from filter(_is_run_by_a_session, script_of(block).splitlines())


def inline_commands(document: Path) -> list[str]:
    """Return the lines of nox that stand in running text."""
    outside = FENCE.sub("", document.read_text("utf-8"))
    return re.findall(r"`((?:\./)?nox -[^`\n]+)`", outside)


def sessions_in(command: str) -> set[str]:
    """Return the sessions that a line of nox names, without their parameters."""
    words = shlex.split(command, comments=True)
    if "--" in words:
        words = words[: words.index("--")]
    named: set[str] = set()
    for flag, session in pairwise(words):
        if flag in {"-s", "--session", "-t"} or (named and not session.startswith("-")):
            named.add(session.partition("(")[0])
    return named


def installed_by(command: str) -> list[str] | None:
    """Return the packages that a line of pip installs from the checkout, None for other lines."""
    match = re.fullmatch(r"(?:python3? -m )?pip install((?: \./packages/[\w-]+)+)", command)
    return match[1].replace("./packages/", "").split() if match else None


def _is_run_by_a_session(line: str) -> bool:
    is_nox = re.match(r"(?:\./)?nox\b", line) is not None
    return is_nox or line in SET_UP or installed_by(line) is not None
