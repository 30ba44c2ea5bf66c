"""The kept list of changes to the oracle and to the C++ that some test must notice.

mutations/*.toml holds one table for each: `file` and the text `find`, which occurs in it exactly
once, what stands there instead (`replace`), and the `tests` of which at least one must fail then.
A file is named from the package's root, a test from its folder tests, as pytest names them.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
CPP_SUFFIXES = {".h", ".cpp"}


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change; `unit`: the instruction-set unit that compiles the line."""

    id: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]
    unit: str = "generic"

    @property
    def is_compiled(self) -> bool:
        """Whether it changes the C++."""
        return Path(self.file).suffix in CPP_SUFFIXES

    def applied_to(self, text: str) -> str:
        """Return the file's text with the change.

        Raises ValueError unless what it replaces is there exactly once.
        """
        found = text.count(self.find)
        if found != 1:
            raise ValueError(f"{self.id}: found {found} times in {self.file}: {self.find!r}")
        return text.replace(self.find, self.replace)


def mutations(folder: Path = PACKAGE / "tests" / "mutations") -> list[Mutation]:
    """Read every list, in order."""
    return [
        Mutation(**(each | {"tests": tuple(each["tests"])}))
        for path in sorted(folder.glob("*.toml"))
        for each in tomllib.loads(path.read_text("utf-8"))["mutation"]
    ]


def unknown_tests(mutation: Mutation, tests: Path = PACKAGE / "tests") -> Iterator[str]:
    """Yield the tests of a mutation that do not exist."""
    for name in mutation.tests:
        file, _, function = name.partition("::")
        path = tests / file
        if not path.is_file():
            yield name
        elif function:
            tree = ast.parse(path.read_text("utf-8"))
            defined = {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}
            if function not in defined:
                yield name
