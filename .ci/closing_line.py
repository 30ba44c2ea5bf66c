"""Print the sum of the closing lines of pytest in a log, in pytest's own form.

`./nox -s tests` runs pytest once for each package; the sum says what all of them came to.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

CLOSING = re.compile(r"^=+ (?P<counts>(?:\d+ \w+(?:, )?)+) in (?P<seconds>[\d.]+)s\b.*=+$")
ORDER = ("failed", "passed", "skipped", "deselected", "xfailed", "xpassed", "warnings", "errors")
PLURALS = {"error": "errors", "warning": "warnings"}


def sum_of(log: str) -> str:
    """Return the summed closing line; ValueError where the log holds none."""
    counts: Counter[str] = Counter()
    seconds, runs = 0.0, 0
    for line in re.sub(r"\x1b\[[\d;]*m", "", log).splitlines():
        if match := CLOSING.match(line.strip()):
            runs += 1
            seconds += float(match["seconds"])
            for each in match["counts"].split(", "):
                count, word = each.split(" ")
                counts[PLURALS.get(word, word)] += int(count)
    if not runs:
        raise ValueError("the log holds no closing line of pytest")
    words = sorted(counts, key=lambda word: ORDER.index(word) if word in ORDER else len(ORDER))
    told = ", ".join(f"{counts[word]} {word}" for word in words)
    return f" {told} in {seconds:.2f}s ".center(80, "=")


if __name__ == "__main__":
    print(sum_of(Path(sys.argv[1]).read_text("utf-8")))
