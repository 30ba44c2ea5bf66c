"""What an implementation says of itself before it is examined."""

from __future__ import annotations

from dataclasses import dataclass

from pa_spec.conformance.call import FEATURES, features_of
from pa_spec.element_type import ElementType
from pa_spec.errors import ContractViolation, InputUnusable
from pa_spec.operator import CallSignature

_FLOATS = frozenset({ElementType.FLOAT32, ElementType.FLOAT16, ElementType.BFLOAT16})
_QUANTIZED = frozenset({ElementType.INT8, ElementType.FLOAT8E4M3FN})


@dataclass(frozen=True, slots=True)
class Declaration:
    """Capabilities; the default claims the whole contract.

    element_types: of query. cache_types: of quantized caches. lacks: names of FEATURES that it has
    not. A case that needs more is reported as not applicable, never as passed. refusals: exceptions
    that say no to a call. names_rules: whether a refusal carries `rule_id`; if not, only the
    refusal itself is compared. checks_values: whether it looks at lengths, positions and scales
    (V65, V66, V67, V105), which an implementation on a device does not.
    """

    element_types: frozenset[ElementType] = _FLOATS
    cache_types: frozenset[ElementType] = _QUANTIZED
    lacks: frozenset[str] = frozenset()
    refusals: tuple[type[Exception], ...] = (ContractViolation,)
    names_rules: bool = True
    checks_values: bool = True

    def __post_init__(self) -> None:
        if not self.element_types or not self.element_types <= _FLOATS:
            found = ", ".join(sorted(each.value for each in self.element_types)) or "none"
            raise InputUnusable("element_types", found, "some of float32, float16, bfloat16")
        unknown = sorted(self.lacks - set(FEATURES))
        if unknown:
            raise InputUnusable("lacks", ", ".join(unknown), ", ".join(FEATURES))

    def missing(self, signature: CallSignature) -> str:
        """Return what a call needs that is not there, "" when nothing is."""
        lacking = [each for each in features_of(signature) if each in self.lacks]
        inputs = signature.inputs
        query, cache = inputs.query.element_type, inputs.key_cache.element_type
        if query in _FLOATS - self.element_types:
            lacking.append(f"element type {query.value}")
        if cache in _QUANTIZED - self.cache_types:
            lacking.append(f"{cache.value} caches")
        return ", ".join(lacking)
