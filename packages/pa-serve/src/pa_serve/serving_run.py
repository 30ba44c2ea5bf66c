"""One run over any number of prompts: a fresh engine in, results in the order of the input out."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from pa_serve.batch_server import BatchServer, Codec, PromptEngine
from pa_serve.exit_status import ExitStatus
from pa_serve.interruption import Interruption
from pa_serve.progress import AnswerProgress
from pa_serve.prompt_line import PromptLine
from pa_serve.report import RunReport
from pa_serve.result import InputOrder, Result
from pa_serve.result_sink import ResultSink
from pa_serve.serving_options import ServingOptions


@dataclass(slots=True)
class RunOutcome:
    """What became of a run.

    num_served, num_errors: prompts with an answer, and without. first_error: why, for the first
    without. failure: what stopped the engine. signal: what the user's signal asks to end with.
    """

    num_served: int = 0
    num_errors: int = 0
    first_error: str = ""
    failure: str = ""
    signal: ExitStatus | None = None

    @property
    def is_complete(self) -> bool:
        """Whether every prompt had its chance and one was answered."""
        return self.num_served > 0 and not self.failure and self.signal is None

    @property
    def status(self) -> ExitStatus:
        """The exit status that says it."""
        if self.signal is not None:
            return self.signal
        if self.failure:
            return ExitStatus.ENGINE_FAILED
        return ExitStatus.INPUT_UNUSABLE if self.num_errors else ExitStatus.SERVED

    def add(self, result: Result) -> None:
        """Count a result."""
        if result.error is None:
            self.num_served += 1
            return
        self.num_errors += 1
        self.first_error = self.first_error or f"{result.place}: {result.error}"


@final
class ServingRun:
    """Serves one stream of prompts on one engine and hands the results to a sink.

    Life: construct, `serve` once, then read `report`. The engine stays the caller's to close.
    """

    def __init__(self, engine: PromptEngine, codec: Codec, options: ServingOptions) -> None:
        self._engine = engine
        self._codec = codec
        self._options = options
        self._seconds = 0.0

    def serve(
        self, lines: Iterable[PromptLine], sink: ResultSink, progress: AnswerProgress
    ) -> RunOutcome:
        """Serve until the lines end, the engine fails or a signal comes; see RunOutcome.

        Whatever is finished has reached the sink when this returns, and also when it raises
        because the input, or a second signal, did.
        """
        # Twice the rows of a step: an ended turn's place never waits for the next prompt.
        max_submitted = 2 * self._options.config.max_batch_size
        server = BatchServer(
            self._engine, self._codec, self._options.sampling, max_submitted, progress.add_tokens
        )
        outcome, order = RunOutcome(), InputOrder()
        start = time.perf_counter()
        with Interruption() as interruption, progress:
            try:
                for result in server.serve(lines, lambda: bool(interruption)):
                    outcome.add(result)
                    progress.add_answer()
                    for due in order.add(result):
                        with progress.out_of_the_way():
                            sink.write(due)
            finally:
                for late in order.rest():
                    with progress.out_of_the_way():
                        sink.write(late)
        self._seconds = time.perf_counter() - start
        outcome.signal = interruption.status
        outcome.failure = "" if server.failure is None else str(server.failure)
        return outcome

    def report(self, attention_backends: tuple[str, ...]) -> RunReport:
        """Return what the run cost."""
        return RunReport(self._engine.statistics(), self._seconds, attention_backends)
