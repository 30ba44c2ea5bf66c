"""The engine: requests in, steps run, events out."""

from __future__ import annotations

import weakref
from typing import Generic, final

from pa_cache import PagedCacheManager
from pa_kernels import uniform_from_counter
from pa_scheduler import DecodeFirstPolicy
from pa_spec import (
    EngineConfig,
    InputUnusable,
    ModelExecutor,
    Phase,
    SchedulerPolicy,
    StepCache,
    StepId,
    StepLimits,
    StepObserver,
    Violation,
    check_manifest,
    rules,
)

from pa_engine.contract import require_contract
from pa_engine.core import EngineCore
from pa_engine.events import EventBatch, EventBuffer, empty_columns
from pa_engine.invariants import check_all
from pa_engine.lifecycle import RequestLifecycle
from pa_engine.options import GeneratorParams, RequestOptions, require_type
from pa_engine.request import Request
from pa_engine.residents import ResidentTable
from pa_engine.snapshot import EngineSnapshot, take_snapshot
from pa_engine.statistics import EngineStatistics
from pa_engine.step import StepTransaction
from pa_engine.step.in_flight import HandleT

_INT32_MAX = 2**31 - 1


@final
class SilentObserver:
    """The observer of an engine that nobody watches."""

    def phase(self, phase: Phase, step_id: StepId) -> None:
        """Take note of nothing."""


