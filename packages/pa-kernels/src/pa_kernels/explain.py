"""Which backend serves a call, and why the others do not."""

from __future__ import annotations

from dataclasses import dataclass

from pa_spec import CallSignature, check

from pa_kernels.backends.table import BACKENDS

SELECTED = "selected"


@dataclass(frozen=True, slots=True)
class BackendVerdict:
    """One backend's part in a call.

    reason: why it is out, "selected", or "eligible, tried later" behind the selected one.
    """

    backend: str
    reason: str

    @property
    def is_selected(self) -> bool:
        """Whether this backend serves the call."""
        return self.reason == SELECTED

    def __str__(self) -> str:
        return f"{self.backend}: {self.reason}"


def explain(signature: CallSignature) -> tuple[BackendVerdict, ...]:
    """List every backend in the order of trial; reads nothing but the signature.

    Raises ContractViolation for a signature that breaks a rule of the contract.
    """
    check(signature)
    verdicts: list[BackendVerdict] = []
    is_taken = False
    for backend in BACKENDS:
        reason = backend.unsupported(signature)
        if reason is None:
            reason = "eligible, tried later" if is_taken else SELECTED
            is_taken = True
        verdicts.append(BackendVerdict(backend.name, reason))
    return tuple(verdicts)
