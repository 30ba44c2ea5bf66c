"""Which package may import which, read from sources and metadata without importing anything."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement

# The arrows of docs/architecture.md: a package imports only what stands beside it.
ARROWS: Mapping[str, frozenset[str]] = {
    "pa-spec": frozenset(),
    "pa-kernels": frozenset({"pa-spec"}),
    "pa-cache": frozenset({"pa-spec"}),
    "pa-scheduler": frozenset({"pa-spec"}),
    "pa-engine": frozenset({"pa-spec", "pa-kernels", "pa-cache", "pa-scheduler"}),
    "pa-models": frozenset({"pa-spec", "pa-kernels"}),
    "pa-serve": frozenset({"pa-spec", "pa-engine", "pa-models"}),
}
# Beside its root a package may offer these modules to tests: doubles, tolerances, golden problems.
PUBLIC_MODULES = frozenset({"checker", "conformance", "testing"})


@dataclass(frozen=True)
class Import:
    """One imported module: `from a.b import c` and `import a.b` both name a.b."""

    file: Path
    line: int
    module: str

    @property
    def root(self) -> str:
        """The part before the first dot."""
        return self.module.split(".", maxsplit=1)[0]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.module}"


def imports_below(folder: Path) -> Iterator[Import]:
    """Yield every absolute import, wherever in a file it stands."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                yield from (Import(path, node.lineno, each.name) for each in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                yield Import(path, node.lineno, node.module)


def distribution_of(module_root: str) -> str:
    """Return the sibling that offers a module: pa_cache comes from pa-cache."""
    return module_root.replace("_", "-")


def wrong_arrows(package: str, imported: Iterator[Import]) -> Iterator[str]:
    """Yield imports of siblings that the arrows do not allow."""
    for each in imported:
        sibling = distribution_of(each.root)
        if sibling in ARROWS and sibling not in ARROWS[package] | {package}:
            yield f"{each}: {package} must not know {sibling}"


def inner_imports(package: str, imported: Iterator[Import]) -> Iterator[str]:
    """Yield imports of another package's inner modules."""
    for each in imported:
        sibling = distribution_of(each.root)
        is_foreign = sibling in ARROWS and sibling != package
        inner = each.module.partition(".")[2]
        if is_foreign and inner and inner not in PUBLIC_MODULES:
            yield f"{each}: import it from {each.root}"


@dataclass(frozen=True)
class Declared:
    """The distributions that a package's metadata names."""

    required: frozenset[str]
    optional: frozenset[str]


def requirements_of(pyproject: Path) -> list[Requirement]:
    """Read the dependencies that every installation brings."""
    project = tomllib.loads(pyproject.read_text("utf-8"))["project"]
    return [Requirement(each) for each in project["dependencies"]]


def siblings_of(root: Path, package: str) -> set[str]:
    """Return the siblings that a package declares, and theirs."""
    declared = requirements_of(root / "packages" / package / "pyproject.toml")
    direct = {each.name for each in declared if each.name in ARROWS}
    return direct.union(*(siblings_of(root, each) for each in direct))


def declared_by(pyproject: Path) -> Declared:
    """Read dependencies and extras."""
    project = tomllib.loads(pyproject.read_text("utf-8"))["project"]
    extras = project.get("optional-dependencies", {}).values()
    return Declared(
        frozenset(_normal(each.name) for each in requirements_of(pyproject)),
        frozenset(_normal(Requirement(each).name) for extra in extras for each in extra),
    )


def version_of(root: Path, package: str) -> str:
    """Read the version of a package in the checkout."""
    file = root / "packages" / package / "src" / package.replace("-", "_") / "_version.py"
    value = ast.parse(file.read_text("utf-8")).body[-1]
    assert isinstance(value, ast.Assign)
    version: str = ast.literal_eval(value.value)
    return version


def imported_distributions(imported: Iterator[Import], package: str) -> set[str]:
    """Return the distributions that offer the imported modules, as installed here."""
    offered = packages_distributions()
    found = set()
    for each in imported:
        if each.root in sys.stdlib_module_names or distribution_of(each.root) == package:
            continue
        if distribution_of(each.root) in ARROWS:
            found.add(distribution_of(each.root))
        else:
            found.update(_normal(name) for name in offered.get(each.root, [f"{each} (unknown)"]))
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
