"""A page's sections, drawn again when there is something new, never more often than the processor that searches can spare."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

REST = 8
"""A drawing is followed by a rest of so many times its CPU time: a page costs the machine a ninth of a core at most."""


class RedrawLimit:
    """Says when to draw again. The first drawing counts little: imports and inputs are paid once."""

    def __init__(self, clock: Callable[[], float], cost: Callable[[], float] = time.thread_time) -> None:
        self._clock, self._cost = clock, cost
        self._until_s = -math.inf
        self._first = True

    @property
    def over(self) -> bool:
        """Whether it is time."""
        return self._clock() >= self._until_s

    @contextlib.contextmanager
    def after(self) -> Iterator[None]:
        """Around a drawing."""
        began_s = self._cost()
        yield
        spent_s = 0.1 if self._first else self._cost() - began_s
        self._first = False
        self._until_s = self._clock() + REST * spent_s


@dataclass(frozen=True)
class RenderedSections:
    """The sections as HTML. `version` says what was known when they were drawn."""

    version: str
    html: str


class SectionCache:
    """The latest sections of one page."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.lock = threading.Lock()  # held while it is drawn
        self._drawn: RenderedSections | None = None
        self._rest = RedrawLimit(clock)

    def of(self, version: str, draw: Callable[[], str]) -> tuple[RenderedSections, bool]:
        """What is drawn, and whether it is of that version. Whoever comes while they are drawn gets the ones before."""
        earlier = self._drawn
        if earlier is not None and (earlier.version == version or not self._rest.over):
            return earlier, earlier.version == version
        if not self.lock.acquire(blocking=earlier is None):
            assert earlier is not None
            return earlier, False
        try:
            if self._drawn is None or self._drawn.version != version:
                with self._rest.after():
                    self._drawn = RenderedSections(version, draw())
            return self._drawn, True
        finally:
            self.lock.release()
