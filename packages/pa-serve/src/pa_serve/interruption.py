"""Ctrl-C and SIGTERM as a request to stop after the step that runs, once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Self, final

from pa_serve.exit_status import ExitStatus

_STATUS = {
    signal.SIGINT: ExitStatus.INTERRUPTED,
    signal.SIGTERM: ExitStatus.TERMINATED,
}


@final
class Interruption:
    """Tells a loop that the user wants it to end.

    While entered, the first SIGINT or SIGTERM only sets `status`, so that a step is never cut in
    two and finished results can be saved; a second one raises KeyboardInterrupt at once. The
    handlers that were there before are back after leaving. On a thread other than the main one,
    which receives no signals, it does nothing.
    """

    def __init__(self) -> None:
        self.status: ExitStatus | None = None
        self._before: dict[signal.Signals, object] = {}

    def __bool__(self) -> bool:
        return self.status is not None

    def __enter__(self) -> Self:
        is_main = threading.current_thread() is threading.main_thread()
        for number in _STATUS if is_main else ():
            self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _take(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.status is not None:
            raise KeyboardInterrupt
        self.status = _STATUS[signal.Signals(number)]
