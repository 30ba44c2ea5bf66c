"""What a caller may ask of a request and of a turn, validated before anything changes."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from pa_spec import rules

NO_LIMIT = 2**62
"""A turn without a generation limit of its own."""

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
_FLOAT32_MAX = (2 - 2**-23) * 2.0**127
_FLOAT32_TINY = 2.0**-126
"""Smallest normal number: what is below divides logits by nearly nothing."""


@dataclass(frozen=True, slots=True)
class GeneratorParams:
    """Defaults of a request for all its turns, copied when the request is created (E9).

    do_sample False or temperature 0 is greedy, whatever the rest says. top_k 0 and top_p 1 are
    off. repetition_penalty applies to prompt and generated tokens. min_generated_tokens masks
    every end-of-sequence id until so many tokens of the turn exist. max_generated_tokens 0 leaves
    only the session's limit. seed None draws one. sample_index tells several samples of one seed
    apart. eos_token_ids None takes the model's. ignore_eos lets a turn run to its limit.

    Raises ContractViolation (V87) for a value outside its range.
    """

    do_sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    min_generated_tokens: int = 0
    max_generated_tokens: int = 0
    seed: int | None = None
    sample_index: int = 0
    eos_token_ids: Sequence[int] | None = None
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        _check_flags(self)
        _check_numbers(self)
        _check_integers(self)
        if self.eos_token_ids is not None:
            object.__setattr__(self, "eos_token_ids", tuple(self.eos_token_ids))
        low, high = self.min_generated_tokens, self.max_generated_tokens
        if high and low > high:
            raise rules()["V87"].violation("min_generated_tokens", str(low), "order", most=high)

    @property
    def is_greedy(self) -> bool:
        """Whether the most probable token is always taken: temperature 0 wins over the rest."""
        return not self.do_sample or self.temperature == 0 or self.top_k == 1


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """What one turn wants different from its request's params; None takes the params' value.

    The names and ranges are those of GeneratorParams. Copied by begin_turn (E10).
    """

    do_sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    min_generated_tokens: int | None = None
    max_generated_tokens: int | None = None
    seed: int | None = None
    sample_index: int | None = None
    eos_token_ids: Sequence[int] | None = None
    ignore_eos: bool | None = None

    def over(self, params: GeneratorParams) -> GeneratorParams:
        """Return the params of the turn: these options where given, the params elsewhere."""
        given = {
            field.name: value
            for field in fields(self)
            if (value := getattr(self, field.name)) is not None
        }
        return replace(params, **given) if given else params


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """Limits of one request.

    max_session_tokens counts prompt, output and every continuation together (E13); 0 takes the
    engine's.
    """

    max_session_tokens: int = 0

    def __post_init__(self) -> None:
        _check_integer("V88", "max_session_tokens", self.max_session_tokens, 0, _INT32_MAX)


def fresh_seed() -> int:
    """Draw the seed of a request whose caller gave none."""
    return secrets.randbits(63)


def _check_flags(params: GeneratorParams) -> None:
    for name in ("do_sample", "ignore_eos"):
        value: object = getattr(params, name)
        if not isinstance(value, bool):
            raise rules()["V87"].violation(name, repr(value), "flag")


def _check_numbers(params: GeneratorParams) -> None:
    """Refuse what is no number, or none that float32 columns can hold."""
    for name, least, most in (
        ("temperature", 0.0, _FLOAT32_MAX),
        ("top_p", 0.0, 1.0),
        ("repetition_penalty", _FLOAT32_TINY, _FLOAT32_MAX),
    ):
        value: object = getattr(params, name)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        # Compared as it is: NaN is in no range, and no integer is too large to be compared.
        if not is_number or not least <= value <= most:  # type: ignore[operator]
            raise rules()["V87"].violation(name, repr(value), "number", least=least, most=most)


def _check_integers(params: GeneratorParams) -> None:
    for name, least, most in (
        ("top_k", 0, _INT32_MAX),
        ("no_repeat_ngram_size", 0, _INT32_MAX),
        ("min_generated_tokens", 0, _INT32_MAX),
        ("max_generated_tokens", 0, _INT32_MAX),
        ("sample_index", 0, _INT64_MAX),
    ):
        _check_integer("V87", name, getattr(params, name), least, most)
    if params.seed is not None:
        _check_integer("V87", "seed", params.seed, 0, _INT64_MAX)
    ids: object = () if params.eos_token_ids is None else params.eos_token_ids
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Sequence):
        raise rules()["V87"].violation("eos_token_ids", repr(ids), "ids")
    for token in ids:
        _check_integer("V87", "eos_token_ids", token, 0, _INT32_MAX)


def require_type(rule: str, name: str, value: object, wanted: type) -> None:
    """Raise ContractViolation unless the value is of the wanted type."""
    if not isinstance(value, wanted):
        found = type(value).__name__
        raise rules()[rule].violation(name, found, "type", allowed=wanted.__name__)


def _check_integer(rule: str, name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise rules()[rule].violation(name, repr(value), "integer", least=least, most=most)
