"""A legal call with its expected results, and the verdict on what an operator did with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from pa_spec.arrays import Float64Array
from pa_spec.conformance.call import Operator, OperatorCall
from pa_spec.conformance.declaration import Declaration
from pa_spec.conformance.element import Array, encode, is_integer
from pa_spec.conformance.report import CaseResult, CaseStatus, Reason
from pa_spec.conformance.wanted import EXACT, Tolerance, Wanted, Written
from pa_spec.element_type import ElementType
from pa_spec.operator import CallSignature, PagedAttentionInputs, PagedAttentionOutputs

CACHES = ("key_cache", "value_cache")


class Fill(Enum):
    """What slots hold that nobody has written: a mark that spoils every result, or zeros."""

    MARK = "mark"
    ZERO = "zero"


@dataclass(frozen=True, slots=True)
class Expected:
    """Results of a call. None: not compared.

    output: [T, H*Dv]. output_qk: [H, T, context]. slots: by cache, what the call writes; every
    other slot keeps its bits. near, stored: tolerances of outputs and of slots.
    """

    output: Wanted | None
    output_qk: Wanted | None
    slots: Mapping[str, Written]
    near: Tolerance
    stored: Tolerance = EXACT


@dataclass(frozen=True, slots=True)
class Problem:
    """build gives the call, always the same one; an operator gets a copy."""

    id: str
    build: Callable[[Fill], OperatorCall]
    expected: Expected

    @property
    def signature(self) -> CallSignature:
        """The signature of the call."""
        return self.build(Fill.MARK).signature

    def examine(self, operator: Operator, declaration: Declaration) -> CaseResult:
        """Run the call and compare everything that it may and may not change."""
        before = self.build(Fill.MARK)
        missing = declaration.missing(self.signature)
        if missing:
            return CaseResult(self.id, CaseStatus.NOT_APPLICABLE, f"no {missing}")
        found = self._attempt(operator, declaration, before)
        wrong = {Reason.OUTPUT, Reason.OUTPUT_QK}
        if found and found[0][0] in wrong:
            # With zeros in the unused slots a leak changes nothing that anybody could see.
            clean = self._attempt(operator, declaration, self.build(Fill.ZERO))
            if not any(reason in wrong for reason, _ in clean):
                found = [(Reason.LEAK, found[0][1])]
                found += clean
        if not found:
            return CaseResult(self.id, CaseStatus.PASSED)
        reasons = tuple(dict.fromkeys(reason for reason, _ in found))
        return CaseResult(self.id, CaseStatus.FAILED, found[0][1], reasons)

    def _attempt(
        self, operator: Operator, declaration: Declaration, before: OperatorCall
    ) -> list[tuple[Reason, str]]:
        call = before.copy()
        try:
            outputs = operator(call)
        except declaration.refusals as refused:
            return [(Reason.REFUSED, str(refused))]
        except Exception as error:  # noqa: BLE001, an operator may raise anything
            return [(Reason.CRASHED, f"{type(error).__name__}: {error}")]
        return list(self._differences(before, call, outputs))

    def _differences(
        self, before: OperatorCall, after: OperatorCall, outputs: object
    ) -> Iterator[tuple[Reason, str]]:
        if not isinstance(outputs, PagedAttentionOutputs):
            yield Reason.OUTPUT, f"expected PagedAttentionOutputs, got {type(outputs).__name__}"
            return
        expected, signature = self.expected, before.signature
        query_type = signature.inputs.query.element_type
        compared = (
            (Reason.OUTPUT, "output", outputs.output, expected.output, query_type),
            (
                Reason.OUTPUT_QK,
                "output_qk",
                outputs.output_qk,
                expected.output_qk,
                signature.output_qk_type or ElementType.FLOAT32,
            ),
        )
        for reason, name, actual, wanted, element_type in compared:
            if wanted is not None:
                said = wanted.difference(actual, element_type, expected.near)
                if said:
                    yield reason, f"{name}{said}"
        for name in CACHES:
            if getattr(before.inputs, name) is not None:
                yield from self._cache_differences(name, before, after)
        yield from _input_differences(before.inputs, after.inputs)

    def _cache_differences(
        self, name: str, before: OperatorCall, after: OperatorCall
    ) -> Iterator[tuple[Reason, str]]:
        old: Array = getattr(before.inputs, name)
        new: Array = getattr(after.inputs, name)
        element_type = before.element_type(name)
        old, new = (each.reshape(-1, *each.shape[2:]) for each in (old, new))
        written = self.expected.slots[name]
        if written.wanted is not None:
            held, slots = new[list(written.slots)], written.slots
            said = written.wanted.difference(held, element_type, self.expected.stored, slots)
            if said:
                yield Reason.STORED, f"{name}{said}"
        same = _same_slots(old, new)
        same[list(written.slots)] = True
        touched = np.flatnonzero(~same).tolist()
        if touched:
            yield Reason.TOUCHED, f"{name}: slots {touched[:8]} changed"


def filled_cache(
    shape: tuple[int, ...],
    element_type: ElementType,
    slots: Mapping[int, Float64Array],
    fill: Fill,
) -> Array:
    """Make a cache [N, S, K, D] with these slots written; the others hold the fill.

    Numbers without a NaN are marked with the largest instead.
    """
    mark = 127.0 if is_integer(element_type) else np.nan
    flat = np.full((shape[0] * shape[1], *shape[2:]), mark if fill is Fill.MARK else 0.0)
    for slot, values in slots.items():
        flat[slot] = values
    return encode(flat, element_type).reshape(shape)


def _same_slots(old: Array, new: Array) -> Array:
    """Compare slots [slots, K, D] by their bits, NaN included."""
    bits = [np.ascontiguousarray(each).view(np.uint8).reshape(len(each), -1) for each in (old, new)]
    same: Array = (bits[0] == bits[1]).all(axis=1)
    return same


def _input_differences(
    before: PagedAttentionInputs[Array], after: PagedAttentionInputs[Array]
) -> Iterator[tuple[Reason, str]]:
    for (name, old), (_, new) in zip(before.named(), after.named(), strict=True):
        if old is None or new is None or name in CACHES:
            continue
        if old.tobytes() != new.tobytes():
            yield Reason.INPUT, f"{name} changed"
