"""Local search over loosely glued buffers: several gluings as restarts, guided ejection of their blocks.

A block of ten buffers that moves as one is a move that no ejection of single buffers finds. How loosely to glue differs from one
instance to the next, so there are several gluings; each gets some steps, then new ones and the best so far take turns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kilotune.codegen.arrays import IntArray
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.ejecting import Ejection
from kilotune.spaces.memory.gluing import GluedBuffers
from kilotune.spaces.memory.loose_gluing import Looseness, loosely_glued
from kilotune.spaces.memory.orders import best_greedy

EJECTION_WORK = 1_000_000
"""Neighbours looked at in one step; some nanoseconds each."""

STEPS_AT_ONCE = 60
"""So many steps of one gluing before another one's turn."""

LOOSENESSES = (
    Looseness(0.0003, 0),
    Looseness(0.0001, 4),
    Looseness(0.001, 0),
    Looseness(0.0003, 4),
    Looseness(0.002, 4),
)
NOISE = 0.3
"""The noise on the costs of pairs after each looseness was tried once: without it the same pairs would be glued again."""


class LooseSearch:
    """The search of one connected set of buffers, of positive sizes."""

    def __init__(self, buffers: BufferArrays, seed: int) -> None:
        self._buffers, self._seed = buffers, seed
        self._gluings: list[_GluingSearch] = []
        self._turns = self._turns_of_gluings()
        self.exhausted = False
        """Whether nothing can be glued."""

    def improve(self, target: int, seconds: float) -> IntArray | None:
        """A step; the best placement of all buffers that the gluing in turn came to (bytes, shape (buffers,))."""
        chosen = next(self._turns, None)
        if chosen is None:
            self.exhausted = True
            return None
        chosen.improve(target, seconds)
        return chosen.whole.spread(chosen.offsets)

    def _turns_of_gluings(self) -> Iterator[_GluingSearch]:
        for number in itertools.count():
            new = self._new_gluing(number)
            if new is None and not self._gluings:
                return
            for chosen in (new, min(self._gluings, key=lambda gluing: gluing.peak)):
                yield from itertools.repeat(chosen, STEPS_AT_ONCE) if chosen is not None else ()

    def _new_gluing(self, number: int) -> _GluingSearch | None:
        looseness = LOOSENESSES[(number + self._seed) % len(LOOSENESSES)]
        if number >= len(LOOSENESSES):
            looseness = replace(looseness, noise=NOISE)
        whole = loosely_glued(self._buffers, looseness, number)
        if whole is None:
            return None
        _, offsets = best_greedy(whole.buffers)
        gluing = _GluingSearch(whole, Ejection(whole.buffers, self._seed + number, EJECTION_WORK), offsets)
        self._gluings.append(gluing)
        return gluing


@dataclass
class _GluingSearch:
    whole: GluedBuffers
    ejection: Ejection
    offsets: IntArray  # of the blocks

    @property
    def peak(self) -> int:
        return int((self.offsets + self.whole.buffers.size).max())

    def improve(self, target: int, seconds: float) -> None:
        lowered = self.ejection.improve(self.offsets, target, seconds)
        if lowered is not None:
            self.offsets = lowered
