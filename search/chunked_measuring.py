"""Batches into chunks: small enough to look at the clock between two of them, large enough to cost nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence

from kilotune.search.abandoning import Watch
from kilotune.search.executor import Executor, Finished
from kilotune.search.racing import Hurdle
from kilotune.search.space import Assignment, Measurement

CHUNK_S = 0.2  # what a chunk should last
GROWTH = 8  # a chunk has at most this many times the candidates of the one before
WAIT_S = 0.1
DRAIN_S = 0.3  # how long chunks in flight may still take when the run has to stop


Take = Callable[[int], Sequence[tuple[int, Assignment]]]
"""At most so many candidates that are to be measured next, with their trials' numbers; none: not now."""


class ChunkedMeasuring:
    """Cuts batches up by how long the candidates before took. That affects no measurement and no trial's number."""

    def __init__(self, executor: Executor, must_stop: Callable[[], bool], watch: Watch) -> None:
        """What `watch` abandons in the middle has not been measured."""
        self._executor, self._must_stop, self._watch = executor, must_stop, watch
        self._chunk_size = 1
        self._ticket = 0

    def chunks(
        self, take: Take, expected: int, others: int, hurdle: Hurdle | None = None
    ) -> Iterator[tuple[list[int], list[Measurement]]]:
        """(numbers, measurements) of each chunk, as they finish, until `take` gives none; `hurdle` is as in `executor.measure`.
        About `expected` are to come, and `others` processes take from them too. When the run has to stop it takes no more, waits
        up to DRAIN_S for those in flight, and drops the rest."""
        workers = self._executor.workers
        hands = workers * (1 + others)
        share = math.ceil(expected / (2 * hands)) if hands > 1 else expected
        most_in_flight = 2 * workers if workers > 1 else 1
        in_flight: dict[int, list[int]] = {}
        stop_at = math.inf
        while True:
            if stop_at == math.inf and self._must_stop():
                stop_at = time.monotonic() + DRAIN_S
            while stop_at == math.inf and len(in_flight) < most_in_flight:
                taken = take(min(self._chunk_size, share))
                if not taken:
                    break
                self._ticket += 1
                with self._watch.stretch() as submitting:  # a worker may have to be started first
                    self._executor.submit(self._ticket, [candidate for _, candidate in taken], hurdle)
                if submitting.abandoned:
                    self._executor.cancel()
                    return
                in_flight[self._ticket] = [number for number, _ in taken]
            if not in_flight:
                return
            if time.monotonic() > stop_at:
                self._executor.cancel()
                return
            results: list[Finished] = []
            with self._watch.stretch() as evaluating:
                results = self._executor.results(WAIT_S)
            if evaluating.abandoned:
                self._executor.cancel()
                return
            for finished in results:
                self._adapt(len(finished.measurements), finished.work_s)
                yield in_flight.pop(finished.ticket), finished.measurements

    def _adapt(self, size: int, work_s: float) -> None:
        fitting = CHUNK_S * size / work_s if work_s > 0 else math.inf
        self._chunk_size = max(1, int(min(fitting, GROWTH * max(size, self._chunk_size))))
