"""One capacity, asked about with one order of the buffers after the other: restarts that learn.

The exact search is quick with the right order and hopeless with most others, so each order gets a little work, and what a
failure teaches goes into the next order: the sections where things did not fit are blamed, and the buffers that are live
there come earlier (as weighted degrees do in constraint solvers, Boussemart et al. 2004). Older blame fades. The work of the
restarts is Luby's sequence 1, 1, 2, 1, 1, 2, 4, ... of a unit (Luby, Sinclair and Zuckerman 1993), within a constant factor
and a logarithm of the best limits that somebody could choose who knew how long each order takes. Static orders are asked first,
and again with doubled limits: by length of life (W), area (A), size (Z) and total of the live sections (T), ties by a second one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.fit_result import FitResult, FitStatus
from kilotune.spaces.memory.fitting import fits_within
from kilotune.spaces.memory.orders import PlacementOrder, sorted_by

WORK_UNIT = 100_000
"""Buffers looked at in the shortest restart; some nanoseconds each."""

STATIC_UNITS = 10
"""What a static order gets at first, in units, at most STATIC_WORK but one unit at least."""

STATIC_WORK = 20_000_000

STATIC_ORDERS = ("WA", "TW", "TA", "AW", "WZ", "ZW")
LEARNED_ORDERS = tuple((base, weight) for weight in (0.2, 1.0, 100.0) for base in "WTA")
"""What the order starts from, and the weight of what was learned."""

FADING = 0.9
"""What is left of older blame after a restart."""

BLAME_SCALE = 1000
"""The most blamed section counts as log(1 + this)."""

LARGEST_WORK_LIMIT = 1 << 40


class CapacityQuestion:
    """Whether a connected set of buffers, of positive sizes, fits within `capacity` bytes. The seed says which orders come first."""

    def __init__(
        self,
        buffers: BufferArrays,
        capacity: int,
        seed: int = 0,
        work_unit: int | None = None,
        begun: tuple[int, int] = (0, 0),
    ) -> None:
        """begun: `standing` of an earlier search, which asked the orders before it, and with less work."""
        self.capacity = capacity
        self.spent = 0
        """Work that was allowed so far, in buffers looked at."""
        self._buffers = buffers
        self._seed = seed
        self._unit = work_unit or max(WORK_UNIT, len(buffers) ** 2)  # a descent looks at half of that
        self._passes, self._turn = begun
        self._blame = np.zeros((len(LEARNED_ORDERS), len(buffers.section_bytes)))
        life = (buffers.upper - buffers.lower).astype(np.float64)
        self._demand = {
            "W": np.log(life),
            "T": 8 * np.log(buffers.load) + 0.3 * np.log(life),
            "A": 0.5 * np.log(buffers.area),
        }

    @property
    def standing(self) -> tuple[int, int]:
        """How many passes over all orders are over, and how many orders of this one."""
        return self._passes, self._turn

    def ask(self, seconds: float) -> FitResult:
        """The answer of the next order; it stops after its share of work, or `seconds`."""
        statics = self._static_orders
        if self._turn < len(statics):
            limit = max(self._passes, 1) * max(self._unit, min(STATIC_UNITS * self._unit, STATIC_WORK))
            answer = self._asked(_static_rank(self._buffers, statics[self._turn]), limit, seconds)
        else:
            answer = self._asked_learned(self._turn - len(statics), seconds)
        self._turn += 1
        if self._turn == len(statics) + len(LEARNED_ORDERS):
            self._passes, self._turn = self._passes + 1, 0
        return answer

    @property
    def _static_orders(self) -> tuple[str, ...]:
        """In the passes 0, 1, 2, 4, 8, ...: they have nothing new to say but with a larger limit."""
        if self._passes & (self._passes - 1):
            return ()
        return _from(STATIC_ORDERS, self._seed)

    def _asked_learned(self, turn: int, seconds: float) -> FitResult:
        number = (turn + self._seed) % len(LEARNED_ORDERS)
        base, weight = LEARNED_ORDERS[number]
        worst = self._buffers.over_life(self._blame[number])
        learned = np.log1p(BLAME_SCALE * worst / max(float(worst.max()), 1e-9))
        order = np.argsort(-(self._demand[base] + weight * learned), kind="stable")
        answer = self._asked(_rank_of(order), luby(self._passes + 1) * self._unit, seconds)
        self._blame[number] = FADING * self._blame[number] + answer.blame / max(int(answer.blame.sum()), 1)
        return answer

    def _asked(self, rank: PlacementOrder, limit: int, seconds: float) -> FitResult:
        limit = min(limit, LARGEST_WORK_LIMIT)
        answer = fits_within(self._buffers, rank, self.capacity, limit, seconds)
        self.spent += limit if answer.status is FitStatus.STOPPED else self._unit
        return answer


def luby(number: int) -> int:
    """The sequence 1, 1, 2, 1, 1, 2, 4, ..., from number 1 on (Luby, Sinclair and Zuckerman 1993)."""
    while number & (number + 1):  # not the last one of a stretch of 2^k - 1: look it up in the stretch that is repeated
        number -= (1 << (number.bit_length() - 1)) - 1
    return (number + 1) // 2


def _from(orders: tuple[str, ...], first: int) -> tuple[str, ...]:
    first %= len(orders)
    return orders[first:] + orders[:first]


def _static_rank(buffers: BufferArrays, letters: str) -> PlacementOrder:
    life = buffers.upper - buffers.lower
    keys = {"W": -life, "A": -buffers.area, "T": -buffers.load, "Z": -buffers.size}
    return _rank_of(sorted_by(*(keys[letter] for letter in letters)))


def _rank_of(order: npt.NDArray[np.integer]) -> PlacementOrder:
    """Every buffer's place in the order."""
    return np.argsort(order).astype(np.int32)
