"""The options that `pa generate` and `pa demo` share: how to sample and within which limits."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from pa_spec import ElementType, EngineConfig, InputUnusable

from pa_serve.argument import integer
from pa_serve.sampling import DEFAULT_MAX_NEW_TOKENS, FIELDS, Sampling, parse_field

ELEMENT_TYPES = {"float32": ElementType.FLOAT32, "bfloat16": ElementType.BFLOAT16}
"""Words of --dtype."""

_LIMITS = EngineConfig()

_SAMPLING_HELP = {
    "max_new_tokens": f"most tokens of an answer (default: {DEFAULT_MAX_NEW_TOKENS})",
    "min_new_tokens": "fewest tokens of an answer: the end of text is masked until then",
    "temperature": "0: always the most probable token (default; 1 with --top-k or --top-p)",
    "top_k": "sample among the N most probable tokens; 0 = off",
    "top_p": "sample among the most probable tokens that hold this share; 1 = off",
    "seed": "seed of the random streams, one a prompt (default: drawn)",
    "repetition_penalty": "above 1 makes tokens that occurred less probable; 1 = off",
    "no_repeat_ngram_size": "let no run of N tokens occur twice; 0 = off",
}

_ENGINE_HELP = {
    "max_batch_size": f"most prompts in one step (default: {_LIMITS.max_batch_size})",
    "block_size": f"tokens of a cache block, a power of two (default: {_LIMITS.block_size})",
    "num_blocks": "blocks of the cache (default: what a share of the memory holds)",
    "max_scheduled_tokens": f"most tokens of a step (default: {_LIMITS.max_scheduled_tokens})",
}


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """How to serve a model: element type of weights and cache, sampling defaults, limits."""

    element_type: ElementType
    sampling: Sampling
    config: EngineConfig


def add_serving_options(parser: argparse.ArgumentParser) -> None:
    """Add every option that `read_serving_options` reads."""
    group = parser.add_argument_group("sampling (a line of input may carry its own)")
    for name, help_text in _SAMPLING_HELP.items():
        is_number = name in ("temperature", "top_p", "repetition_penalty")
        metavar = "F" if is_number else "N"
        group.add_argument(_option(name), type=_field(name), metavar=metavar, help=help_text)
    group = parser.add_argument_group("engine")
    group.add_argument(
        "--dtype", choices=ELEMENT_TYPES, default="float32", help="(default: %(default)s)"
    )
    for name, help_text in _ENGINE_HELP.items():
        group.add_argument(_option(name), type=_limit(name), metavar="N", help=help_text)


def read_serving_options(arguments: argparse.Namespace) -> ServingOptions:
    """Build the values of the options; raises InputUnusable when two contradict each other."""
    sampling = Sampling(**{name: getattr(arguments, name, None) for name in FIELDS})
    sampling.check_limits()
    limits = {
        name: value for name in _ENGINE_HELP if (value := getattr(arguments, name)) is not None
    }
    config = EngineConfig(**limits, reserve_turn_limit=True)
    return ServingOptions(ELEMENT_TYPES[arguments.dtype], sampling, config)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _field(name: str) -> Callable[[str], int | float]:
    def parse(text: str) -> int | float:
        try:
            return parse_field(name, text)
        except InputUnusable as error:
            raise _refusal(error) from error

    return parse


def _limit(name: str) -> Callable[[str], int]:
    parse_integer = integer(1)

    def parse(text: str) -> int:
        value = parse_integer(text)
        try:
            EngineConfig(**{name: value})  # type: ignore[arg-type]
        except InputUnusable as error:
            raise _refusal(error) from error
        return value

    return parse


def _refusal(error: InputUnusable) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"{error.problem}; allowed: {error.allowed}")
