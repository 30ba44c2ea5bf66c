from __future__ import annotations

import subprocess
import sys
from statistics import median

PROGRAM = """
import sys
from time import process_time
import numpy
started = process_time()
import pa_spec
print(process_time() - started, "torch" in sys.modules)
"""


# Processor time, not wall time: other work on the machine is not this import's.
def test_import_adds_at_most_100_ms_to_numpy_and_no_torch() -> None:
    lines = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(10)
    ]

    assert median(float(seconds) for seconds, _ in lines) <= 0.1
    assert {torch for _, torch in lines} == {"False"}
