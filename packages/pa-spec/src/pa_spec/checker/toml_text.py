"""TOML that somebody else wrote: its keys bounded before it is parsed."""

from __future__ import annotations

import re
from typing import Any

MAX_KEY_PARTS = 20
"""Parts of one key or header; an engine configuration's have three."""

# Strings and comments first: their dots join nothing. What is not closed ends with its line, or
# with the text where it may span lines, so that no part of the text is looked at twice.
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"""|\Z)|\'\'\'.*?(?:\'\'\'|\Z)'
    r'|"(?:\\[^\n]|[^"\\\n])*+"?|\'[^\'\n]*+\'?|[\w-]++|[ \t]++|#[^\n]*+|\.|[^.]',
    re.DOTALL,
)
_STARTS_PART = frozenset("\"'-_ \t")


class NotToml(ValueError):
    """Why a text is no TOML that can be read here."""


def parse_toml(data: bytes) -> dict[str, Any]:
    """Parse a document.

    The standard library's parser takes memory with the square of a key's parts, so these are
    counted first. Raises NotToml.
    """
    import tomllib

    try:
        text = data.decode("utf-8")
        _require_short_keys(text)
        return tomllib.loads(text)
    except RecursionError as error:
        raise NotToml("nested too deeply") from error
    except ValueError as error:
        # Also what is not UTF-8, and an integer of thousands of digits.
        raise NotToml(str(error)) from error


def _require_short_keys(text: str) -> None:
    """Refuse a key of too many parts; a number with a point counts as a key of two."""
    parts = 1
    for token in _TOKEN.finditer(text):
        first = token[0][0]
        if first == ".":
            parts += 1
            if parts > MAX_KEY_PARTS:
                raise NotToml(f"a key of more than {MAX_KEY_PARTS} parts")
        elif not (first in _STARTS_PART or first.isalnum()):
            parts = 1
