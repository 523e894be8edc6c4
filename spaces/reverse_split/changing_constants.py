"""Long kernels by Horner's scheme over cells, while the constants change on the way: registers that hold multiples of the image, each of
which an instruction makes another one of wherever the walks have come to.

With constants that stay (`horner.py`, `nested_constants.py`) a walk begins when the last of them is made, and a register serves one
constant. Here making one constant from another takes the same instruction, but the cells that were wanted before it are passed before it: in
five registers there are twenty constants, each for as long as it is wanted. The walks, the instructions between their visits to cells, and
where these come are annealed together, compiled (`changing_constants.c`), under the length of the whole program. Where registers are few, a
cell may be visited again, for a part of its weight each time, and the total halved on the way, which halves what was added before.
`changing_writer.py` writes the program.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kilotune.codegen.scamp.plan import Plan
from kilotune.codegen.scamp.sums import Cell, Sum
from kilotune.evaluators.c_structures import structures
from kilotune.evaluators.compiled_library import load_library
from kilotune.spaces.reverse_split.changing_writer import ChangingProgram, ConstantStep, Visit, changing_plan
from kilotune.spaces.reverse_split.horner import FEWEST_DIGITS, LARGEST_WEIGHT, HornerKernels, far_price, horner_kernels
from kilotune.spaces.reverse_split.programs import INSTRUCTIONS, Costs
from kilotune.spaces.reverse_split.scheduling import fitted
from kilotune.spaces.reverse_split.term_prices import term_prices

UNIT, LANES, FIRST, SLOTS, BLOCK, NONE, MOST_STEPS = 256, 8, 4, 8, 32, 255, 96
NOT_YET = (1 << 31) - 1
LARGEST_HELD = 6_000
"""Units: five of them are still numbers of 16 bits."""

MOST_TERMS, FEW, MOST_OF_FEW = 4, 3, 6
"""How many terms a visit has at most, and how many where so few registers hold constants or fewer."""

LEAST_REGISTERS, ROOM_OF_THE_LAST = 4, 2
"""Of a program, and how many constants the last of several kernels has at least."""

WARM, COLD = 1.5, 0.1
"""Temperatures, in instructions; chosen on 7x7 kernels of seeds 101 to 103 and sets of four 3x3 ones of seeds 11, 12, 101 and 102."""

SPLITS, HALVINGS = 12, 8
"""Of a hundred changes that divide a weight among visits, and of a hundred new instructions that halve the total, where a kernel has two
constants."""

TURNS_A_SECOND, LEAST_TURNS, TURNS, MOST_TURNS = 150_000, 20_000, 100_000, 2_000_000
"""Turns of a search by the seconds that there are, a third of what can be done in them; without a clock `TURNS`."""

TURNS_OF_A_SLICE, MOST_FAILED = 10_000, 4
SPARE_VISITS = 16

_Problem, _Choice = structures(
    Path(__file__).with_name("changing_constants.c"), "ChangingProblem", "ChangingChoice"
)
Integers = npt.NDArray[np.int32]


@cache
def load_changing() -> ctypes.CDLL | None:
    """The library; None when there is no working C compiler."""
    loaded = load_library(Path(__file__).with_name("changing_constants.c"), (), ("m",))
    if loaded is None:
        return None
    function = loaded.library.kilotune_anneal_changing
    function.argtypes = [ctypes.POINTER(_Problem), ctypes.POINTER(_Choice), ctypes.POINTER(_Choice)]
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

    @property
    def is_tight(self) -> bool:
        """Whether the last kernel has two constants."""
        return self.kept and self.registers - len(self.kernels.walks) <= ROOM_OF_THE_LAST


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
) -> Iterator[Plan | None]:
    """Plans of the sums (units of `2**-depth`; none zero) in so many registers, and None on the way to each; without an end, each in about
    a third of so many seconds. None at all for weights of more than `LARGEST_WEIGHT` or of few digits, which need no constants, where
    there are too few registers, and without a compiler."""
    room = registers - (len(sums) if kept else 1)
    if registers < LEAST_REGISTERS or room < ROOM_OF_THE_LAST or load_changing() is None:
        return
    kernels, generator = horner_kernels(sums, depth, target, registers - 1), random.Random(seed)
    few = kernels.digits < FEWEST_DIGITS * len(kernels.weights)
    if few or kernels.largest > LARGEST_WEIGHT or kernels.image > LARGEST_HELD:
        return
    problem = ChangingProblem(kernels, registers, kept, far_price(costs))
    turns = TURNS if math.isinf(seconds) else int(min(max(seconds * TURNS_A_SECOND, LEAST_TURNS), MOST_TURNS))
    failed = 0
    while failed < MOST_FAILED:
        plan: Plan | None = None
        for program in annealed(problem, turns, generator.getrandbits(62)):
            yield None
            plan = None if program is None else fitted(changing_plan(program), registers, kept)
        failed = failed + 1 if plan is None else 0
        if plan is not None:
            yield plan


def annealed(problem: ChangingProblem, turns: int, seed: int) -> Iterator[ChangingProgram | None]:
    """None after each slice of the turns, and in the end the shortest program, None where none was found. Raises `MemoryError`."""
    library, call = load_changing(), _Call(problem, seed)
    for done in range(0, turns, TURNS_OF_A_SLICE) if library is not None else ():
        until = min(done + TURNS_OF_A_SLICE, turns)
        call.run(library, until - done, *(WARM * (COLD / WARM) ** (at / turns) for at in (done, until)))
        yield call.best if until == turns else None


def first_program(problem: ChangingProblem) -> ChangingProgram:
    """Where annealing begins: halves of the image down to a unit, every second one kept, before the walks. Not all weights need be sums of
    them. The last of many kernels has the image alone: it is walked over once for every digit, the total halved in between."""
    kernels = problem.kernels
    bits, room = kernels.image.bit_length() - 1, problem.registers - 1
    steps, source, free = list[ConstantStep](), 0, 2
    for number in range(1, bits + 1):
        into = 1 if source != 1 else 0
        if number % 2 == 0 and free < room and number < bits:
            into, free = free, free + 1
        steps.append(ConstantStep("halve", into, (source,), 0))
        source = into
    path = [tuple(map(Visit, walk.cells, walk.weights)) for walk in kernels.walks]
    if problem.is_tight:
        begin = sum(map(len, path[:-1]))
        path[-1], halvings = _by_digits(path[-1], bits, begin)
        steps += halvings
    return ChangingProgram(kernels, problem.registers, problem.kept, tuple(range(len(path))), tuple(path), tuple(steps), NOT_YET)


def _by_digits(visits: Sequence[Visit], bits: int, begin: int) -> tuple[tuple[Visit, ...], list[ConstantStep]]:
    """Visits digit by digit, the lowest first, there and back, and the halvings of the total in between. `begin`: visits before them."""
    found, steps, before = list[Visit](), list[ConstantStep](), -1
    for bit in range(bits + 1):
        for visit in visits[:: -1 if bit % 2 else 1]:
            digit = _signed_digit(visit.weight, bit)
            if not digit:
                continue
            halvings = 0 if before < 0 else bit - before
            steps += [ConstantStep("halve total", 1, (), begin + len(found))] * halvings
            found.append(Visit(visit.cell, digit << bit))
            before = bit
    return tuple(found), steps


def _signed_digit(weight: int, bit: int) -> int:
    """That of the canonical form: neighbours of a digit are zero."""
    magnitude, sign = abs(weight), 1 if weight > 0 else -1
    bits = magnitude ^ (3 * magnitude)
    if not bits >> (bit + 1) & 1:
        return 0
    return sign if (3 * magnitude) >> (bit + 1) & 1 else -sign


class _Call:
    """The arrays that a call reads and writes."""

    def __init__(self, problem: ChangingProblem, seed: int) -> None:
        first, kernels = first_program(problem), problem.kernels
        self._first, self._cells = first, list(dict.fromkeys(visit.cell for path in first.path for visit in path))
        rows, counts, prices = _priced_sums(problem.registers, kernels.target)
        self._kept = {"cell": np.array(self._cells, dtype=np.int32), "rows": rows, "counts": counts, "prices": prices}
        most = 3 * sum(len(walk.cells) for walk in kernels.walks) + sum(map(len, first.path)) + SPARE_VISITS
        self._problem = _Problem(
            kernels=len(kernels.walks),
            registers=problem.registers,
            kept=int(problem.kept),
            macros=int(kernels.target != "auke"),
            image=kernels.image,
            bound=min(4 * max(kernels.largest, kernels.image), LARGEST_HELD),
            most=most,
            far=round(problem.far * UNIT),
            splits=SPLITS if problem.is_tight else 0,
            halvings=HALVINGS if problem.is_tight else 0,
            random=seed % (1 << 63),
        )
        for name, array in self._kept.items():
            setattr(self._problem, name, array.ctypes.data)
        self._now, self._best = self._arrays(most), self._arrays(most)

    def _arrays(self, most: int) -> dict[str, Integers]:
        first = self._first
        steps, path = np.zeros((MOST_STEPS, 6), dtype=np.int32), np.zeros((most, 2), dtype=np.int32)
        for number, step in enumerate(first.steps):
            operands = (*step.operands, 0, 0, 0)[:3]
            steps[number] = (OPERATIONS.index(step.operation), step.into, *operands, step.at)
        visits = [visit for of_kernel in first.path for visit in of_kernel]
        path[: len(visits)] = [(self._cells.index(visit.cell), visit.weight) for visit in visits]
        order, visited = first.order, [len(of_kernel) for of_kernel in first.path]
        others = ("order", order), ("visited", visited), ("count", [len(first.steps)]), ("cost", [NOT_YET])
        return {"steps": steps, "path": path, **{name: np.array(values, dtype=np.int32) for name, values in others}}

    def run(self, library: ctypes.CDLL, turns: int, warm: float, cold: float) -> None:
        """Go on for so many turns. Raises `MemoryError`."""
        self._problem.turns, self._problem.warm, self._problem.cold = turns, warm, cold
        choices = [
            _Choice(**{name: array.ctypes.data for name, array in arrays.items()}) for arrays in (self._now, self._best)
        ]
        if not library.kilotune_anneal_changing(ctypes.byref(self._problem), *map(ctypes.byref, choices)):
            raise MemoryError("The search for changing constants ran out of memory.")

    @property
    def best(self) -> ChangingProgram | None:
        found = {name: array.tolist() for name, array in self._best.items()}
        if found["cost"][0] == NOT_YET:
            return None
        ends = list(itertools.accumulate((found["visited"][kernel] for kernel in found["order"]), initial=0))
        path = [Visit(self._cells[cell], weight) for cell, weight in found["path"]]
        by_place = [tuple(path[begin:end]) for begin, end in itertools.pairwise(ends)]
        steps = tuple(
            ConstantStep(OPERATIONS[kind], into, tuple(operands[: OPERANDS[kind]]), at)
            for kind, into, *operands, at in found["steps"][: found["count"][0]]
        )
        first = self._first
        return ChangingProgram(
            first.kernels, first.registers, first.kept, tuple(found["order"]), tuple(by_place), steps, found["cost"][0]
        )


OPERATIONS = ("add", "sub", "add three", "neg", "halve", "addneg", "halve total")
OPERANDS = (2, 2, 3, 1, 1, 2, 0)


def _priced_sums(registers: int, target: str) -> tuple[Integers, npt.NDArray[np.int16], npt.NDArray[np.uint8]]:
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


@cache
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
