"""Work that does not end, and a clock that is further then: what is not abandoned fails its test, whatever the machine's time."""

from __future__ import annotations

import contextlib
import signal
import time

import pytest

from kilotune.search.abandoning import Abandoned

HARD_END_S = 20.0
"""Of CPU: endless work gives up by itself, so that a broken mechanism fails a test instead of stopping the suite."""

LONG_S = 1000.0
"""What a clock of a test jumps by: beyond every budget here and what a step may take after it."""


class Clock:
    """Stands still until somebody is inside work that does not end, and is LONG_S further then."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def is_over(self) -> bool:
        """Whether somebody has been inside such work."""
        return self.now_s > 0.0

    def work_for_ever(self) -> None:
        """Until it is abandoned."""
        self.now_s = LONG_S
        end = time.process_time() + HARD_END_S
        while time.process_time() < end:
            sum(range(100))
        pytest.fail("nobody abandoned it")

    def swallow_for_ever(self) -> None:
        """What badly written code does: it goes on twice, then ends as if nothing had been."""
        for _ in range(3):
            with contextlib.suppress(Abandoned):
                self.work_for_ever()


def tick() -> None:
    """What the timer of a watch does."""
    signal.raise_signal(signal.SIGALRM)
