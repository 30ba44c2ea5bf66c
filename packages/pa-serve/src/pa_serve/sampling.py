"""The sampling fields that an option or a line of input may carry, and their ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from pa_spec import InputUnusable

DEFAULT_MAX_NEW_TOKENS = 128

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the tokens of one answer are chosen; None where nothing was said.

    temperature 0 takes the most probable token, whatever the rest says. Without a temperature the
    answer is greedy too, unless top_k or top_p is given: then the temperature is 1.
    """

    max_new_tokens: int | None = None
    min_new_tokens: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    ignore_eos: bool | None = None

    @property
    def token_limit(self) -> int:
        """The most tokens that the answer may have."""
        return self.max_new_tokens or DEFAULT_MAX_NEW_TOKENS

    @property
    def effective_temperature(self) -> float:
        """The temperature after the rule above: 0 is greedy."""
        if self.temperature is not None:
            return self.temperature
        return 0.0 if self.top_k is None and self.top_p is None else 1.0

    def over(self, defaults: Sampling) -> Sampling:
        """Return these fields where they say something, the defaults elsewhere."""
        own = {name: value for name in FIELDS if (value := getattr(self, name)) is not None}
        return replace(defaults, **own)

    def check_limits(self) -> None:
        """Raise InputUnusable when the fewest new tokens are more than the most."""
        if self.min_new_tokens is not None and self.min_new_tokens > self.token_limit:
            raise InputUnusable(
                "min_new_tokens",
                f"{self.min_new_tokens} is more than max_new_tokens {self.token_limit}",
                f"an integer from 0 to {self.token_limit}",
            )


@dataclass(frozen=True, slots=True)
class _Range:
    """The numbers that a field may hold: least to most, the least itself only when included."""

    is_integer: bool
    least: float
    most: float = math.inf
    includes_least: bool = True

    def __str__(self) -> str:
        kind = "an integer" if self.is_integer else "a number"
        if self.is_integer:
            return f"{kind} from {self.least:.0f} to {int(self.most)}"
        start = f"from {self.least:g}" if self.includes_least else f"above {self.least:g}"
        end = f" to {self.most:g}" if math.isfinite(self.most) else ", finite"
        return f"{kind} {start}{end}"

    def admits(self, value: object) -> bool:
        """Whether the value is a number of the right kind inside the range."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        if self.is_integer:
            return isinstance(value, int) and self.least <= value <= self.most
        if not (-_INT64_MAX <= value <= _INT64_MAX):  # also false for NaN and the infinities
            return False
        return (value > self.least or (self.includes_least and value == self.least)) and (
            value <= self.most
        )


_RANGES: Mapping[str, _Range] = {
    "max_new_tokens": _Range(is_integer=True, least=1, most=_INT32_MAX),
    "min_new_tokens": _Range(is_integer=True, least=0, most=_INT32_MAX),
    "temperature": _Range(is_integer=False, least=0),
    "top_k": _Range(is_integer=True, least=0, most=_INT32_MAX),
    "top_p": _Range(is_integer=False, least=0, most=1, includes_least=False),
    "seed": _Range(is_integer=True, least=0, most=_INT64_MAX),
    "repetition_penalty": _Range(is_integer=False, least=0, includes_least=False),
    "no_repeat_ngram_size": _Range(is_integer=True, least=0, most=_INT32_MAX),
}

FIELDS = tuple(field.name for field in fields(Sampling))
"""Names of all sampling fields, as lines of input spell them."""


def check_field(name: str, value: object) -> None:
    """Raise InputUnusable when the value is none that the field may hold."""
    if name == "ignore_eos":
        if not isinstance(value, bool):
            raise InputUnusable(name, f"{value!r}", "true or false")
    elif not _RANGES[name].admits(value):
        raise InputUnusable(name, f"{value!r}", str(_RANGES[name]))


def read_sampling(given: Mapping[str, object]) -> Sampling:
    """Build the fields from an object's members; null stands for a field that says nothing.

    Raises InputUnusable that names the field and its range.
    """
    values = {name: value for name, value in given.items() if value is not None}
    for name, value in values.items():
        check_field(name, value)
    return Sampling(**values)  # type: ignore[arg-type]


def parse_field(name: str, text: str) -> int | float:
    """Read an option's text as the field's value; raises InputUnusable as above."""
    allowed = _RANGES[name]
    try:
        value = int(text) if allowed.is_integer else float(text)
    except ValueError:
        raise InputUnusable(name, f"{text!r}", str(allowed)) from None
    check_field(name, value)
    return value
