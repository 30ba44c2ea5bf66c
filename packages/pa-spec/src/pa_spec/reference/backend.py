"""The page about backends: which calls each serves, and the matrix of features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pa_spec.contract import (
    BackendLimit,
    FeatureRecord,
    RuleStatus,
    backend_features,
    backends,
    feature_tests,
)
from pa_spec.reference.markdown import code, table


def backend_parts() -> Iterator[str]:
    """Yield the parts of the page."""
    yield (
        "A call goes to the first backend that is eligible; selection looks at the call's "
        "signature and at nothing else. `pa_kernels.explain` and `pa_spec.backend_reasons` say of "
        "each backend why it does not serve a call."
    )
    yield "## Order of trial"
    yield backend_table()
    yield "## What they refuse"
    yield limit_table()
    yield "## Features"
    yield (
        "*planned*: the backend is pending and will have it. *prologue*: the same code for every "
        "backend, before attention. The numbers are the tests behind a cell, listed below: an "
        "example computed by hand, a comparison with somebody else's operator, problems that are "
        "drawn and compared with the oracle; of what is refused, the test that it is."
    )
    yield matrix_table()
    yield "## Tests behind the cells"
    yield test_table()


def backend_table() -> str:
    """Write the backends as a table, in the order of trial."""
    return table(
        ("backend", "device", "work", "serves", "status"),
        (
            (code(r.name), r.device, r.work, r.eligible, _status(r.status, r.feature))
            for r in backends().values()
        ),
    )


def limit_table() -> str:
    """Write the limits of the backends that are there as a table."""
    return table(
        ("backend", "looked at", "served", "reason given otherwise"),
        (
            (code(row.name), limit.of.replace("_", " "), _served(limit), limit.reason)
            for row in backends().values()
            for limit in row.limit
        ),
    )


def matrix_table() -> str:
    """Write what each backend has of each feature as a table."""
    return table(
        ("feature", *map(code, backends())),
        ((row.name, *_cells(row)) for row in backend_features().values()),
    )


def test_table() -> str:
    """Write the tests behind the cells as a table, by the numbers that the cells give."""
    return table(
        ("number", "test"), ((number, code(node)) for node, number in _test_numbers().items())
    )


def _test_numbers() -> Mapping[str, int]:
    nodes = dict.fromkeys(node for cell in feature_tests().values() for node in cell)
    return {node: number for number, node in enumerate(nodes, 1)}


def _status(status: RuleStatus, feature: str) -> str:
    return f"{status.value}: {feature}" if feature else status.value


def _served(limit: BackendLimit) -> str:
    if limit.most:
        return f"at most {limit.most}"
    return ", ".join(code(each) if each else "query's" for each in limit.allowed)


def _cells(row: FeatureRecord) -> Iterator[str]:
    numbers = _test_numbers()
    for name, backend in backends().items():
        answer = row.backends[name]
        if backend.status is RuleStatus.PENDING:
            yield answer.replace("yes", "planned")
        else:
            tests = " ".join(str(numbers[node]) for node in feature_tests()[row.name, name])
            yield f"{answer} ({tests})"
