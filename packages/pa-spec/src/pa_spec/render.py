"""Writes docs/reference/ from spec/: python -m pa_spec.render --check|--write [FOLDER]."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from pa_spec.reference import pages

FOLDER = "docs/reference"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages, or say which are stale and return 1."""
    parser = ArgumentParser(prog="python -m pa_spec.render", description="Render spec/ as pages.")
    mode = parser.add_mutually_exclusive_group(required=True)
    for name, does in (("--check", "compare the pages with"), ("--write", "write the pages to")):
        text = f"{does} FOLDER, {FOLDER} by default"
        mode.add_argument(name, nargs="?", const=FOLDER, metavar="FOLDER", help=text)
    chosen = parser.parse_args(arguments)
    if chosen.write is not None:
        write_pages(Path(chosen.write))
        return 0
    stale = stale_pages(Path(chosen.check))
    for name in stale:
        sys.stderr.write(f"{name} is stale; renew: python -m pa_spec.render --write\n")
    return 1 if stale else 0


def write_pages(folder: Path) -> None:
    """Write every page into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in pages().items():
        (folder / name).write_text(page, "utf-8")


def stale_pages(folder: Path) -> list[str]:
    """Return the names of pages that are missing, differ, or should not be there."""
    wanted = pages()
    found = {path.name: path.read_text("utf-8") for path in folder.glob("*.md")}
    return sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))


if __name__ == "__main__":
    sys.exit(main())
