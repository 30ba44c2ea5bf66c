"""Run pytest over a _cpu that was built with PA_SANITIZE, after a proof that faults end a process.

    python sanitize_run.py [pytest's arguments]

Every process gets the run times of AddressSanitizer and UBSan through LD_PRELOAD, because python
itself has none. Before the tests, two children commit one fault each in code of _cpu: one reads
behind a tensor, one reads at an odd address. Unless both die of it with a report, the tests would
prove nothing, and are not run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

OPTIONS = {
    # CPython and torch keep memory until the process ends; what leaks there is not ours. Frames
    # after their return are not watched: GCC 12 would misalign the 64-byte vectors in them.
    "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    # Two threads, because what one thread alone does right may be wrong between two.
    "OMP_NUM_THREADS": "2",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A call of _cpu.map_exp2 on ten floats, and the words of the report that it must cause."""

    arguments: str
    report: str


FAULTS = (
    Fault("x.data_ptr(), y.data_ptr(), 11", "AddressSanitizer: heap-buffer-overflow"),
    Fault("x.data_ptr() + 1, y.data_ptr(), 1", "runtime error: load of misaligned address"),
)
HARMLESS = Fault("x.data_ptr(), y.data_ptr(), 10", "")
CALL = """
import torch
from pa_kernels import _cpu

x, y = torch.zeros(10), torch.zeros(16)
_cpu.map_exp2("generic", {arguments})
"""


def run_times() -> str:
    """Return what LD_PRELOAD must name; the C++ library first finds its own exceptions then."""
    compiler = os.environ.get("CXX", "c++")
    found = []
    for library in ("libasan.so", "libubsan.so", "libstdc++.so"):
        command = [compiler, f"-print-file-name={library}"]
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        if not Path(answer).is_absolute():
            sys.exit(f"{compiler} has no {library}; install the run times of GCC's sanitizers")
        found.append(answer)
    return " ".join(found)


def sanitized_environment() -> dict[str, str]:
    """Return this process's environment with the sanitizers in it."""
    return {**os.environ, **OPTIONS, "LD_PRELOAD": run_times()}


def commit(fault: Fault, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run one call of _cpu in a child."""
    command = [sys.executable, "-c", CALL.format(arguments=fault.arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def check_that_faults_are_seen(environment: Mapping[str, str]) -> None:
    """End this process unless each fault ends a child and a harmless call does not."""
    harmless = commit(HARMLESS, environment)
    if harmless.returncode != 0:
        sys.exit(f"a harmless call fails:\n{harmless.stderr}")
    for fault in FAULTS:
        child = commit(fault, environment)
        if child.returncode == 0 or fault.report not in child.stderr:
            sys.exit(f"not seen: {fault}; is _cpu built with PA_SANITIZE?\n{child.stderr}")
        sys.stdout.write(f"seen, as it must be: {fault.report}\n")
        sys.stdout.flush()


def main() -> None:
    """Prove that faults are seen, then become pytest."""
    environment = sanitized_environment()
    check_that_faults_are_seen(environment)
    # Whose handler of bad addresses would be pytest's, which knows no line of C++.
    command = [sys.executable, "-m", "pytest", "-p", "no:faulthandler", *sys.argv[1:]]
    os.execve(sys.executable, command, environment)


if __name__ == "__main__":
    main()
