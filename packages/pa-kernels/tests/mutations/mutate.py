"""Apply one change after the other to a copy of the package, and demand that a test fails.

    python mutate.py FOLDER [words of the ids to choose]

FOLDER keeps the copy and its object files. Python reads the copy's sources and the _cpu that is
compiled from them, with one instruction set and little optimization, so that a change costs
seconds. A change that does not compile, or that keeps the tests from being collected, counts as
little as one that no test notices: the list must be mended.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

import pytest
import torch

sys.path.append(str(Path(__file__).resolve().parents[1]))

from kernel_mutations import PACKAGE, Mutation, mutations

ROOT = PACKAGE.parents[1]
COPIED = ("CMakeLists.txt", "cpu", "src", "tests")
LIMIT_SECONDS = 300
# What pytest returns when tests have failed; 2 and above: they could not be run.
TESTS_FAILED = 1
# Whoever only wants to see a failure needs no smaller one.
PYTEST = ("-x", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=unshrunk")
# Imported once, here: each run of tests is a fork that has them already.
SLOW_IMPORTS = (pytest, torch)


@dataclass(frozen=True, slots=True)
class Verdict:
    """killed: a test failed (or the process died, or never ended). what: in words."""

    killed: bool
    what: str
    output: str = ""


def renew(source: str | Path, target: str | Path) -> None:
    """Copy a file unless the same text is there; what changes is then younger than any object.

    A file that a mutation changed must not look older than the object compiled from the mutation:
    ninja would keep that object. One that stays spares compiling it again.
    """
    if not Path(target).is_file() or not filecmp.cmp(source, target, shallow=False):
        shutil.copyfile(source, target)


class Copy:
    """A copy of the package in which files change and change back.

    Life cycle: made once; `build` and `test` any number of times, with one mutation in it or none.
    """

    def __init__(self, folder: Path) -> None:
        self.package = folder / "packages" / "pa-kernels"
        self._folder = folder
        self.package.mkdir(parents=True, exist_ok=True)
        for path in [each for each in self.package.rglob("*") if each.is_file()]:
            # What the package no longer has, and the _cpu of an earlier run's last mutation.
            if path.suffix == ".so" or not (PACKAGE / path.relative_to(self.package)).is_file():
                path.unlink()
        for name in COPIED:
            source, target = PACKAGE / name, self.package / name
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.so", "gpu")
                shutil.copytree(
                    source, target, ignore=ignored, copy_function=renew, dirs_exist_ok=True
                )
            else:
                renew(source, target)
        shutil.copy2(ROOT / "pyproject.toml", folder / "pyproject.toml")

    def build(self, unit: str) -> subprocess.CompletedProcess[str]:
        """Compile _cpu and put it beside the sources of pa_kernels."""
        folder = self._folder / f"build-{unit}"
        units = unit if unit == "generic" else f"{unit};generic"
        configure = ["cmake", "-S", str(self.package), "-B", str(folder), "-G", "Ninja"]
        options = {
            "PA_CUDA": "OFF",
            "PA_ONLY_UNITS": units,
            "CMAKE_BUILD_TYPE": "None",
            "CMAKE_CXX_FLAGS": "-O1",
            "Python_EXECUTABLE": sys.executable,
            "pybind11_DIR": run([sys.executable, "-m", "pybind11", "--cmakedir"]).stdout.strip(),
        }
        if not (folder / "build.ninja").exists():
            configured = run(
                [*configure, *(f"-D{name}={value}" for name, value in options.items())]
            )
            if configured.returncode != 0:
                return configured
        built = run(["ninja", "-C", str(folder)])
        for library in (folder / "cpu").glob("_cpu*.so"):
            shutil.copy2(library, self.package / "src" / "pa_kernels")
        return built

    def test(self, names: Iterable[str]) -> Verdict:
        """Run tests until one fails."""
        os.chdir(self._folder)
        code, output = in_a_fork(
            [*PYTEST, *(f"packages/pa-kernels/tests/{each}" for each in names)]
        )
        if code is None:
            return Verdict(True, f"no end within {LIMIT_SECONDS} s")
        if code == 0:
            return Verdict(False, "survived", output)
        if code < 0:
            return Verdict(True, f"died of signal {-code}", output)
        if code != TESTS_FAILED:
            return Verdict(False, "tests cannot run", output)
        failed = [line for line in output.splitlines() if line.startswith("FAILED")]
        first = failed[0].removeprefix("FAILED ").partition(" - ")[0] if failed else "failed"
        return Verdict(True, first.removeprefix("packages/pa-kernels/tests/"), output)

    def judge(self, mutation: Mutation) -> Verdict:
        """Apply a mutation, run its tests, and take it back."""
        path = self.package / mutation.file
        original = path.read_text("utf-8")
        path.write_text(mutation.applied_to(original), "utf-8")
        try:
            if mutation.is_compiled:
                built = self.build(mutation.unit)
                if built.returncode != 0:
                    return Verdict(False, "does not compile", built.stdout + built.stderr)
            return self.test(mutation.tests)
        finally:
            path.write_text(original, "utf-8")


def in_a_fork(arguments: list[str]) -> tuple[int | None, str]:
    """Run pytest in a fork; return its exit code (None: it never ended) and what it wrote."""
    with TemporaryFile("w+") as log:
        child = os.fork()
        if child == 0:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            os._exit(int(pytest.main(arguments)))
        end = time.monotonic() + LIMIT_SECONDS
        ended, status = os.waitpid(child, os.WNOHANG)
        while not ended and time.monotonic() < end:
            time.sleep(0.05)
            ended, status = os.waitpid(child, os.WNOHANG)
        if not ended:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        log.seek(0)
        return os.waitstatus_to_exitcode(status) if ended else None, log.read()


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(command, capture_output=True, text=True, check=False)


def expect_health(copy: Copy, chosen: list[Mutation], unit: str) -> None:
    """End unless every named test passes on the unchanged copy."""
    built = copy.build(unit)
    if built.returncode != 0:
        sys.exit(f"does not compile unchanged:\n{built.stdout}{built.stderr}")
    names = sorted({name for each in chosen for name in each.tests})
    # A file contains its own tests; pytest would run them twice.
    files = {each for each in names if "::" not in each}
    healthy = copy.test(each for each in names if each in files or each.split("::")[0] not in files)
    if healthy.what != "survived":
        sys.exit(f"fails unchanged: {healthy.what}\n{healthy.output}")


def main() -> None:
    """Judge the chosen mutations, print a row for each, and fail unless all were killed."""
    folder, words = Path(sys.argv[1]).resolve(), sys.argv[2:]
    # Files may change twice within the second that stamps compiled modules.
    sys.dont_write_bytecode = True
    chosen = [each for each in mutations() if all(word in each.id for word in words)]
    copy = Copy(folder)
    sources = str(copy.package / "src")
    sys.path.insert(0, sources)
    os.environ |= {"PYTHONPATH": sources, "PYTHONDONTWRITEBYTECODE": "1"}  # for tests' children
    left = []
    for unit in sorted({each.unit for each in chosen}):
        of_unit = [each for each in chosen if each.unit == unit]
        expect_health(copy, of_unit, unit)
        # Python first: it needs the healthy _cpu.
        for mutation in sorted(of_unit, key=lambda each: each.is_compiled):
            start = time.monotonic()
            verdict = copy.judge(mutation)
            seconds = time.monotonic() - start
            mark = "killed" if verdict.killed else "ALIVE "
            sys.stdout.write(f"{mark} {seconds:5.1f} s  {mutation.id:40} {verdict.what}\n")
            sys.stdout.flush()
            if not verdict.killed:
                left.append(mutation.id)
                tail = verdict.output if verdict.what != "survived" else ""
                sys.stdout.write(tail[-2000:])
    sys.stdout.write(f"{len(chosen) - len(left)} of {len(chosen)} killed\n")
    if left or not chosen:
        sys.exit(f"not killed: {', '.join(left)}" if left else "no mutation has such an id")


if __name__ == "__main__":
    main()
