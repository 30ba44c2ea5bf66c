"""Calls that break a rule and their legal neighbours, and the verdict on who refuses what."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from pa_spec.conformance.call import Operator, OperatorCall
from pa_spec.conformance.declaration import Declaration
from pa_spec.conformance.element import decode, storage_dtype
from pa_spec.conformance.material import call_of
from pa_spec.conformance.report import CaseResult, CaseStatus, Reason
from pa_spec.contract.vector import vectors
from pa_spec.element_type import ElementType
from pa_spec.operator import (
    CallSignature,
    KvCacheLayout,
    PagedAttentionInputs,
    PagedAttentionOutputs,
    TensorSignature,
)
from pa_spec.testing import example_call
from pa_spec.validation import validate

_RULE_ID = re.compile(r"\((V\d+)\)$")
_OWN_TYPES = frozenset({"k_scale", "v_scale"})


@dataclass(frozen=True, slots=True)
class RuleCase:
    """A call to be refused by one of rule_ids, or to be accepted when there is none.

    build: the call of a signature, always the same one. by_values: whether its contents decide.
    """

    id: str
    signature: CallSignature
    rule_ids: frozenset[str]
    build: Callable[[CallSignature], OperatorCall]
    by_values: bool = False

    def examine(self, operator: Operator, declaration: Declaration) -> CaseResult:
        """Run the call and see whether it is refused, by which rule, and with nothing changed."""
        signature, missing = self._spoken(declaration)
        if missing:
            return CaseResult(self.id, CaseStatus.NOT_APPLICABLE, missing)
        before = self.build(signature)
        call = before.copy()
        try:
            outputs = operator(call)
        except declaration.refusals as refused:
            return self._refused(
                refused, _changes(before, call), names_rules=declaration.names_rules
            )
        except Exception as error:  # noqa: BLE001, an operator may raise anything
            return self._failed(Reason.CRASHED, f"{type(error).__name__}: {error}")
        if self.rule_ids:
            return self._failed(Reason.ACCEPTED, f"breaks {', '.join(sorted(self.rule_ids))}")
        unusable = _unusable(signature, outputs)
        if unusable:
            return self._failed(Reason.OUTPUT, unusable)
        return CaseResult(self.id, CaseStatus.PASSED)

    def _spoken(self, declaration: Declaration) -> tuple[CallSignature, str]:
        """Return the call in an element type that the operator has, and what it lacks, or ""."""
        if any(each and each.device != "cpu" for _, each in self.signature.inputs.named()):
            return self.signature, "arrays are on the host"
        if self.by_values and not declaration.checks_values:
            return self.signature, "values are not looked at"
        signature = self.signature
        if ElementType.FLOAT32 not in declaration.element_types:
            other = min(declaration.element_types, key=lambda each: each.value)
            signature = _in_another_type(signature, other)
            if {each.rule_id for each in validate(signature)} != {
                each.rule_id for each in validate(self.signature)
            }:
                return signature, f"means something else in {other.value}"
        missing = declaration.missing(signature)
        return signature, f"no {missing}" if missing else ""

    def _refused(self, refused: Exception, changed: str, *, names_rules: bool) -> CaseResult:
        if not self.rule_ids:
            return self._failed(Reason.REFUSED, str(refused))
        if changed:
            return self._failed(Reason.CHANGED, changed)
        if not names_rules:
            return CaseResult(self.id, CaseStatus.PASSED, "refused; its rule is not compared")
        found = str(getattr(refused, "rule_id", "none"))
        if found not in self.rule_ids:
            wanted = " or ".join(sorted(self.rule_ids))
            return self._failed(Reason.RULE, f"expected {wanted}, got {found}: {refused}")
        return CaseResult(self.id, CaseStatus.PASSED)

    def _failed(self, reason: Reason, detail: str) -> CaseResult:
        return CaseResult(self.id, CaseStatus.FAILED, detail, (reason,))


@cache
def rule_cases() -> tuple[RuleCase, ...]:
    """Return every call of validation.json and call_values.json, and each legal neighbour."""
    return (*_signature_cases(), *_value_cases())


def _signature_cases() -> Iterator[RuleCase]:
    for case in vectors("validation"):
        changes = case["changes"]
        found = (_RULE_ID.search(message) for message in case["violations"])
        ids = frozenset(each[1] for each in found if each)
        name = f"rule/{case['id']}"
        yield RuleCase(name, example_call(case["mode"], changes), ids, _material({}))
        if ids:
            legal = example_call(case["mode"], changes | case["neighbour"])
            yield RuleCase(f"{name}/neighbour", legal, frozenset(), _material({}))


def _value_cases() -> Iterator[RuleCase]:
    for case in vectors("call_values"):
        signature = example_call(case["mode"], case["changes"])
        name, values = f"value/{case['id']}", case["values"]
        ids, material = frozenset({case["rule"]}), _material(values)
        yield RuleCase(name, signature, ids, material, by_values=True)
        material = _material(values | case["neighbour"])
        yield RuleCase(f"{name}/neighbour", signature, frozenset(), material, by_values=True)


def _material(values: Mapping[str, Any]) -> Callable[[CallSignature], OperatorCall]:
    return cache(partial(call_of, values=values))


def _in_another_type(signature: CallSignature, other: ElementType) -> CallSignature:
    """Say the same call in another element type of queries."""
    inputs: dict[str, Any] = {
        name: replace(each, element_type=other) if each and _is_float32(name, each) else each
        for name, each in signature.inputs.named()
    }
    return replace(signature, inputs=PagedAttentionInputs(**inputs))


def _is_float32(name: str, tensor: TensorSignature) -> bool:
    return name not in _OWN_TYPES and tensor.element_type is ElementType.FLOAT32


def _unusable(signature: CallSignature, outputs: object) -> str:
    """Say why outputs cannot be those of a legal call on finite numbers, "" when they can."""
    if not isinstance(outputs, PagedAttentionOutputs):
        return f"expected PagedAttentionOutputs, got {type(outputs).__name__}"
    attributes, query = signature.attributes, signature.inputs.query
    is_latent = attributes.kv_cache_layout == KvCacheLayout.LATENT.value
    width = (is_latent and attributes.v_head_size) or signature.head_size
    shape, output = (signature.num_tokens, attributes.num_heads * width), outputs.output
    if not isinstance(output, np.ndarray) or output.shape != shape:
        found = getattr(output, "shape", type(output).__name__)
        return f"output: expected an array {list(shape)}, got {found}"
    if output.dtype != storage_dtype(query.element_type):
        return f"output: expected {storage_dtype(query.element_type)}, got {output.dtype}"
    if not np.isfinite(decode(output, query.element_type)).all():
        return "output: expected finite numbers"
    return ""


def _changes(before: OperatorCall, after: OperatorCall) -> str:
    for (name, old), (_, new) in zip(before.inputs.named(), after.inputs.named(), strict=True):
        if old is not None and new is not None and old.tobytes() != new.tobytes():
            return f"{name} changed"
    return ""
