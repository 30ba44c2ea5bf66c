"""The backends: which calls each serves in this release, and the matrix of features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from types import MappingProxyType
from typing import Any

from pa_spec.contract.data import by_id, records, table
from pa_spec.contract.rule import RuleStatus
from pa_spec.operator import CallSignature

_FILE = "operator/backends.toml"
_TESTS = "operator/feature_tests.toml"


@dataclass(frozen=True, slots=True)
class BackendLimit:
    """One limit: what of the call is looked at, what is served, and the reason otherwise.

    allowed: the values served. most: the largest number served, 0 = not about a number.
    """

    of: str
    reason: str
    allowed: tuple[str, ...] = ()
    most: int = 0


@dataclass(frozen=True, slots=True)
class BackendRecord:
    """One backend (spec/operator/backends.toml says what the fields mean)."""

    name: str
    device: str
    work: str
    eligible: str
    status: RuleStatus
    feature: str = ""
    limit: tuple[BackendLimit, ...] = ()


@dataclass(frozen=True, slots=True)
class FeatureRecord:
    """One line of the matrix: an example call that uses the feature, and each backend's answer."""

    name: str
    example: Mapping[str, Any]
    backends: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FeatureTests:
    """Tests of a feature by node id; each runs on every backend that serves the feature.

    example: computed by hand. third_party: against somebody else's operator. drawn: random problems
    against the oracle.
    """

    feature: str
    example: str
    third_party: str
    drawn: str

    @property
    def nodes(self) -> tuple[str, ...]:
        """The three ids."""
        return (self.example, self.third_party, self.drawn)


@cache
def backends() -> Mapping[str, BackendRecord]:
    """Return the backends by name, in the order in which a call tries them."""
    rows = (
        row | {"limit": records(BackendLimit, row.get("limit", ()))}
        for row in table(_FILE)["backend"]
    )
    return by_id(records(BackendRecord, tuple(rows)), "name")


@cache
def backend_features() -> Mapping[str, FeatureRecord]:
    """Return the lines of the feature matrix by name."""
    return by_id(records(FeatureRecord, table(_FILE)["feature"]), "name")


@cache
def feature_tests() -> Mapping[tuple[str, str], tuple[str, ...]]:
    """Return the ids of the tests behind each cell of the matrix, by feature and backend.

    What an active backend has not is refused, which has its test too; cells of a pending backend
    have none.
    """
    served = by_id(records(FeatureTests, table(_TESTS)["feature"]), "feature")
    refused = (table(_TESTS)["refused"],)
    active = [name for name, row in backends().items() if row.status is RuleStatus.ACTIVE]
    return MappingProxyType(
        {
            (row.name, name): refused if row.backends[name] == "no" else served[row.name].nodes
            for row in backend_features().values()
            for name in active
        }
    )


def backend_reasons(signature: CallSignature) -> Mapping[str, str]:
    """Say for each backend, in order, why it does not serve a call; "" where it is eligible.

    The call keeps the rules (`validate` finds nothing); only its signature is looked at.
    """
    return MappingProxyType({name: _reason(row, signature) for name, row in backends().items()})


def _reason(backend: BackendRecord, signature: CallSignature) -> str:
    if backend.status is RuleStatus.PENDING:
        return f"pending: {backend.feature}"
    query = signature.inputs.query.element_type.value
    for limit in backend.limit:
        found = _PARTS[limit.of](signature)
        is_served = int(found) <= limit.most if limit.most else found in limit.allowed
        if not is_served:
            return limit.reason.format(found=found, query=query, most=limit.most)
    return ""


def _cache_type(signature: CallSignature) -> str:
    inputs = signature.inputs
    found = inputs.key_cache.element_type
    return "" if found is inputs.query.element_type else found.value


def _score_bytes(signature: CallSignature) -> str:
    """Bytes of output_qk, [H, T, context]; 0 when it is not asked for."""
    if signature.output_qk_type is None:
        return "0"
    columns = signature.inputs.block_table.shape[1]
    capacity = columns * signature.inputs.key_cache.shape[1]
    bound = signature.metadata[1] if signature.metadata else 0
    extents = (
        signature.attributes.num_heads,
        signature.num_tokens,
        min(bound or capacity, capacity),
    )
    return str(prod(extents) * signature.output_qk_type.itemsize)


_PARTS: Mapping[str, Callable[[CallSignature], str]] = {
    "device": lambda call: call.device,
    "element_type": lambda call: call.inputs.query.element_type.value,
    "kv_cache_layout": lambda call: call.attributes.kv_cache_layout,
    "cache_type": _cache_type,
    "attention_bias": lambda call: "none" if call.inputs.attention_bias is None else "given",
    "qk_output": lambda call: str(call.attributes.qk_output),
    "output_qk_bytes": _score_bytes,
}
