"""Ctrl-C as a polite request."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Protocol


class Stoppable(Protocol):
    """Work that can be asked to end soon."""

    @property
    def stopped(self) -> bool:
        """Whether it has been asked."""

    def stop(self) -> None:
        """Ask it."""


@contextlib.contextmanager
def stops_on_interrupt(work: Stoppable) -> Iterator[None]:
    """The first Ctrl-C asks the study to stop, the second interrupts for good. Signals reach the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(_signal: int, _frame: object) -> None:
        if work.stopped:
            raise KeyboardInterrupt
        work.stop()

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
