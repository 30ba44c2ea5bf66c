"""Draw whole problems for hours: rounds of test_whole_problems.py, each from another seed.

    python soak_run.py [--problems 20000] [--seconds 0] [--first-seed N]

Ends after so many problems or so many seconds, whichever comes first (0 = no such limit), or with
the first round that fails. A failing round has printed its smallest problem, options and seed; the
same seed again (`--first-seed N --problems 1`) repeats the round.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "test_whole_problems.py"
PROBLEMS_OF_A_ROUND = 1000
"""What the profile `soak` draws for the comparison with the oracle."""


def main() -> int:
    """Run rounds; return pytest's status of the last one."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--problems", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--first-seed", type=int, default=None)
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**31)
    if options.first_seed is not None:
        seed = options.first_seed
    start, drawn = time.monotonic(), 0
    while True:
        command = [sys.executable, "-m", "pytest", "-q", str(TESTS), "--hypothesis-profile=soak"]
        status = subprocess.run([*command, f"--hypothesis-seed={seed}"], check=False).returncode
        drawn, spent = drawn + PROBLEMS_OF_A_ROUND, time.monotonic() - start
        sys.stdout.write(f"soak: seed {seed}, {drawn} problems in {spent:.0f} s\n")
        sys.stdout.flush()
        if status or 0 < options.problems <= drawn or 0 < options.seconds <= spent:
            return status
        seed += 1


if __name__ == "__main__":
    sys.exit(main())
