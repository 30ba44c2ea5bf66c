"""The normative data of spec/, as frozen records; each file is read on first use."""

from pa_spec.contract.rule import (
    Check,
    CheckScope,
    Decider,
    Invariant,
    Rule,
    RuleStatus,
    checks,
    invariants,
    rules,
)
from pa_spec.contract.version import CONTRACT_VERSION, check_contract_version

__all__ = [
    "CONTRACT_VERSION",
    "Check",
    "CheckScope",
    "Decider",
    "Invariant",
    "Rule",
    "RuleStatus",
    "check_contract_version",
    "checks",
    "invariants",
    "rules",
]
