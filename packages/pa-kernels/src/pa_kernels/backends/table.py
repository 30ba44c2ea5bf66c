"""The table of backends, in the order in which they are tried."""

from __future__ import annotations

from importlib.util import find_spec

from pa_spec import CallSignature, rules

from pa_kernels.backends.backend import Backend
from pa_kernels.backends.missing import MissingBackend
from pa_kernels.backends.reference import ReferenceBackend


def _cpu() -> Backend:
    if find_spec("pa_kernels._cpu") is None:
        return MissingBackend("cpu")
    from pa_kernels.backends.cpu import CpuBackend

    return CpuBackend()


def _cuda() -> Backend:
    if find_spec("pa_kernels._cuda") is None:
        return MissingBackend("cuda")
    return MissingBackend("cuda", "attention: this build stores keys and values only")


BACKENDS: tuple[Backend, ...] = (_cuda(), _cpu(), ReferenceBackend())
"""The first one that supports a call serves it; the oracle stands last."""


_RULE_OF_FEATURE = {"attention_bias": "V68", "output_qk": "V70", "qk_output": "V70"}


def select(signature: CallSignature, name: str | None = None) -> Backend:
    """Return the first backend that supports the call, or the named one.

    Raises ContractViolation when none does, naming every backend's reason (V59), and when the
    named one does not, naming feature, backend and limit (V68, V70, V71).
    """
    if name is not None:
        return _named(signature, name)
    reasons = []
    for backend in BACKENDS:
        reason = backend.unsupported(signature)
        if reason is None:
            return backend
        reasons.append(f"{backend.name}: {reason}")
    raise rules()["V59"].violation("backend", "; ".join(reasons))


def _named(signature: CallSignature, name: str) -> Backend:
    for backend in BACKENDS:
        if backend.name != name:
            continue
        reason = backend.unsupported(signature)
        if reason is not None:
            feature = reason.replace(":", " ").split(maxsplit=1)[0]
            rule = rules()[_RULE_OF_FEATURE.get(feature, "V71")]
            case = "feature" if rule.id == "V71" else ""
            raise rule.violation("backend", reason, case, backend=name)
        return backend
    known = ", ".join(backend.name for backend in BACKENDS)
    raise rules()["V71"].violation("backend", name, "unknown", known=known)
