"""Words about values that somebody else wrote, and text that is safe to print."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

MAX_SHOWN = 200
"""Characters of one name or value in a line for people; a hostile one could fill the screen."""

_LARGEST_SHOWN_BITS = 256


def shown(value: object) -> str:
    """Say what a value of a configuration is, as its file would spell it.

    Containers are counted, not spelled: {} is "an object of 0 keys".
    """
    if isinstance(value, Mapping):
        return f"an object of {len(value)} keys"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, str):
        return json.dumps(shortened(value), ensure_ascii=False)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    # Python refuses to spell an integer of more than 4300 digits.
    if isinstance(value, int) and value.bit_length() > _LARGEST_SHOWN_BITS:
        return f"an integer of {value.bit_length()} bits"
    return str(value)


def printable(text: str) -> str:
    """Replace what a terminal would obey or hide by escapes, such as that of U+001B."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escape(each) for each in text)


def shortened(text: str, most: int = MAX_SHOWN) -> str:
    """Leave out the middle of a text that is longer than `most` characters."""
    if len(text) <= most:
        return text
    half = (most - 3) // 2
    return f"{text[:half]}...{text[-half:]}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return " (did you mean block_size?)" when a known word is close, "" otherwise."""
    from difflib import get_close_matches

    # Comparing is quadratic in the lengths; no known word is as long as this.
    close = get_close_matches(word[:MAX_SHOWN], list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def ranges(numbers: Iterable[int]) -> str:
    """Write ascending numbers as ranges: "0-4, 6"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{first}-{last}" if last > first else f"{first}" for first, last in runs)


def _escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
