"""Evaluations in this very process: no overhead, no protection from a crash."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from kilotune.search.executor import Finished, measure
from kilotune.search.racing import Hurdle
from kilotune.search.space import Assignment, Space


class InProcessExecutor:
    """Measures one chunk per call of `results`."""

    workers = 1

    def __init__(self, space: Space) -> None:
        self._space = space
        self._waiting: deque[tuple[int, Sequence[Assignment], Hurdle | None]] = deque()

    def submit(self, ticket: int, chunk: Sequence[Assignment], hurdle: Hurdle | None = None) -> None:
        self._waiting.append((ticket, chunk, hurdle))

    def results(self, timeout_s: float) -> list[Finished]:
        if not self._waiting:
            return []
        ticket, chunk, hurdle = self._waiting.popleft()
        measurements, work_s = measure(self._space, chunk, hurdle)
        return [Finished(ticket, measurements, work_s)]

    def cancel(self) -> None:
        self._waiting.clear()

    def close(self) -> None:
        self.cancel()
