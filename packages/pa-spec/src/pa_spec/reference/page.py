"""All pages of the reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pa_spec.contract import CONTRACT_VERSION
from pa_spec.reference.backend import backend_parts
from pa_spec.reference.configuration import configuration_parts
from pa_spec.reference.engine import engine_parts
from pa_spec.reference.finding import finding_parts
from pa_spec.reference.model import model_parts
from pa_spec.reference.operator import operator_parts
from pa_spec.reference.rule import invariant_parts, rule_parts


def pages() -> Mapping[str, str]:
    """Return the text of each page by its file name."""
    return {
        "operator.md": _page("The operator", operator_parts()),
        "backends.md": _page("Backends", backend_parts()),
        "rules.md": _page("Validation rules", rule_parts()),
        "invariants.md": _page("Invariants", invariant_parts()),
        "engine.md": _page("The engine", engine_parts()),
        "configuration.md": _page("Configuration and state", configuration_parts()),
        "models.md": _page("Models that the checker knows", model_parts()),
        "findings.md": _page("Findings of the model checker", finding_parts()),
    }


def _page(title: str, parts: Iterable[str]) -> str:
    note = (
        f"Contract {CONTRACT_VERSION}. This page is generated from `spec/` by "
        "`python -m pa_spec.render --write`; change the tables there."
    )
    return "\n\n".join((f"# {title}", note, *parts)) + "\n"
