"""Fuzz one target, guided by coverage: python fuzz_run.py fuzz_engine_file [libFuzzer's options].

A target is a module beside this file: `one_input(data)` raises when a promise is broken, and
`seeds()` are inputs to start from. What breaks is written into the working folder (crash-…,
timeout-…, oom-…); add it to the target's FOUND.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from tempfile import TemporaryDirectory

import atheris

LIMITS = ("-timeout=20", "-rss_limit_mb=2048", "-max_len=20000", "-len_control=0")


def main() -> None:
    """Run libFuzzer, which ends the process."""
    name, *options = sys.argv[1:]
    # Where the models are built that tests and targets start from.
    sys.path.append(str(Path(__file__).parents[1]))
    with atheris.instrument_imports(include=["pa_spec"]):
        target = import_module(name)
        # The parts of the checker are imported when they are needed: too late to be measured.
        for module in walk_packages(import_module("pa_spec").__path__, "pa_spec."):
            import_module(module.name)
    with TemporaryDirectory() as corpus:
        for number, seed in enumerate(target.seeds()):
            Path(corpus, f"seed{number}").write_bytes(seed)
        atheris.Setup([name, *LIMITS, *options, corpus], target.one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
