"""The seams between packages: every collaborator of the engine, as a Protocol.

A class of your own that has these members can take the place of ours. None of them has more than
six methods, and each method says what it may change and when its result is safe to use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from pa_spec.arrays import BoolArray, Int32Array, Int64Array, StepId
from pa_spec.errors import Violation
from pa_spec.lifecycle import Phase
from pa_spec.plan import Admission, Candidates, ResidentView, StepLimits, StepPlan, WaitingView
from pa_spec.state import DecoderConfig, DecoderState, StateManifest, TensorT
from pa_spec.step import BlockUsage, SampledTokens, StepInputs, StepWork, TableDelta

HandleT = TypeVar("HandleT")


class SchedulerPolicy(Protocol):
    """Decides order and packing; pure functions of views."""

    def order(self, residents: ResidentView, waiting: WaitingView) -> Candidates:
        """Put every executable request in the order in which it should be served (E41, E42)."""

    def pack(self, candidates: Candidates, admission: Admission, limits: StepLimits) -> StepPlan:
        """Give each selected row its tokens and its place in the packed input (E50, E51)."""


class StepReservation(Protocol):
    """Blocks held for one step: reserved, then either published or discarded."""

    @property
    def table(self) -> TableDelta:
        """Block-table entries that the step may write, invisible to committed state (E62)."""

    def validate(self) -> Sequence[Violation]:
        """Check, changing nothing, everything that `publish` relies on (E81, check_step)."""

    def prepare(self) -> None:
        """Do the last fallible work; committed state stays as it is (E76)."""

    def publish(self) -> None:
        """Make the reservation committed state (E79). Cannot fail after `validate` was empty."""

    def discard(self) -> None:
        """Give everything back, and with it every later reservation; idempotent (E84)."""


class StepCache(Protocol):
    """Owns blocks and block tables by resident index (E58, E64)."""

    @property
    def decoder_state(self) -> DecoderState[object] | None:
        """Cache tensors for the executor to bind, None when nothing stores keys and values."""

    @property
    def usage(self) -> BlockUsage:
        """Blocks by state."""

    @property
    def block_size(self) -> int:
        """Token slots of a block."""

    @property
    def max_sequence_tokens(self) -> int:
        """Tokens that one sequence can hold at most when it has the pool to itself."""

    def plan_admission(self, candidates: Candidates, limits: StepLimits) -> Admission:
        """Decide, changing nothing, who can run (E43 to E48)."""

    def reserve(self, step_id: StepId, plan: StepPlan) -> StepReservation:
        """Reserve every block that the plan needs, or none and raise (E57)."""

    def release(
        self, resident: Int32Array, last_step: StepId, keep_tokens: Int64Array | None = None
    ) -> None:
        """Give back what these residents own; cannot fail, takes no block (E20).

        keep_tokens: None gives up everything, and the indices with it. Otherwise [len(resident)]:
        the resident stays, with the blocks of that many tokens and without any promise beyond
        them. That is how a turn ends whose request stays (a turn limit that was reserved but not
        used becomes free for others): keep what is committed.
        last_step is the newest step in flight that may still write their blocks, 0 when none:
        until `end_step` has seen it the blocks stay quarantined.
        """

    def end_step(self, step_id: StepId) -> None:
        """Say that no step up to step_id can write any more; quarantined blocks become free."""

    @property
    def audit(self) -> CacheAudit:
        """The view for tests, rollback checks and diagnosis."""


class CacheAudit(Protocol):
    """Looks into a cache without changing it."""

    def snapshot(self) -> object:
        """Return committed state as a value that compares equal when nothing changed."""

    def check_all(self) -> Sequence[Violation]:
        """Scan everything for broken invariants (E64)."""

    def committed(self, resident: Int32Array) -> Int64Array:
        """Return the committed tokens of these residents, to compare with the engine's (E65)."""


class Decoder(Protocol[TensorT]):
    """A model: packed tokens in, logits out; keeps its keys and values in the bound state."""

    @property
    def manifest(self) -> StateManifest:
        """The state that an engine must keep for it."""

    @property
    def config(self) -> DecoderConfig:
        """Vocabulary, limits and abilities."""

    def bind(self, state: DecoderState[TensorT]) -> None:
        """Take the cache tensors, once, before the first step."""

    def forward(self, inputs: StepInputs[TensorT]) -> TensorT:
        """Run the step; logits [rows, V] float. Raises StepAborted when nothing was written."""


class ModelExecutor(Protocol[HandleT]):
    """Packs a step, runs the model and samples; what `Engine` takes."""

    @property
    def manifest(self) -> StateManifest:
        """The state that an engine must keep for it."""

    @property
    def config(self) -> DecoderConfig:
        """Vocabulary, limits and abilities."""

    def bind(self, state: DecoderState[object] | None, limits: StepLimits, columns: int) -> None:
        """Take the cache tensors and size persistent buffers; columns: most block-table columns."""

    def launch(self, work: StepWork) -> HandleT:
        """Start a step; its tokens stay on the device until `collect`."""

    def collect(self, handle: HandleT, live: BoolArray | None) -> SampledTokens:
        """Wait for the step and return its tokens.

        Rows outside `live` ([S], None = all) may be anything: their request has ended meanwhile.
        """

    def discard(self, handle: HandleT) -> None:
        """Forget a launched step whose result nobody wants; must not raise."""


class StepObserver(Protocol):
    """The only hook into a step: traces in production, raises in fault sweeps."""

    def phase(self, phase: Phase, step_id: StepId) -> None:
        """Take note that a phase begins; raising makes that phase fail."""