@final
class Engine(Generic[HandleT]):
    """Continues many requests together; every step is a transaction.

    executor: TorchExecutor(decoder), or anything that is a ModelExecutor. config: limits and the
    size of the pool. cache, policy, observer: yours in place of ours. The thread that makes an
    engine owns it: every call on it and on its requests must come from there (E3).

        engine = Engine(TorchExecutor(decoder), EngineConfig(num_blocks=256))
        request = engine.create_request(GeneratorParams(max_generated_tokens=16))
        request.begin_turn(tokens)
        while engine.has_pending_requests():
            for event in engine.run(max_events=64): ...

    Raises InputUnusable when the pool cannot be sized or a limit is out of range, and
    ContractViolation when a collaborator was written to an incompatible contract or the executor's
    manifest is none (V77, V82).
    """

    def __init__(
        self,
        executor: ModelExecutor[HandleT],
        config: EngineConfig | None = None,
        *,
        cache: StepCache | None = None,
        policy: SchedulerPolicy | None = None,
        observer: StepObserver | None = None,
    ) -> None:
        config = EngineConfig() if config is None else config
        require_type("V72", "config", config, EngineConfig)
        for name in ("manifest", "config", "bind", "launch", "collect", "discard"):
            if not hasattr(executor, name):
                found = f"{type(executor).__name__} without {name}"
                raise rules()["V92"].violation("executor", found, "executor")
        for role, part, default in (
            ("executor", executor, None),
            ("cache", cache, PagedCacheManager),
            ("policy", policy, DecodeFirstPolicy),
            ("observer", observer, SilentObserver),
            ("sampling", None, uniform_from_counter),
        ):
            require_contract(role, default if part is None else part)
        session = _session_limit(config, executor.config.context_length)
        limits = StepLimits(
            config.max_batch_size,
            config.max_scheduled_tokens,
            config.chunk_size,
            config.reserve_turn_limit,
        )
        if executor.manifest.groups:  # none: an executor that keeps no state in tensors
            check_manifest(executor.manifest)
        if cache is None:
            manifest, device = executor.manifest, executor.config.device
            cache = PagedCacheManager.for_manifest(manifest, config, session, device)
        columns = -(-min(cache.max_sequence_tokens, session) // cache.block_size)
        executor.bind(cache.decoder_state, limits, columns)
        self._core = EngineCore(
            cache, executor.config, limits, session, ResidentTable(limits.max_batch_size)
        )
        self._lifecycle = RequestLifecycle(self._core)
        self._transaction = StepTransaction(
            self._core,
            self._lifecycle,
            executor,
            DecodeFirstPolicy(cache.block_size, columns) if policy is None else policy,
            SilentObserver() if observer is None else observer,
        )

    def create_request(
        self, params: GeneratorParams | None = None, options: RequestOptions | None = None
    ) -> Request:
        """Make a request. Keep the handle: dropping the last one closes the request (E22)."""
        return self._lifecycle.create(params, options)

    def create_event_buffer(self, capacity: int) -> EventBuffer:
        """Make a buffer of so many events that `run` fills again and again (E33)."""
        _require_capacity(capacity)
        owner: weakref.ref[object] = weakref.ref(self)
        return EventBuffer(capacity, owner, self._core.registry.handles)

    def run(
        self, buffer: EventBuffer | None = None, *, max_events: int | None = None
    ) -> EventBatch:
        """Deliver retained events or try one step; return up to the capacity's events (E32).

        Give a buffer or max_events; with neither every event of the step is returned. An empty
        result while has_pending_requests() is true is committed progress of a prompt (E35).
        Capacity 0 validates and does nothing else (E31). Raises the stored EngineFailed of an
        engine that has failed once its events are delivered (E37), and what the policy or the
        cache raised while planning, which changed nothing (E55).
        """
        core = self._core
        core.require_owner("V92", "run")
        capacity = self._capacity(buffer, max_events)
        if buffer is not None:
            buffer.columns = empty_columns(0)  # should the step raise, nothing is delivered twice
        if capacity == 0:
            core.require_healthy()
        else:
            self._lifecycle.reclaim()
            if not len(core.queue):
                core.require_healthy()
                with core.step_lock:
                    outcome = self._transaction.execute()
                core.statistics.outcomes[outcome] += 1
        columns = core.queue.drain(capacity)
        if buffer is None:
            return EventBatch(columns, core.registry.handles)
        buffer.columns = columns
        return buffer

    def has_pending_requests(self) -> bool:
        """Whether events wait for delivery or requests for work, after cleaning up (E36)."""
        core = self._core
        core.require_owner("V92", "has_pending_requests")
        self._lifecycle.reclaim()
        return bool(len(core.queue)) or (core.failure is None and core.has_work())

    @property
    def last_abort(self) -> BaseException | None:
        """What the newest step raised that was undone and may be retried, None before any.

        Events carry a code only; this says why.
        """
        return self._core.last_abort

    def statistics(self) -> EngineStatistics:
        """Return counts and times since the engine was made."""
        core = self._core
        return core.statistics.read(core.cache.usage.total)

    def snapshot(self) -> EngineSnapshot:
        """Return everything committed as a value, to compare before and after a step."""
        return take_snapshot(self._core)

    def check_all(self) -> tuple[Violation, ...]:
        """Scan all state for broken invariants; empty when all is well."""
        return tuple(check_all(self._core))

    def close(self) -> None:
        """Close every request and give everything back; idempotent (E23).

        Surviving handles are closed tombstones.
        """
        core = self._core
        if core.closed:
            return
        core.require_owner("V92", "close")
        for record in list(core.registry.records.values()):
            self._lifecycle.close(record)
        core.closed = True

    def _capacity(self, buffer: EventBuffer | None, max_events: int | None) -> int:
        if buffer is None:
            if max_events is None:
                return _INT32_MAX
            _require_capacity(max_events)
            return max_events
        if max_events is not None:
            raise rules()["V92"].violation("run", "both", "either")
        require_type("V92", "buffer", buffer, EventBuffer)
        if buffer.owner() is not self:
            raise rules()["V92"].violation("buffer", "another's", "buffer")
        return buffer.capacity

    def __repr__(self) -> str:
        core, usage = self._core, self._core.cache.usage
        return (
            f"Engine(requests={len(core.registry.records)}, waiting={len(core.waiting)}, "
            f"events={len(core.queue)}, blocks={usage}, failed={core.failure is not None})"
        )


def _session_limit(config: EngineConfig, context_length: int) -> int:
    asked = config.max_session_tokens
    if asked > context_length:
        allowed = f"at most the model's context length {context_length}"
        raise InputUnusable("max_session_tokens", str(asked), allowed)
    return asked or context_length


def _require_capacity(capacity: object) -> None:
    legal = isinstance(capacity, int) and not isinstance(capacity, bool)
    if not legal or not 0 <= int(str(capacity)) <= _INT32_MAX:
        found = repr(capacity)
        raise rules()["V92"].violation("capacity", found, "capacity", most=_INT32_MAX)
