"""Validates a call by its signature: every rule that needs no tensor's values."""

from __future__ import annotations

from collections.abc import Callable

from pa_spec.errors import ContractViolation
from pa_spec.operator import CallSignature
from pa_spec.validation import (
    attribute,
    cache,
    latent,
    metadata,
    packed,
    prologue,
    quantization,
    tensor,
)
from pa_spec.validation.call import Call

# The order is the order of reports; no check depends on another having run.
_CHECKS: tuple[Callable[[Call], None], ...] = (
    attribute.check_heads,
    attribute.check_numbers,
    attribute.check_choices,
    attribute.check_widths,
    attribute.check_cache_words,
    packed.check_presence,
    packed.check_query,
    packed.check_key,
    packed.check_value,
    latent.check_value_width,
    latent.check_latent,
    cache.check_caches,
    cache.check_geometry,
    cache.check_rows,
    cache.check_tokens,
    prologue.check_sink,
    prologue.check_norms,
    prologue.check_rotary,
    quantization.check_quantization,
    metadata.check_metadata,
    metadata.check_bias,
    metadata.check_scores,
    tensor.check_activation_types,
    tensor.check_cache_types,
    tensor.check_index_types,
    tensor.check_places,
)


def validate(signature: CallSignature) -> tuple[ContractViolation, ...]:
    """Return every rule that the call breaks, () when it may run."""
    call = Call(signature)
    for check_topic in _CHECKS:
        check_topic(call)
    return tuple(call.violations)


def check(signature: CallSignature) -> None:
    """Raise the first rule that the call breaks, as a ContractViolation."""
    for violation in validate(signature):
        raise violation
