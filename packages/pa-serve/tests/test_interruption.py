from __future__ import annotations

import os
import signal
import threading

import pytest
from pa_serve import ExitStatus
from pa_serve.interruption import Interruption


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, ExitStatus.INTERRUPTED), (signal.SIGTERM, ExitStatus.TERMINATED)],
)
def test_the_first_signal_is_a_request_and_the_second_an_interrupt(
    number: signal.Signals, status: ExitStatus
) -> None:
    before = signal.getsignal(number)

    with Interruption() as interruption:
        assert not interruption
        os.kill(os.getpid(), number)
        assert interruption
        assert interruption.status is status
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)

    assert signal.getsignal(number) is before


def test_a_thread_that_receives_no_signals_changes_no_handler() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def enter() -> None:
        with Interruption() as interruption:
            seen.extend([bool(interruption), signal.getsignal(signal.SIGINT) is before])

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()

    assert seen == [False, True]
