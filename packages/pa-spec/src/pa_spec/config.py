"""Configuration of an engine: `engine.dynamic_batching` and the search keys it uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

from pa_spec.errors import InputUnusable


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Limits of one engine (contract sections 13.1 and 13.3).

    block_size: token slots of a block, a power of two, at least 16. num_blocks: blocks of the
    pool, None = as many as memory_budget_bytes holds. max_batch_size: rows of a step and
    residents at once. max_scheduled_tokens: packed tokens of a step. chunk_size: prompt tokens
    of one request in one step, 0 = no cap. max_session_tokens: ceiling of a request's sequence, 0 =
    the model's context length. reserve_turn_limit: admit a turn only when its prompt and
    generation limit can be promised, so that nothing ever waits for growth.

    Raises InputUnusable for a value outside its range (V29, V72).
    """

    block_size: int = 16
    num_blocks: int | None = None
    max_batch_size: int = 16
    max_scheduled_tokens: int = 2048
    chunk_size: int = 0
    max_session_tokens: int = 0
    memory_budget_bytes: int | None = None
    reserve_turn_limit: bool = False

    def __post_init__(self) -> None:
        size: object = self.block_size
        if not _is_int(size) or size < 16 or size & (size - 1):
            raise InputUnusable("block_size", repr(size), "a power of two, at least 16 (V29)")
        for name in ("num_blocks", "memory_budget_bytes"):
            value = getattr(self, name)
            if value is not None:
                _require_int(name, value, least=1)
        for name in ("max_batch_size", "max_scheduled_tokens"):
            _require_int(name, getattr(self, name), least=1)
        for name in ("chunk_size", "max_session_tokens"):
            _require_int(name, getattr(self, name), least=0)


_INT32_MAX = 2**31 - 1


def _require_int(name: str, value: object, least: int) -> None:
    limit = 2**63 - 1 if name.endswith("_bytes") else _INT32_MAX
    if not _is_int(value) or not least <= value <= limit:
        raise InputUnusable(name, repr(value), f"an integer from {least} to {limit} (V72)")


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
