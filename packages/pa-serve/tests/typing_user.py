"""A user's code, which must type-check: `mypy --strict` reads it, nothing runs it."""

from __future__ import annotations

from pa_serve import ExitStatus, __version__, main


def use(prompt: str) -> str:
    status: int = main(["generate", "--model", "smollm2", "--prompt", prompt])
    if status == ExitStatus.INPUT_UNUSABLE:
        return "refused"
    version: str = __version__
    return f"{ExitStatus(status).name} by {version}"
