"""Check that a package can be released, and print the commands that tag it; push nothing.

python .ci/release.py check pa-cache
python .ci/release.py tag pa-cache
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: list[str]) -> int:
    """Run one of the two steps; 1 and the obstacles on standard error where it cannot go on."""
    step, package = arguments
    if step == "tag":
        print("\n".join(tag_commands(ROOT, package)))
        return 0
    today = datetime.now(tz=UTC).date()
    obstacles = list(obstacles_to(ROOT, package, today))
    for each in obstacles:
        print(f"{package}: {each}", file=sys.stderr)
    return 1 if obstacles else 0


def obstacles_to(root: Path, package: str, today: date) -> Iterator[str]:
    """Yield what stands in the way of releasing the package as it is."""
    changed = git(root, "status", "--porcelain")
    if changed:
        yield f"the tree is not clean: {changed.splitlines()[0].strip()}"
    version, last = version_of(root, package), last_release(root, package)
    if last is not None and version <= last:
        yield f"version {version} does not follow the last tag {package}-v{last}"
    heading = f"## {version} - {today.isoformat()}"
    changelog = (root / "packages" / package / "CHANGELOG.md").read_text("utf-8")
    if heading not in changelog.splitlines():
        yield f"CHANGELOG.md has no section {heading!r}"
    for requirement in requirements_of(root, package):
        released = last_release(root, requirement.name)
        if released is None:
            yield f"{requirement.name} has no release yet; release it first"
        elif not requirement.specifier.contains(str(released)):
            yield f"the range {requirement} leaves out the released {requirement.name} {released}"


def tag_commands(root: Path, package: str) -> list[str]:
    """Return the commands for the person who releases."""
    tag = f"{package}-v{version_of(root, package)}"
    return [f"git tag -a {tag} -m '{tag}'", f"git push origin {tag}"]


def version_of(root: Path, package: str) -> Version:
    """Read the version that the package's sources state."""
    file = root / "packages" / package / "src" / package.replace("-", "_") / "_version.py"
    value = ast.parse(file.read_text("utf-8")).body[-1]
    if not isinstance(value, ast.Assign):
        raise TypeError(f"{file}: the last line must assign the version")
    return Version(ast.literal_eval(value.value))


def last_release(root: Path, package: str) -> Version | None:
    """Return the highest version that a tag of the package names."""
    tags = git(root, "tag", "--list", f"{package}-v*").split()
    found = [match[1] for each in tags if (match := re.fullmatch(rf"{package}-v(.+)", each))]
    return max(map(Version, found), default=None)


def requirements_of(root: Path, package: str) -> list[Requirement]:
    """Return the declared siblings."""
    pyproject = root / "packages" / package / "pyproject.toml"
    declared = tomllib.loads(pyproject.read_text("utf-8"))["project"]["dependencies"]
    siblings = {each.name for each in (root / "packages").iterdir()}
    return [each for each in map(Requirement, declared) if each.name in siblings]


def git(root: Path, *arguments: str) -> str:
    """Return what git prints."""
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
