"""Where a walk through placements stands: the buffers put down so far, each above all that it conflicts with."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import IntArray
from kilotune.search.space import Assignment, Decision, Option, answered
from kilotune.spaces.memory.candidates import ALLOCATOR, CANONICAL, SHIFTRY, MemoryCandidates


class Places(tuple[Option, ...]):
    """The options `id@offset` of waiting buffers, lowest first, and the larger one of equals. There are as many as buffers, and a
    walk takes one of them: so they are sorted and written only as far as they are looked at."""

    _waiting: npt.NDArray[np.intp]
    _state: PlacementState

    @classmethod
    def of(cls, state: PlacementState, waiting: npt.NDArray[np.intp]) -> Places:
        """`waiting`: indices of the buffers."""
        places = cls()
        places._state, places._waiting = state, waiting
        return places

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Option]:
        floors, size = self._state.floors[self._waiting], self._state.space.arrays.size[self._waiting]
        return map(self._written, self._waiting[np.lexsort((self._waiting, -size, floors))].tolist())

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return tuple(self)[place]
        place = range(len(self))[place]
        floors = self._state.floors[self._waiting]
        level = np.partition(floors, place)[place]
        equal = self._waiting[floors == level]
        equal = equal[np.lexsort((equal, -self._state.space.arrays.size[equal]))]
        return self._written(int(equal[place - int((floors < level).sum())]))

    def __contains__(self, option: object) -> bool:
        identifier, _, _ = str(option).rpartition("@")
        b = self._state.space.numbers.get(identifier)
        if b is None or self._written(b) != option:
            return False
        at = int(np.searchsorted(self._waiting, b))
        return at < len(self._waiting) and int(self._waiting[at]) == b

    def __eq__(self, other: object) -> bool:
        return tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self))

    def _written(self, b: int) -> str:
        return f"{self._state.space.ids[b]}@{self._state.floors[b]}"


class PlacementState:
    """Buffers placed so far, each above all that it conflicts with; in ascending order of (offset, buffer)."""

    def __init__(
        self,
        space: MemoryCandidates,
        answers: tuple[tuple[str, Option], ...] = (),
        floors: IntArray | None = None,
        waits: npt.NDArray[np.bool_] | None = None,
        last: tuple[int, bool, int] = (-1, False, -1),
        peak_bytes: int = 0,
    ):
        """`floors`: bytes, shape (buffers,): the lowest offset of every buffer that `waits`. `last`: the key of the buffer placed
        highest; `peak_bytes`: of those that are placed."""
        n = len(space.arrays)
        self.space, self._answers, self._last, self._peak_bytes = space, answers, last, peak_bytes
        self.floors = np.zeros(n, dtype=np.int64) if floors is None else floors
        self._waits = np.ones(n, dtype=bool) if waits is None else waits

    @cached_property
    def decision(self) -> Decision | None:
        """Which buffer comes next, at its canonical offset; lowest first, and the larger one of equals."""
        if not self._answers:
            return Decision(ALLOCATOR, (CANONICAL, SHIFTRY))
        if self._answers[0][1] == SHIFTRY or len(self._answers) > len(self.space.arrays):
            return None
        waiting = np.flatnonzero(self._waits)
        floors, some = self.floors[waiting], self.space.arrays.size[waiting] > 0
        offset, positive, b = self._last
        later = (some > positive) | ((some == positive) & (waiting > b))
        above = waiting[(floors > offset) | ((floors == offset) & later)]
        return Decision(str(len(self._answers)), Places.of(self, above if len(above) else waiting))

    @property
    def assignment(self) -> Assignment:
        """The answers so far."""
        return dict(self._answers)

    def take(self, option: Option) -> PlacementState:
        """Place the next buffer."""
        decision = answered(self.decision, option)
        answers = (*self._answers, (decision.name, option))
        if decision.name == ALLOCATOR:
            return PlacementState(self.space, answers)
        buffers, b = self.space.arrays, self.space.numbers[str(option).rpartition("@")[0]]
        offset, size = int(self.floors[b]), int(buffers.size[b])
        floors, waits = self.floors.copy(), self._waits.copy()
        waits[b] = False
        meets = np.flatnonzero((buffers.lower < buffers.upper[b]) & (buffers.upper > buffers.lower[b]) & waits)
        step = buffers.alignment[meets]
        floors[meets] = np.maximum(floors[meets], -(-(offset + size) // step) * step)
        last = max(self._last, (offset, size > 0, b))
        return PlacementState(self.space, answers, floors, waits, last, max(self._peak_bytes, offset + size))

    def bound(self) -> float:
        """The largest live sum, or the peak so far, or what the waiting buffers reach on their floors."""
        if self._answers and self._answers[0][1] == SHIFTRY:
            return float("-inf")
        waiting = int((self.floors + self.space.arrays.size)[self._waits].max(initial=0))
        return self.space.loss_of(max(self.space.least_peak_bytes, self._peak_bytes, waiting))
