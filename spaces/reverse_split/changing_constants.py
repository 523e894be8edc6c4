"""Long kernels by Horner's scheme over cells, while the constants change on the way: registers that hold multiples of the image, each of
which an instruction makes another one of wherever the walks have come to.

With constants that stay (`horner.py`, `nested_constants.py`) a walk begins when the last of them is made, and a register serves one
constant. Here making one constant from another takes the same instruction, but cells that want the one are passed before it, and cells that
want the other after it: five registers have twenty constants, each for as long as it is wanted. The walks, these instructions, and where
they come are annealed together, compiled (`changing_constants.c`), under the length of the whole program. `changing_writer.py` writes it.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kilotune.codegen.scamp.plan import Plan
from kilotune.codegen.scamp.sums import Sum
from kilotune.evaluators.c_structures import structures
from kilotune.evaluators.compiled_library import load_library
from kilotune.spaces.reverse_split.cell_walks import CellWalk, reordered_walk
from kilotune.spaces.reverse_split.changing_writer import ChangingProgram, ConstantStep, changing_plan
from kilotune.spaces.reverse_split.horner import FEWEST_DIGITS, LARGEST_WEIGHT, HornerKernels, far_price, horner_kernels
from kilotune.spaces.reverse_split.programs import INSTRUCTIONS, Costs
from kilotune.spaces.reverse_split.scheduling import fitted
from kilotune.spaces.reverse_split.term_prices import term_prices

UNIT, LANES, FIRST, SLOTS, BLOCK, NONE, MOST_STEPS = 256, 8, 4, 8, 32, 255, 96
NOT_YET = (1 << 31) - 1
LARGEST_HELD = 6_000
"""Units: five of them are still numbers of 16 bits."""

MOST_TERMS, FEW, MOST_OF_FEW = 4, 3, 6
"""How many terms a cell has at most, and how many where so few registers hold constants or fewer."""

LEAST_REGISTERS, FEWEST_CONSTANTS = 4, 3
"""The fewest of a program, and how many constants the last of several kernels has at least."""

WARM, COLD = 0.7, 0.1
"""Temperatures, in instructions; chosen on 7x7 kernels of seeds 101 to 103."""

TURNS, SHARE_OF_A_SEARCH, SECONDS_A_PAIR = 100_000, 0.95, 0.0014
"""Turns of a search without a clock; else the seconds for each pair of cells, at most that share of those that there are for all: one long
search of a 7x7 kernel ends lower than several short ones, of a 5x5 one several end lower."""

SEARCHES_OF_A_LENGTH, MOST_DOUBLED = 4, 2
"""After how many searches the next ones are twice as long, and how often."""

TURNS_OF_A_SLICE, MOST_FAILED = 8_000, 4

_ChangingProblem, _ChangingChoice = structures(
    Path(__file__).with_name("changing_constants.c"), "ChangingProblem", "ChangingChoice"
)
StepArray = npt.NDArray[np.int32]


@cache
def load_changing() -> ctypes.CDLL | None:
    """The library; None when there is no working C compiler."""
    loaded = load_library(Path(__file__).with_name("changing_constants.c"), (), ("m",))
    if loaded is None:
        return None
    function = loaded.library.kilotune_anneal_changing
    function.argtypes = [
        ctypes.POINTER(_ChangingProblem),
        ctypes.POINTER(_ChangingChoice),
        ctypes.POINTER(_ChangingChoice),
    ]
    function.restype = ctypes.c_int
    return loaded.library


@dataclass(frozen=True)
class ChangingProblem:
    """What is searched for: programs of `kernels` in so many registers. `kept`: the result of each takes one of them from then on. `far`:
    what a move by two cells takes more than one by one, in instructions."""

    kernels: HornerKernels
    registers: int
    kept: bool
    far: float


def changing_plans(
    sums: Sequence[Sum],
    depth: int,
    target: str,
    registers: int,
    seed: int,
    *,
    kept: bool = True,
    seconds: float = math.inf,
    costs: Costs = INSTRUCTIONS,
    seconds_left: Callable[[], float] = lambda: math.inf,
) -> Iterator[Plan | None]:
    """Plans of the sums (units of `2**-depth`; none zero) in so many registers, and None on the way to each; without an end, each in most
    of so many seconds by the clock of `seconds_left`. None at all for weights of more than `LARGEST_WEIGHT` or of few digits, which need no
    constants, where there are too few registers, and without a compiler."""
    room = registers - (len(sums) if kept else 1)
    if registers < LEAST_REGISTERS or room < FEWEST_CONSTANTS or load_changing() is None:
        return
    kernels, generator = horner_kernels(sums, depth, target, registers - 1), random.Random(seed)
    few = kernels.digits < FEWEST_DIGITS * len(kernels.weights)
    if few or kernels.largest > LARGEST_WEIGHT or kernels.image > LARGEST_HELD:
        return
    problem = ChangingProblem(kernels, registers, kept, far_price(costs))
    most, failed = SECONDS_A_PAIR * len(kernels.weights) ** 2, 0
    for number in itertools.count():
        plan: Plan | None = None
        doubled = min(number // SEARCHES_OF_A_LENGTH, MOST_DOUBLED)
        shares = _shares(seconds_left, min(SHARE_OF_A_SEARCH * seconds, most * 2**doubled))
        for program in annealed(problem, shares, generator.getrandbits(62)):
            yield None
            plan = None if program is None else fitted(changing_plan(program), registers, kept)
        failed = failed + 1 if plan is None else 0
        if plan is not None:
            yield plan
        if failed == MOST_FAILED:
            return


def _shares(seconds_left: Callable[[], float], allowed: float) -> Iterator[float]:
    """How far a search is, before each slice and at its end: by what the slices took of the seconds that are allowed, or, without a clock,
    by their turns."""
    done, share = 0.0, 0.0
    while share < 1.0:
        before = seconds_left()
        yield share
        if math.isinf(before):
            share += TURNS_OF_A_SLICE / TURNS
        else:
            done += before - seconds_left()
            share = done / allowed if allowed > 0 else 1.0
    yield 1.0


def annealed(problem: ChangingProblem, shares: Iterator[float], seed: int) -> Iterator[ChangingProgram | None]:
    """None after each slice of the turns, between two `shares` of the search, and in the end the shortest program, None where none was
    found. Raises `MemoryError`."""
    library, call = load_changing(), _ChangingCall(problem, seed)
    share, last = next(shares), 0.0
    while library is not None and share < 1.0:
        following = min(1.0, 2 * share - last)  # as far again
        call.run(library, TURNS_OF_A_SLICE, *(WARM * (COLD / WARM) ** at for at in (share, following)))
        share, last = next(shares), share
        yield None
    yield call.best


def first_steps(image: int, registers: int) -> tuple[ConstantStep, ...]:
    """Where annealing begins: halves of the image down to a unit, every second one kept, before the walks. Not all weights need be sums of
    them."""
    bits, room, source, free = image.bit_length() - 1, registers - 1, 0, 2
    steps = list[ConstantStep]()
    for number in range(1, bits + 1):
        into = 1 if source != 1 else 0
        if number % 2 == 0 and free < room and number < bits:
            into, free = free, free + 1
        steps.append(ConstantStep("halve", into, (source,), 0))
        source = into
    return tuple(steps)


class _ChangingCall:
    """The arrays that a call reads and writes."""

    def __init__(self, problem: ChangingProblem, seed: int) -> None:
        self._of, kernels = problem, problem.kernels
        rows, counts, prices = _priced_sums(problem.registers, kernels.target)
        cells = [(*at, weight) for walk in kernels.walks for at, weight in zip(walk.cells, walk.weights, strict=True)]
        self._begin = [0, *itertools.accumulate(len(walk.cells) for walk in kernels.walks)]
        whole = {"begin": np.array(self._begin, dtype=np.int32), "cell": np.array(cells, dtype=np.int32), "rows": rows}
        self._kept: dict[str, npt.NDArray[np.generic]] = {**whole, "counts": counts, "prices": prices}
        self._problem = _ChangingProblem(
            kernels=len(kernels.walks),
            registers=problem.registers,
            kept=int(problem.kept),
            macros=int(kernels.target != "auke"),
            image=kernels.image,
            bound=min(4 * max(kernels.largest, kernels.image), LARGEST_HELD),
            far=round(problem.far * UNIT),
            random=seed % (1 << 63),
        )
        for name, array in self._kept.items():
            setattr(self._problem, name, array.ctypes.data)
        self._now, self._best = self._arrays(), self._arrays()

    def _arrays(self) -> dict[str, StepArray]:
        steps, first = (
            np.zeros((MOST_STEPS, 6), dtype=np.int32),
            first_steps(self._of.kernels.image, self._of.registers),
        )
        for number, step in enumerate(first):
            operands = (*step.operands, 0, 0, 0)[:3]
            steps[number] = (OPERATIONS.index(step.operation), step.into, *operands, step.at)
        numbers = range(len(self._begin) - 1), range(self._begin[-1]), [len(first)], [NOT_YET]
        others = zip(("order", "path", "count", "cost"), numbers, strict=True)
        return {"steps": steps, **{name: np.array(values, dtype=np.int32) for name, values in others}}

    def run(self, library: ctypes.CDLL, turns: int, warm: float, cold: float) -> None:
        """Go on for so many turns. Raises `MemoryError`."""
        self._problem.turns, self._problem.warm, self._problem.cold = turns, warm, cold
        choices = [
            _ChangingChoice(**{name: array.ctypes.data for name, array in arrays.items()})
            for arrays in (self._now, self._best)
        ]
        if not library.kilotune_anneal_changing(ctypes.byref(self._problem), *map(ctypes.byref, choices)):
            raise MemoryError("The search for changing constants ran out of memory.")

    @property
    def best(self) -> ChangingProgram | None:
        found = {name: array.tolist() for name, array in self._best.items()}
        if found["cost"][0] == NOT_YET:
            return None
        walks, at = list[CellWalk](), 0
        for kernel in found["order"]:
            walk, begin = self._of.kernels.walks[kernel], self._begin[kernel]
            walks.append(reordered_walk(walk, [number - begin for number in found["path"][at : at + len(walk.cells)]]))
            at += len(walk.cells)
        steps = tuple(
            ConstantStep(OPERATIONS[kind], into, tuple(operands[: OPERANDS[kind]]), at)
            for kind, into, *operands, at in found["steps"][: found["count"][0]]
        )
        return ChangingProgram(
            self._of.kernels, self._of.registers, self._of.kept,
            tuple(found["order"]), tuple(walks), steps, found["cost"][0],
        )  # fmt: skip


OPERATIONS = ("add", "sub", "add three", "neg", "halve", "addneg")
OPERANDS = (2, 2, 3, 1, 1, 2)


def _priced_sums(registers: int, target: str) -> tuple[StepArray, npt.NDArray[np.int16], npt.NDArray[np.uint8]]:
    """By how many registers hold constants: where their sums begin (`SLOTS + 1`), the sums (shape `SLOTS`, sums), and their prices (sums,
    `LANES`). A register that holds nothing counts nothing."""
    begins, counts, prices = [0, 0], list[npt.NDArray[np.int16]](), list[npt.NDArray[np.uint8]]()
    for number in range(1, SLOTS):
        if number < registers:
            made, lanes = _sums_of(number, target)
            counts.append(made)
            prices.append(lanes)
        begins.append(sum(one.shape[1] for one in counts))
    return np.array(begins, dtype=np.int32), np.concatenate(counts, axis=1), np.concatenate(prices)


def _sums_of(number: int, target: str) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.uint8]]:
    priced = term_prices(number, target)
    terms = np.abs(priced.counts).sum(axis=1)
    kept = np.flatnonzero((terms > 0) & (terms <= (MOST_OF_FEW if number <= FEW else MOST_TERMS)))
    kept = kept[np.argsort(terms[kept], kind="stable")]
    room = -(-len(kept) // BLOCK) * BLOCK
    counts, lanes = np.zeros((SLOTS, room), dtype=np.int16), np.full((room, LANES), NONE, dtype=np.uint8)
    counts[:number, : len(kept)] = priced.counts[kept].T
    for taken, out in itertools.product((0, 1), repeat=2):
        lanes[: len(kept), 2 * taken + out] = priced.inner[taken, out][kept]
        lanes[: len(kept), FIRST + out] = priced.first[out][kept]
    if target != "auke":  # a constant and itself are no two registers
        lanes[: len(kept), FIRST : FIRST + 2] += (priced.counts[kept].max(axis=1) > 1)[:, None]
    return counts, lanes
