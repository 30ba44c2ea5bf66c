"""The place in the table of a backend whose compiled part is not there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, final

from pa_spec import CallSignature, rules


@final
@dataclass(frozen=True, slots=True)
class MissingBackend:
    """Stands for a backend that this installation lacks, so that explain can say so."""

    name: str
    reason: str = "not built"

    def unsupported(self, signature: CallSignature) -> str:  # noqa: ARG002
        """Return why it serves nothing."""
        return self.reason

    def prepare(self, signature: CallSignature) -> NoReturn:
        """Refuse: `select` never offers it a call."""
        raise rules()["V71"].violation("backend", f"{self.name}, {signature}", "built")
