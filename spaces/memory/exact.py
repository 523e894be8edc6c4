"""The exact search: branch and bound for the least peak, after MiniMalloc (Moffitt, ASPLOS 2023).

One question is asked at a time: does a connected set of buffers fit within a capacity? Among all placements that fit,
one with the least sum of offsets is looked for: each buffer rests on the floor or on another one (canonical offsets),
and buffers are placed in ascending order of (offset, rank), so that each placement is met once. What is cut:

- monotonic floor: what waits goes no lower than what was placed last; a buffer that was passed over waits for a neighbour
  to rest on, so it goes above the lowest of its neighbours' tops;
- unallocated floor: in every section, all that waits must fit above the lowest floor of what waits there;
- dominance: no buffer is placed where another one would fit below it whole; and a buffer that all its neighbours stay
  above anyway is put on its floor without an alternative;
- hatless buffers: where nothing waits above the buffer just placed, a failure is not its fault;
- sections solved apart: where no waiting buffer crosses, the parts are searched by themselves.

A search that fails within its limit says the least peak at which something was cut: a bound for the next question.
Ranks come from static orders (W lifetime, A area, T total of the live sections, Z size) and from learned ones, tried in
turn with growing limits. What is learned is where things did not fit: those buffers come first the next time (as weighted
degrees do in constraint solvers, Boussemart et al. 2004).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import IntArray
from kilotune.evaluators.interruptible import StopFlag, interruptible
from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.ejecting import Ejection
from kilotune.spaces.memory.fit_result import FitResult, FitStatus
from kilotune.spaces.memory.native import UNLIMITED_NS, load_ejection, load_kernel
from kilotune.spaces.memory.orders import PlacementOrder, best_greedy, sorted_by
from kilotune.spaces.memory.reference_search import fits_within_reference

FIRST_WORK_LIMIT = 1_000_000
"""Buffers looked at; some nanoseconds each."""

LIMIT_GROWTH = 1.05
"""A round."""

STATIC_EVERY = 4
"""The static orders have nothing new to say in a round but a larger limit: they take part in the first two rounds and every 4th."""

MOST_CAUTIOUS = 8
"""A question for less than the goal aims at 1/2 to 1/2^this of the way from the best peak to it."""

DESCENTS = 2
"""A limit below the work of one descent, half the square of the number of buffers, could never end in a placement."""

LARGEST_WORK_LIMIT = 1 << 40
STATIC_ORDERS = ("WAT", "TAW", "TWA", "ZWT")
LEARNED_ORDERS = (("W", 0.2), ("T", 1.0), ("W", 100.0))
"""What the order starts from, and the weight of what was learned."""

TURNS = len(STATIC_ORDERS) + len(LEARNED_ORDERS)

LARGE = 500
"""Buffers of a component from which on local search comes between the questions: few of these are answered."""

EJECTIONS_PER_QUESTION = 12

MOST_PAIRS = 40_000_000
"""Conflicting pairs of a component above which its lists of neighbours would not fit in memory: it is not searched."""

LONGEST_S = 1e8
MOST_BUFFERS = (1 << 20) - 1
"""Ranks have 20 bits in placing.c."""


@dataclass(frozen=True)
class PlacementSearchStep:
    """Where a search stands: the best offsets so far (bytes, in the order of the instance) and a bound on every peak."""

    offsets: IntArray
    peak_bytes: int
    bound_bytes: int
    done: bool
    nodes: int


QUICK_WORK = 10_000_000
"""Buffers looked at, in some hundredths of a second; a longer question can be ended from outside."""


def fits_within(
    buffers: BufferArrays, rank: PlacementOrder, capacity: int, work_limit: int, seconds: float = math.inf
) -> FitResult:
    """Ask the compiled search, or the plain one where there is no compiler. Sizes must be positive. After `seconds` the
    compiled one stops; the plain one only knows its work limit."""
    kernel = load_kernel()
    if kernel is None:
        return fits_within_reference(buffers, rank, capacity, work_limit)
    begins, ends, count = buffers.sections
    rank = np.ascontiguousarray(rank, dtype=np.int32)
    offsets, report = np.zeros(len(buffers), dtype=np.int64), np.zeros(2, dtype=np.int64)
    blame = np.zeros(count, dtype=np.int64)
    columns = (begins, ends, buffers.size, buffers.alignment, rank)
    flag = StopFlag()
    limit_ns = int(max(seconds, 0.0) * 1e9) if seconds < LONGEST_S else UNLIMITED_NS
    given = tuple(column.ctypes.data for column in columns)
    found = tuple(column.ctypes.data for column in (offsets, blame, report))

    def call() -> int:
        return int(
            kernel.kilotune_search(len(buffers), count, *given, capacity, work_limit, limit_ns, *found, flag.address)
        )

    # A thread takes longer to start than most questions to answer.
    status = call() if work_limit <= QUICK_WORK else interruptible(call, flag.set)
    if status == FitStatus.NO_MEMORY:
        raise MemoryError("The exact search ran out of memory.")
    return FitResult(FitStatus(status), offsets, int(report[1]), int(report[0]), blame)


def minimise_peak(
    buffers: BufferArrays,
    bound_bytes: int,
    goal_bytes: int | None = None,
    seed: int = 0,
    seconds_left: Callable[[], float] = lambda: math.inf,
    first_work_limit: int | None = None,
) -> Iterator[PlacementSearchStep]:
    """Standings, each better than or as good as the one before; the last is `done` unless a component is too large.

    `bound_bytes`: a peak that no placement beats. With a goal the search is done when the peak is at most the goal,
    or a bound (the given one, too) above it. The seed says which order is tried first. A step takes as long as its limit on work
    (`first_work_limit` at first), or until `seconds_left()` of the moment when it began have passed.
    """
    goal = bound_bytes if goal_bytes is None else max(goal_bytes, bound_bytes)
    _, offsets = best_greedy(buffers)
    offsets = np.where(buffers.size > 0, offsets, 0)  # what takes no byte is in no component, and would keep its place
    parts = [_Component.of(buffers, m, offsets, seed, first_work_limit) for m in buffers.occupied_components()]
    nodes = 0
    while True:
        peak = max((part.peak for part in parts), default=0)
        bound = max([min(bound_bytes, peak), *(part.bound for part in parts)])
        finished = peak <= max(goal, bound) or (goal_bytes is not None and bound > goal_bytes)
        yield PlacementSearchStep(offsets, peak, bound, finished, nodes)
        if finished:
            return
        worst = max(parts, key=lambda part: part.peak)
        if not worst.searchable:
            return
        nodes += worst.step(max(bound, goal), seconds_left())
        offsets = offsets.copy()
        offsets[worst.members] = worst.offsets


@dataclass
class _Component:
    """A connected component and its own search."""

    members: npt.NDArray[np.intp]
    buffers: BufferArrays
    offsets: IntArray
    bound: int
    blame: npt.NDArray[np.float64]  # by turn and section: the share of failures there, summed over questions
    work_limit: float
    seed: int
    turn: int = 0
    caution: int = 1
    ejections: int = 0
    ejection: Ejection | None = None

    @classmethod
    def of(
        cls,
        buffers: BufferArrays,
        members: npt.NDArray[np.intp],
        offsets: IntArray,
        seed: int,
        first_work_limit: int | None,
    ) -> _Component:
        part = buffers.subset(members)
        limit = first_work_limit or max(FIRST_WORK_LIMIT, DESCENTS * len(members) ** 2 // 2)
        return cls(
            members,
            part,
            offsets[members],
            int(part.section_bytes.max()),
            np.zeros((TURNS, len(part.section_bytes))),
            limit,
            seed,
            turn=seed % TURNS,
        )

    @property
    def peak(self) -> int:
        return int((self.offsets + self.buffers.size).max())

    @property
    def searchable(self) -> bool:
        return int(self.buffers.conflicts.sum()) <= MOST_PAIRS and len(self.buffers) <= MOST_BUFFERS

    def step(self, goal: int, seconds: float) -> int:
        """One question: for the goal, or (static orders in some rounds) a part of the way there, shorter after a failure.
        In a large component, most steps are local search instead."""
        if len(self.buffers) >= LARGE and load_ejection() is not None:
            self.ejections += 1
            if self.ejections % (EJECTIONS_PER_QUESTION + 1):
                self.ejection = self.ejection or Ejection(self.buffers, self.seed)
                lowered = self.ejection.improve(self.offsets, max(self.bound, goal), seconds)
                self.offsets = self.offsets if lowered is None else lowered
                return 0
        rounds, turn = divmod(self.turn, TURNS)
        target = max(self.bound, goal)
        nearer = (
            rounds % (2 * STATIC_EVERY) in (1, STATIC_EVERY) and turn < len(STATIC_ORDERS) and self.peak > target + 1
        )
        if nearer:
            target = max(target, self.peak - max((self.peak - target) >> self.caution, 1))
        answer = fits_within(self.buffers, self._rank(turn), target, int(self.work_limit), seconds)
        if not nearer:
            self.blame[turn] += answer.blame / max(int(answer.blame.sum()), 1)
        self.turn += 1
        rounds, turn = divmod(self.turn, TURNS)
        if rounds > 1 and rounds % STATIC_EVERY and turn < len(STATIC_ORDERS):
            self.turn = rounds * TURNS + len(STATIC_ORDERS)
        if turn == TURNS - 1:
            self.work_limit = min(self.work_limit * LIMIT_GROWTH, LARGEST_WORK_LIMIT)
        if answer.status is FitStatus.FITS:
            self.offsets = answer.offsets
            self.caution = max(self.caution - 1, 1)
        elif nearer:
            self.caution = min(self.caution + 1, MOST_CAUTIOUS)
        if answer.status is FitStatus.FAILS:
            self.bound = max(self.bound, target + 1, min(answer.least_peak, self.peak))
        return answer.nodes

    def _rank(self, turn: int) -> PlacementOrder:
        """Every buffer's place in the order of this turn."""
        buffers = self.buffers
        width = buffers.upper - buffers.lower
        if turn < len(STATIC_ORDERS):
            keys = {"W": -width, "A": -width * buffers.size, "T": -buffers.load, "Z": -buffers.size}
            order = sorted_by(*(keys[letter] for letter in STATIC_ORDERS[turn]))
        else:
            base, weight = LEARNED_ORDERS[turn - len(STATIC_ORDERS)]
            demand = np.log(width) if base == "W" else 8 * np.log(buffers.load) + 0.3 * np.log(width)
            worst = buffers.over_life(self.blame[turn])
            learned = np.log1p(1000 * worst / max(float(worst.max()), 1e-9))
            order = np.argsort(-(demand + weight * learned), kind="stable").astype(np.int32)
        return np.argsort(order).astype(np.int32)
