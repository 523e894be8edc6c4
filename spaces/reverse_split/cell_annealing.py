"""Annealing over constants, walks and the order of kernels, compiled: what `horner.py` and `nested_constants.py` look for.

A turn draws another constant, another order of two kernels, or another walk over the cells of one (a part of it backwards, or a few
cells elsewhere), and takes it under the length of the whole program (Kirkpatrick, Gelatt and Vecchi 1983). What that length is says
`term_prices.py`, whose prices are handed over, and `constants.py`.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from kilotune.evaluators.c_structures import structures
from kilotune.evaluators.compiled_library import load_library
from kilotune.spaces.reverse_split.cell_walks import CellWalk, reordered_walk
from kilotune.spaces.reverse_split.term_prices import TermPrices, term_prices

UNIT = 256
"""What an instruction is in the compiled prices."""

LANES, FIRST, NONE = 8, 4, 255
NOT_YET, IMPOSSIBLE = (1 << 31) - 1, 1 << 20
TURNS_OF_A_SLICE = 4_000
"""Some hundredths of a second."""

SHARE_APART, APART, TOGETHER = 0.5, (2.0, 0.2), (0.5, 0.05)
"""How many of the turns price the cells of a walk apart, each as if one move absorbed one of its terms, which is constants' work; and the
first and the last temperatures of these and of the others, in instructions."""

_CellProblem, _CellChoice = structures(Path(__file__).with_name("cell_annealing.c"), "CellProblem", "CellChoice")


@cache
def load_annealing() -> ctypes.CDLL | None:
    """The library; None when there is no working C compiler."""
    loaded = load_library(Path(__file__).with_name("cell_annealing.c"))
    if loaded is None:
        return None
    function = loaded.library.kilotune_anneal_cells
    function.argtypes = [ctypes.POINTER(_CellProblem), ctypes.POINTER(_CellChoice), ctypes.POINTER(_CellChoice)]
    function.restype = ctypes.c_int
    return loaded.library


@dataclass(frozen=True)
class WalkChoice:
    """Constants in units, the numbers of the kernels as they are computed, and the walk of each; `cost` in `UNIT` an instruction, at least
    `IMPOSSIBLE` where a weight is no sum of the constants."""

    constants: tuple[int, ...]
    order: tuple[int, ...]
    walks: tuple[CellWalk, ...]
    cost: int

    @property
    def possible(self) -> bool:
        """Whether there is a program."""
        return self.cost < IMPOSSIBLE


@dataclass(frozen=True)
class AnnealedProblem:
    """What is searched for. `image`: the image in units. `dropped`: so many constants fewer for each kernel than for the one before it.
    `halvings`: of so many of the image, its half, its quarter, ... the first constant is one; 0: it is any. `far`: what a move by two cells
    takes more than one by one, in instructions; a little breaks ties."""

    target: str
    image: int
    dropped: int
    halvings: int
    far: float


def annealed(problem: AnnealedProblem, start: WalkChoice, turns: int, seed: int) -> Iterator[WalkChoice | None]:
    """The start with its cost; then the best choice so far after each slice of the turns, None for those of the beginning, when only
    constants and the order are looked for. Nothing without a compiler. Raises `MemoryError`."""
    library = load_annealing()
    if library is None:
        return
    call, apart = _Call(problem, start, seed), int(SHARE_APART * turns)
    call.run(library, 0, 0.0, 0.0)
    yield call.best
    for begin, end, (warm, cold) in ((0, apart, APART), (apart, turns, TOGETHER)):
        call.price(apart=end == apart)
        for done in range(begin, end, TURNS_OF_A_SLICE):
            until = min(done + TURNS_OF_A_SLICE, end)
            temperatures = (warm + (cold - warm) * (at - begin) / (end - begin) for at in (done, until))
            call.run(library, until - done, *temperatures)
            yield None if end == apart else call.best


def improving(choices: Iterable[WalkChoice | None]) -> Iterator[WalkChoice | None]:
    """Each choice that costs less than all before it, None in the place of every other one."""
    least = IMPOSSIBLE
    for choice in choices:
        better = choice is not None and choice.cost < least
        least = choice.cost if choice is not None and better else least
        yield choice if better else None


class _Call:
    """The arrays that a call reads and writes."""

    def __init__(self, problem: AnnealedProblem, start: WalkChoice, seed: int) -> None:
        self._start, kernels = start, len(start.walks)
        count = len(start.constants)
        rows = [(*cell, weight) for walk in start.walks for cell, weight in zip(walk.cells, walk.weights, strict=True)]
        begin = [0, *itertools.accumulate(len(walk.cells) for walk in start.walks)]
        prices = [term_prices(number, problem.target) for number in range(1, count + 1)]
        places = [0, *itertools.accumulate((len(one.counts) for one in prices), initial=0)]
        counts = np.zeros((count, places[-1]), dtype=np.int32)
        for number, (place, one) in enumerate(zip(places[1:], prices, strict=False), start=1):
            counts[:number, place : place + len(one.counts)] = one.counts.T
        self._kept = (
            *(np.array(values, dtype=np.int32) for values in (begin, rows, places)),
            counts,
            np.concatenate([_lanes(one) for one in prices]),
        )
        self._problem = _CellProblem(
            kernels,
            count,
            problem.dropped,
            problem.halvings,
            problem.image,
            max(walk.largest for walk in start.walks),
            int(problem.target != "auke"),
            round(problem.far * UNIT),
        )
        self._problem.random = seed % (1 << 63)
        for name, array in zip(("begin", "cell", "rows", "counts", "prices"), self._kept, strict=True):
            setattr(self._problem, name, array.ctypes.data)
        self._now, self._best = ([np.array(values, dtype=np.int32) for values in self._values()] for _ in range(2))

    def _values(self) -> tuple[Sequence[int], ...]:
        start = self._start
        cells = range(sum(len(walk.cells) for walk in start.walks))
        return start.constants, start.order, cells, (NOT_YET,)

    def price(self, apart: bool) -> None:
        """Price cells apart from now on, or whole walks; go on from the best choice by the other prices."""
        self._problem.apart = int(apart)
        if self._best[-1][0] != NOT_YET:
            for now, best in zip(self._now, self._best, strict=True):
                now[:] = best
        self._best[-1][0] = NOT_YET

    def run(self, library: ctypes.CDLL, turns: int, warm: float, cold: float) -> None:
        """Go on for so many turns. Raises `MemoryError`."""
        self._problem.turns, self._problem.warm, self._problem.cold = turns, warm, cold
        choices = [_CellChoice(*(array.ctypes.data for array in arrays)) for arrays in (self._now, self._best)]
        if not library.kilotune_anneal_cells(ctypes.byref(self._problem), *map(ctypes.byref, choices)):
            raise MemoryError("The search for constants ran out of memory.")

    @property
    def best(self) -> WalkChoice:
        constants, order, path, cost = (array.tolist() for array in self._best)
        walks, begin = [], 0
        for walk in self._start.walks:
            count = len(walk.cells)
            walks.append(reordered_walk(walk, [number - begin for number in path[begin : begin + count]]))
            begin += count
        return replace(
            self._start, constants=tuple(constants), order=tuple(order), walks=tuple(walks), cost=int(cost[0])
        )


def _lanes(prices: TermPrices) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Shape (sums, LANES): prices as the compiled search reads them."""
    lanes = np.full((len(prices.counts), LANES), NONE, dtype=np.uint8)
    for taken, out in itertools.product((0, 1), repeat=2):
        lanes[:, 2 * taken + out] = prices.inner[taken, out]
        lanes[:, FIRST + out] = prices.first[out]
    return lanes
