"""The state that the parts of one engine share, and who may touch it when."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pa_spec import (
    DecoderConfig,
    EngineFailed,
    RequestId,
    StepCache,
    StepId,
    StepLimits,
    rules,
)

from pa_engine.events import EventQueue
from pa_engine.options import GeneratorParams
from pa_engine.record import RequestRecord
from pa_engine.residents import ResidentTable
from pa_engine.statistics import StatisticsRecorder
from pa_engine.waiting import WaitingQueue

if TYPE_CHECKING:
    from pa_engine.request import Request


class RequestRegistry:
    """Every request that is not closed, and every handle that is still alive.

    records: id → record, the engine's strong reference (E5). handles: id → weak reference to the
    caller's handle; when the last handle dies, on whatever thread, its id lands in `abandoned`
    (a deque, whose append is atomic) and the owner thread cleans up at its next call (E22).
    """

    def __init__(self) -> None:
        self.records: dict[int, RequestRecord] = {}
        self.handles: dict[int, weakref.ref[Request]] = {}
        self.abandoned: deque[int] = deque()
        self._next_id = 0

    def add(self, params: GeneratorParams, session_limit: int) -> RequestRecord:
        """Create a record with an id that was never used before."""
        record = RequestRecord(RequestId(self._next_id), params, session_limit)
        self._next_id += 1
        self.records[record.request_id] = record
        return record

    def watch(self, request_id: RequestId, handle: Request) -> None:
        """Learn of the handle's death without keeping it alive."""
        abandoned = self.abandoned
        self.handles[request_id] = weakref.ref(handle, lambda _: abandoned.append(request_id))


@dataclass(slots=True)
class EngineCore:
    """What requests, steps and the run loop of one engine work on.

    session_limit: ceiling of every request's sequence. columns: most block-table columns.
    step_lock is held while a step runs: nothing may be called from inside one (an observer, an
    executor); a lock, because it is taken and left in one piece whatever interrupts. failure is
    the stored error after a fatal step (E37, E88), last_abort what the newest step that was
    undone and may be retried raised.
    """

    cache: StepCache
    decoder: DecoderConfig
    limits: StepLimits
    session_limit: int
    residents: ResidentTable
    waiting: WaitingQueue = field(default_factory=WaitingQueue)
    registry: RequestRegistry = field(default_factory=RequestRegistry)
    queue: EventQueue = field(init=False)
    statistics: StatisticsRecorder = field(default_factory=StatisticsRecorder)
    owner: int = field(default_factory=threading.get_ident)
    failure: EngineFailed | None = None
    last_abort: BaseException | None = None
    closed: bool = False
    last_step: int = 0
    step_lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.queue = EventQueue(self.registry.handles)

    @property
    def stepping(self) -> bool:
        """Whether a step runs: nothing may be called from inside one."""
        return self.step_lock.locked()

    def require_owner(self, rule: str, call: str) -> None:
        """Raise unless the owner thread calls, outside a step, on an engine that lives (E3)."""
        if threading.get_ident() != self.owner:
            raise rules()[rule].violation(call, "another", "thread")
        if self.stepping:
            raise rules()[rule].violation(call, "one from inside a step", "step")
        if self.closed:
            raise rules()[rule].violation(call, "a closed one", "closed")

    def require_healthy(self) -> None:
        """Raise the stored error of an engine that has failed (E37)."""
        if self.failure is not None:
            raise self.failure.with_traceback(None)  # else every call would lengthen it

    @property
    def step_in_flight(self) -> StepId:
        """The newest step that may still write, 0 when none: steps end inside `run` here."""
        return StepId(self.last_step if self.stepping else 0)

    def has_work(self) -> bool:
        """Whether a request waits or runs (E36)."""
        return bool(len(self.waiting)) or bool(len(self.residents.view().resident))
