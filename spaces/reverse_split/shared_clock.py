"""Searches that share a clock: each has a share of the time, and a clock of its own that says how much of it is left.

A search plans ahead by its clock: how long it constructs programs before it walks from them, how much work a step may be. Searches that
take turns by one clock all take the whole time for their own, and are stopped while they still construct. Turns are given by the seconds
that were used, not one after the other, since a step of one search may take many times as long as that of another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from kilotune.search.space import Clock, ExactStep, Option


@dataclass
class _Turns:
    """A search that has its turns. `spent`: seconds so far."""

    steps: Iterator[ExactStep] = field(default=iter(()))
    spent: float = 0.0
    taken: int = 0


class SharedClock:
    """The first step of every search, then steps of the first `at_once` that have not ended, each with as much time as the others."""

    def __init__(
        self, begun: Mapping[Option, Callable[[Clock], Iterator[ExactStep]]], seconds_left: Clock, at_once: int
    ) -> None:
        """`begun`: by option, what begins a search by the clock that it has to keep to, in the order in which searches have their turns."""
        self._seconds_left, self._at_once = seconds_left, at_once
        self._granted = self._began = math.inf
        self._live = {option: _Turns(begin(self._left_of_turn)) for option, begin in begun.items()}

    def steps(self) -> Iterator[tuple[Option, ExactStep]]:
        """Steps with the options of their searches, until all have ended."""
        for option in list(self._live):
            yield from self._turn(option)
        while self._live:
            served = islice(self._live.items(), self._at_once)
            option, _ = min(served, key=lambda pair: (pair[1].spent, pair[1].taken))
            yield from self._turn(option)

    def _turn(self, option: Option) -> Iterator[tuple[Option, ExactStep]]:
        turns = self._live[option]
        self._began = self._seconds_left()
        self._granted = self._began / min(self._at_once, len(self._live))
        step = next(turns.steps, None)
        turns.taken += 1
        if math.isfinite(self._began):
            turns.spent += self._began - self._seconds_left()
        if step is None or step.complete:
            del self._live[option]
        if step is not None:
            yield option, step

    def _left_of_turn(self) -> float:
        """Seconds that the search whose turn it is has left."""
        if math.isinf(self._granted):
            return math.inf
        return self._granted - (self._began - self._seconds_left())
