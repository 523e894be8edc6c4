"""What is known of the stack of live buffers at a point of time of a sweep (`spaces.memory.stack_sweep`), and the likeliest of it."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappush, heappushpop
from math import inf

from kilotune.spaces.memory.pq_tree import PQNode

DIGITS = 9
"""Standings whose gains have the same digits mostly are of the same orders, found in another way; one of them goes on."""


@dataclass(frozen=True)
class StackChange:
    """What ends side by side in all orders of `tree`, and what takes its place; `before` it, None for the first. Several may be at one
    point of time, of which one `is_first`."""

    before: StackChange | None
    tree: PQNode
    ending: tuple[int, ...]
    beginning: tuple[int, ...]
    is_first: bool


@dataclass(frozen=True)
class StackStanding:
    """The orders at a point of time, and what changed before. `ending`, `beginning`: bits of what still has to at this point; `groups` that
    have there. `breaks`: points of time at which no groups fitted."""

    tree: PQNode
    changes: StackChange | None = None
    gain: float = 0.0
    ending: int = 0
    beginning: int = 0
    groups: frozenset[tuple[int, int]] = frozenset()
    breaks: int = 0


class Greatest:
    """The greatest of the numbers added so far. `least`: of these; -inf while there are fewer than `most`."""

    def __init__(self, most: int) -> None:
        self.least = -inf
        self._most = most
        self._heap: list[float] = []

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, number: float) -> None:
        if len(self._heap) < self._most:
            heappush(self._heap, number)
        else:
            heappushpop(self._heap, number)
        if len(self._heap) == self._most:
            self.least = self._heap[0]


class LikeliestStandings:
    """Standings at one point of time with as much left to end there."""

    def __init__(self, width: int) -> None:
        self.gains = Greatest(width)
        self.found = list[StackStanding]()
        self._width = width
        self._digits, self._groups = set[float](), set[frozenset[tuple[int, int]]]()

    def add(self, standing: StackStanding) -> None:
        """Unless the same groups have changed in another order."""
        if standing.groups in self._groups:
            return
        self._groups.add(standing.groups)
        self.found.append(standing)
        digits = round(standing.gain, DIGITS)
        if digits not in self._digits:
            self._digits.add(digits)
            self.gains.add(digits)

    def standings(self) -> list[StackStanding]:
        """The likeliest ones."""
        return sorted(self.found, key=lambda one: -one.gain)[: self._width]
