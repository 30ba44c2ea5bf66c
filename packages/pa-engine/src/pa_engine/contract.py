"""Which contract the engine follows, and the check that its collaborators follow it too."""

from __future__ import annotations

import sys

from pa_spec import CONTRACT_VERSION, check_contract_version

IMPLEMENTS_CONTRACT = "1.0"
"""The contract's version (spec/VERSION) that the engine was written to."""


def require_contract(role: str, collaborator: object) -> None:
    """Refuse a collaborator, an object or a class, written to an incompatible contract.

    It states its version as an attribute `implements_contract`, or its package does once for all
    as IMPLEMENTS_CONTRACT at its root. One that says nothing is taken at the current version.

    Raises ContractViolation that names the collaborator and both versions.
    """
    module: str = getattr(collaborator, "__module__", type(collaborator).__module__)
    package = sys.modules.get(module.partition(".")[0])
    of_package: object = getattr(package, "IMPLEMENTS_CONTRACT", CONTRACT_VERSION)
    stated: object = getattr(collaborator, "implements_contract", of_package)
    name: str = getattr(collaborator, "__qualname__", type(collaborator).__qualname__)
    check_contract_version(f"{role} {module}.{name}", str(stated))
