"""Long kernels by Horner's scheme over cells, while the constants change on the way: registers that hold multiples of the image, each of
which an instruction makes another one of wherever the walks have come to.

With constants that stay (`horner.py`, `nested_constants.py`) a walk begins when the last of them is made, and a register serves one
constant. Here making one constant from another takes the same instruction, but cells that want the one are passed before it, and cells that
want the other after it: five registers have twenty constants, each for as long as it is wanted. The walks, these instructions, and where
they come are annealed together, compiled (`changing_constants.c`), under the length of the whole program. `changing_writer.py` writes it.

Where the results of several kernels leave two registers for constants on the last walk, hardly any change of one makes another program
that is possible. So the other kernels are annealed first, a beam (`last_walk.h`) appends the last walk, and all go on from there.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import random
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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

LEAST_REGISTERS, FEWEST_CONSTANTS, FEWEST_OF_A_BEAM, MOST_CELLS_OF_A_BEAM = 4, 3, 2, 16
"""The fewest of a program, and how many constants the last of several kernels has at least: by annealing alone, and by a beam, which walks
over so many cells at most."""

WARM, COLD, WARM_AGAIN = 0.7, 0.1, 0.4
"""Temperatures, in instructions; chosen on 7x7 kernels of seeds 101 to 103. The last one, behind a beam, on four 3x3 kernels of these."""

WIDTH, SHARE_OF_OTHERS = 1000, 0.4
"""Stops of a beam, and what of a search goes before it."""

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
    loaded = load_library(Path(__file__).with_name("changing_constants.c"))
    if loaded is None:
        return None
    function = loaded.library.kilotune_anneal_changing
    function.argtypes = [
        ctypes.POINTER(_ChangingProblem),
        ctypes.POINTER(_ChangingChoice),
        ctypes.POINTER(_ChangingChoice),
    ]
    function.restype = ctypes.c_int
    walk_last = loaded.library.kilotune_walk_last
    walk_last.argtypes, walk_last.restype = [*function.argtypes, ctypes.c_int32], ctypes.c_int
    return loaded.library


@dataclass(frozen=True)
class ChangingProblem:
    """What is searched for: programs of `kernels` in so many registers. `kept`: the result of each takes one of them from then on. `far`:
    what a move by two cells takes more than one by one, in instructions."""

    kernels: HornerKernels
    registers: int
    kept: bool
    far: float

    @property
    def has_beam(self) -> bool:
        """Whether the last kernel has so few constants that a beam begins its walk."""
        return self.kept and constants_of_last(len(self.kernels.walks), self.registers) < FEWEST_CONSTANTS


def constants_of_last(kernels: int, registers: int) -> int:
    """How many registers hold constants on the walk of the last kernel, while the results of the others wait."""
    return registers - kernels


def has_changing_walks(sums: Sequence[Sum], registers: int, kept: bool) -> bool:
    """Whether there are registers enough for these kernels."""
    constants = constants_of_last(len(sums) if kept else 1, registers)
    small = all(len(total.weights()) <= MOST_CELLS_OF_A_BEAM for total in sums)
    fewest = FEWEST_OF_A_BEAM if len(sums) > 1 and kept and small else FEWEST_CONSTANTS
    return registers >= LEAST_REGISTERS and constants >= fewest


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
    if not has_changing_walks(sums, registers, kept) or load_changing() is None:
        return
    kernels, generator = horner_kernels(sums, depth, target, registers - 1), random.Random(seed)
    few = kernels.digits < FEWEST_DIGITS * len(kernels.weights)
    if few or kernels.largest > LARGEST_WEIGHT or kernels.image > LARGEST_HELD:
        return
    problem = ChangingProblem(kernels, registers, kept, far_price(costs))
    orders = generator.sample(range(len(sums)), len(sums))
    most, failed = SECONDS_A_PAIR * len(kernels.weights) ** 2, 0
    for number in itertools.count():
        plan: Plan | None = None
        doubled = min(number // SEARCHES_OF_A_LENGTH, MOST_DOUBLED)
        whole = min(seconds, seconds_left())  # a search that cannot end has found nothing
        shares = _shares(seconds_left, min(SHARE_OF_A_SEARCH * whole, most * 2**doubled))
        asked = (
            replace(problem, kernels=_with_last(kernels, orders[number % len(orders)])) if problem.has_beam else problem
        )
        for program in annealed(asked, shares, generator.getrandbits(62)):
            yield None
            plan = None if program is None else fitted(changing_plan(program), registers, kept)
        if plan is not None and problem.has_beam:
            plan = _with_result_at(plan, orders[number % len(orders)])
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


def _with_last(kernels: HornerKernels, number: int) -> HornerKernels:
    """One of the kernels behind the others."""
    walks = kernels.walks
    return replace(kernels, walks=(*walks[:number], *walks[number + 1 :], walks[number]))


def _with_result_at(plan: Plan, number: int) -> Plan:
    """The last result where its kernel was."""
    *others, last = plan.results
    return replace(plan, results=(*others[:number], last, *others[number:]))


def annealed(problem: ChangingProblem, shares: Iterator[float], seed: int) -> Iterator[ChangingProgram | None]:
    """None after each slice of the turns, between two `shares` of the search, and in the end the shortest program, None where none was
    found. Raises `MemoryError`."""
    library, call = load_changing(), _ChangingCall(problem, seed)
    if library is not None and problem.has_beam:
        call.leave_last()
        share = yield from _cooled(library, call, shares, (next(shares), SHARE_OF_OTHERS), WARM)
        if call.append_last(library):
            yield from _cooled(library, call, shares, (share, 1.0), WARM_AGAIN)
    elif library is not None:
        yield from _cooled(library, call, shares, (next(shares), 1.0), WARM)
    yield call.best


def _cooled(
    library: ctypes.CDLL, call: _ChangingCall, shares: Iterator[float], between: tuple[float, float], warm: float
) -> Generator[None, None, float]:
    """Slices between two shares of a search, ever colder; how far it is then."""
    begin, end = between
    share, last = begin, begin
    while share < end:
        following = min(end, 2 * share - last)  # as far again
        there = [(at - begin) / (end - begin) for at in (share, following)]
        call.run(library, TURNS_OF_A_SLICE, *(warm * (COLD / warm) ** at for at in there))
        share, last = next(shares), share
        yield None
    return share


def first_steps(image: int, registers: int, largest: int) -> tuple[ConstantStep, ...]:
    """Where annealing begins, before the walks: halves of the image down to a unit, every second one kept; then three times the image, nine
    times, ... up to half of the largest weight, as far as there are registers. Not all weights need be sums of them, but a search that
    begins where hardly any is finds none at all: of integers, whose unit is the image, a quarter of the searches did not. With a
    `largest` of 0 there are only the halves."""
    steps, room = list(_halving_steps(image, registers)), registers - 1
    if any(step.into == 0 for step in steps):  # the image is gone
        return tuple(steps)
    held, top, spare = image, 0, room  # no total is there yet, so its register is free
    for into in range(1 + max((step.into for step in steps), default=0), room):
        if 2 * held > largest:
            break
        steps.append(ConstantStep("neg", spare, (top,), 0))
        steps.append(ConstantStep("sub", into, (top, spare), 0))
        steps.append(ConstantStep("add", into, (into, top), 0))
        held, top = 3 * held, into
    return tuple(steps)


def _halving_steps(image: int, registers: int) -> Iterator[ConstantStep]:
    bits, room, source, free = image.bit_length() - 1, registers - 1, 0, 2
    for number in range(1, bits + 1):
        into = 1 if source != 1 else 0
        if number % 2 == 0 and free < room and number < bits:
            into, free = free, free + 1
        yield ConstantStep("halve", into, (source,), 0)
        source = into


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
        kernels, steps = self._of.kernels, np.zeros((MOST_STEPS, 6), dtype=np.int32)
        largest = (
            0 if self._of.kept else kernels.largest
        )  # halves alone led to a program wherever results stay, 1 % shorter ones
        first = first_steps(kernels.image, self._of.registers, largest)
        for number, step in enumerate(first):
            operands = (*step.operands, 0, 0, 0)[:3]
            steps[number] = (OPERATIONS.index(step.operation), step.into, *operands, step.at)
        numbers = range(len(self._begin) - 1), range(self._begin[-1]), [len(first)], [NOT_YET]
        others = zip(("order", "path", "count", "cost"), numbers, strict=True)
        return {"steps": steps, **{name: np.array(values, dtype=np.int32) for name, values in others}}

    def run(self, library: ctypes.CDLL, turns: int, warm: float, cold: float) -> None:
        """Go on for so many turns. Raises `MemoryError`."""
        self._problem.turns, self._problem.warm, self._problem.cold = turns, warm, cold
        choices = _choice(self._now), _choice(self._best)
        if not library.kilotune_anneal_changing(ctypes.byref(self._problem), *map(ctypes.byref, choices)):
            raise MemoryError("The search for changing constants ran out of memory.")

    def leave_last(self) -> None:
        """From now on without the last kernel."""
        self._problem.kernels = len(self._begin) - 2

    def append_last(self, library: ctypes.CDLL) -> bool:
        """Go on with the last kernel behind the best program of the others; False where there is none. Raises `MemoryError`."""
        self._problem.kernels, others = len(self._begin) - 1, self._best["cost"][0]
        self._best["cost"][0] = NOT_YET
        if others == NOT_YET:
            return False
        found = library.kilotune_walk_last(
            ctypes.byref(self._problem), *map(ctypes.byref, (_choice(self._best), _choice(self._now))), WIDTH
        )
        if found < 0:
            raise MemoryError("The search for the walk of the last kernel ran out of memory.")
        if found:
            self.run(library, 1, COLD, COLD)
        return bool(found)

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


def _choice(arrays: Mapping[str, StepArray]) -> ctypes.Structure:
    return _ChangingChoice(**{name: array.ctypes.data for name, array in arrays.items()})


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
