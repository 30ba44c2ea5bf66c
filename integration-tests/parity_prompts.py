"""Prompts of exact lengths, cut from one plain text."""

from __future__ import annotations

from pa_models import Tokenizer

PROMPT_TOKENS = (5, 16, 17, 40, 100, 255, 513, 900)
"""Both sides of a block edge, and lengths up to many chunks."""

TEXT = (
    "The capital of France is a city on a river. It began as a small settlement on an island, "
    "and for a long time the two bridges to the island decided who could cross the valley. "
    "Merchants paid a toll in salt, in wool or in wine, and the clerks who counted the barrels "
    "left us the oldest lists that we have of ordinary prices. A loaf cost as much as an hour of "
    "a mason's work; a candle, half of that. When the first stone bridge was finished the toll "
    "was lowered, then forgotten, then introduced again by a council that needed money for a "
    "wall. The wall stood for three hundred years. Children played on it, sheep were driven "
    "along it, and in the year of the great flood it kept the lower town dry for nine days. "
)


def prompt_of(tokenizer: Tokenizer, count: int) -> list[int]:
    """Return a prompt of exactly `count` tokens."""
    text = TEXT
    while len(ids := tokenizer.encode(text)) < count:
        text += f"Chapter {len(text)}. " + TEXT
    return ids[:count]
