"""One question to the compiled search: which program of at most this cost computes these sums?

A kernel is a Laurent polynomial in x and y. A value is represented by its evaluation at a random point modulo 2**61 - 1, so
that an instruction is a modular operation and equality one comparison: a miss is a proof (equal polynomials have equal
evaluations), and a hit is verified on exact sums here. A program is the set of its values, and `programs.c` meets every
constructible set once. What it cuts:

- every value is used: each of r instructions takes at most 2 (scamp5: 3) values that wait for a use;
- shifts, halvings and growth that the pending targets still need (see `bounds.py`);
- a target that one instruction of the least cost reaches is taken at once: it belongs to every program;
- of programs that the symmetries of a single target turn into one another one is met (`programs_turns.h`), where that is asked for;
- the last two instructions are looked up: one table holds what is one instruction away from the values (forwards), one what
  is one instruction away from a target (backwards);
- of a single target in the macros the last three are, where all instructions cost the same and no sums are given or forbidden: the first
  of the three is the solution of a linear equation, looked up among what may be taken (`programs_endings.h`);
- of what a walk asks, the last two values that are not asked for are looked up likewise (`programs_last_two.h`).

All of it also holds for several targets: those are values that a program must contain (but see `ProgramQuery.whole`).
With the values of a known program as targets, all but a few, the same search repairs or shortens that program.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kilotune.codegen.scamp.plan import Plan, PlanStep
from kilotune.codegen.scamp.sums import Sum
from kilotune.evaluators.c_structures import structures
from kilotune.evaluators.compiled_library import load_library
from kilotune.spaces.reverse_split.prepared_question import CompiledSearch, PreparedQuestion, ProgramResult, too_long
from kilotune.spaces.reverse_split.symmetries import symmetries_of, turned_places

MODULUS = (1 << 61) - 1
MOST_VALUES = 90
"""Instructions and targets of one question."""

LONGEST_PATH = 128
"""Numbers of a path, and instructions of a program that is found: more than any question may have."""

NEED_SHIFTS, NEED_GROWTH = 64, 256

SUMS_KEPT = 1 << 12
"""Values of the programs that a walk has seen last."""

OFFSETS: tuple[tuple[str, ...], ...] = (
    (),
    ("north",),
    ("east",),
    ("south",),
    ("west",),
    ("north", "north"),
    ("east", "east"),
    ("south", "south"),
    ("west", "west"),
    ("north", "east"),
    ("south", "west"),
    ("east", "south"),
    ("west", "north"),
)
"""The directions of the offsets of programs.c."""

_STEPS = {"north": (0, 1), "east": (1, 0), "south": (0, -1), "west": (-1, 0)}
PLACES = tuple((sum(_STEPS[d][0] for d in way), sum(_STEPS[d][1] for d in way)) for way in OFFSETS)
"""Where the offsets of programs.c lead: x and y."""


class Costs(NamedTuple):
    """What instructions cost: most of them, those with two directions, halvings."""

    plain: int
    far: int
    halve: int


INSTRUCTIONS = Costs(1, 1, 1)
BUS_TRANSFERS = Costs(2, 3, 2)


@dataclass(frozen=True)
class ProgramQuery:
    """`targets` in units of `2**-depth`: distinct, none zero, none the image itself. `given`: sums that are there beside the
    image, without cost.

    `shiftless`: values are numbers, not polynomials, and nothing is ever shifted (for bounds). `reach`: how far west,
    south, east and north values may extend; `most_weight`: their greatest sum of absolute weights, in pixels.
    Both cut programs off, so no proof stands on them. `forbidden` sums are never computed. `whole`: of several targets no
    program is overlooked, which takes longer; of one none ever is. `nearby`: the last two values that are neither given nor
    targets are solved for, where halvings cost as little as any, which may overlook a program (`programs_last_two.h`).
    `turned`: of the programs for a single target that its symmetries (those of the square) turn into one another, one is
    enough. It is not for a limited `reach`.
    """

    target: str
    depth: int
    targets: tuple[Sum, ...]
    costs: Costs = INSTRUCTIONS
    reach: tuple[int, int, int, int] = (1000, 1000, 1000, 1000)
    most_weight: float = 1e18
    given: tuple[Sum, ...] = ()
    forbidden: tuple[Sum, ...] = ()
    shiftless: bool = False
    whole: bool = False
    nearby: bool = False
    turned: bool = False


(_KernelProblem,) = structures(Path(__file__).with_name("programs_state.h"), "Problem")


@cache
def load_kernel() -> ctypes.CDLL | None:
    """The library; None when there is no working C compiler."""
    loaded = load_library(Path(__file__).with_name("programs.c"))
    if loaded is None:
        return None
    function = loaded.library.kilotune_programs
    function.argtypes = [ctypes.POINTER(_KernelProblem), *[ctypes.c_void_p] * 6]
    function.restype = ctypes.c_int
    return loaded.library


class SumMeasures:
    """What the compiled search is told of a sum, kept for whoever asks about the same sums in question after question."""

    def __init__(self) -> None:
        self.residue = lru_cache(maxsize=SUMS_KEPT)(residue)
        self.shape = lru_cache(maxsize=SUMS_KEPT)(shape_of)


@dataclass
class Searcher:
    """A question made ready: it can be asked at several budgets, in slices. Raises `RuntimeError` without a compiler."""

    question: ProgramQuery
    measures: SumMeasures = field(default_factory=SumMeasures, repr=False)
    share: int = 0
    shares: int = 0
    """Which nodes of a search that so many threads share are this one's: see `shared_asking.py`."""

    _kept: tuple[npt.NDArray[np.generic], ...] = field(init=False, repr=False)
    _problem: ctypes.Structure = field(init=False, repr=False)

    def __post_init__(self) -> None:
        q = self.question
        x, y = (1, 1) if q.shiftless else evaluation_point()
        given = (Sum.image(q.depth), *q.given)
        value, target, forbid = (
            np.array([self.measures.residue(total, q.depth, x, y) for total in totals], dtype=np.uint64)
            for totals in (given, q.targets, q.forbidden)
        )
        value_shape, shape = (
            np.array([self.measures.shape(total, q.depth) for total in totals], dtype=np.float64)
            for totals in (given, q.targets)
        )
        need = needs(q.target, q.costs)
        symmetries = symmetries_of(q.targets[0]) if q.turned and len(q.targets) == 1 and not q.shiftless else ()
        turn = np.array([turned_places(PLACES, symmetry) for symmetry in symmetries], dtype=np.uint8)
        self._kept = (value, value_shape, target, shape, forbid, need, turn)
        offsets = 1 if q.shiftless else 5 if q.target == "auke" else 13
        number = 0 if q.target == "auke" else 1
        reach = (ctypes.c_int32 * 4)(*q.reach)
        self._problem = _KernelProblem(
            number, offsets, *q.costs, len(given), len(target), len(forbid), 0, reach, q.most_weight, x, y
        )
        self._problem.nearby = int(q.nearby)
        self._problem.whole, self._problem.share, self._problem.shares = int(q.whole), self.share, self.shares
        self._problem.turns, self._problem.turn = len(symmetries), turn.ctypes.data
        self._problem.value, self._problem.value_shape = value.ctypes.data, value_shape.ctypes.data
        self._problem.target, self._problem.forbid = target.ctypes.data, forbid.ctypes.data
        self._problem.target_shape, self._problem.need = shape.ctypes.data, need.ctypes.data

    def ask(self, budget: int, work_limit: int, path: Sequence[int] = ()) -> ProgramResult:
        """Look for a program of at most `budget`, from where `path` left off. Deepen one by one: a program that is
        much cheaper than the budget may be overlooked. Raises `MemoryError`."""
        return self.prepared(budget, work_limit, path).ask(work_limit)

    def prepared(self, budget: int, work_limit: int, path: Sequence[int] = ()) -> PreparedQuestion:
        """What `ask` asks. One question of a searcher at a time."""
        kernel = load_kernel()
        if kernel is None:
            raise RuntimeError("The search for programs needs a C compiler (cc, gcc or clang), and none works here.")
        values = budget // self.question.costs.plain + 2 + len(self.question.given)
        if max(values, len(self.question.targets)) > MOST_VALUES:
            return too_long()
        search = CompiledSearch(
            kernel.kilotune_programs, self._problem, LONGEST_PATH, 5, len(self.question.targets), self._plan
        )
        return search.prepared(budget, work_limit, path)

    def _plan(self, rows: list[list[int]], results: list[int]) -> Plan:
        q = self.question
        steps = tuple(step_of_row(q.target, *row) for row in rows)
        if q.shiftless:
            return Plan(q.target, q.depth, steps, tuple(results))
        return verified(Plan(q.target, q.depth, steps, tuple(results)), q.targets, q.given)


def verified(plan: Plan, sums: Sequence[Sum], given: Sequence[Sum] = ()) -> Plan:
    """The plan, at the least depth (from its own) that holds all its values, after it has computed exactly those sums.

    With `given` sums the numbers of values count them after the image. Raises `ArithmeticError` when the plan computes
    something else.
    """
    deeper = sum(step.op in ("div2", "divq", "div") for step in plan.steps)
    values = [Sum.image(plan.depth + deeper), *(total.scaled(1 << deeper) for total in given)]
    for step in plan.steps:
        values.append(plan.instruction(step).apply([values[at] for at in step.operands], step.directions))
    if any(values[at] != total.scaled(1 << deeper) for at, total in zip(plan.results, sums, strict=True)):
        raise ArithmeticError("two different sums have the same evaluation")
    spare = deeper
    for value in values:
        for _, weight in value:
            spare = min(spare, (weight & -weight).bit_length() - 1)
    return replace(plan, depth=plan.depth + deeper - spare)


def step_of_row(target: str, op: int, offset: int, a: int, b: int, c: int) -> PlanStep:
    """An instruction as the compiled searches number it."""
    directions = OFFSETS[offset]
    if target == "auke":
        if op == 0:
            return PlanStep(directions[0], (a,))
        name = ("", "add", "sub", "neg", "addneg", "div2")[op]
        return PlanStep(name, (a, b) if op in (1, 2, 4) else (a,))
    suffix = ("", "x", "2x")[len(directions)]
    if op == 7:
        return PlanStep("add", (a, b, c))
    name = ("mov", "add", "sub", "neg", "", "divq", "mov")[op] + suffix
    return PlanStep(name, (a, b) if op in (1, 2) else (a,), directions)


@cache
def evaluation_point() -> tuple[int, int]:
    """A random point, the same in every run."""
    generator = random.Random("kilotune evaluation point")
    return generator.randrange(2, MODULUS), generator.randrange(2, MODULUS)


def residue(total: Sum, depth: int, x: int, y: int) -> int:
    """A sum in units of `2**-depth` evaluated at a point modulo 2**61 - 1."""
    result = 0
    for (across, up), weight in total:
        result += weight * pow(x, across, MODULUS) * pow(y, up, MODULUS)
    return result * pow(2, -depth, MODULUS) % MODULUS


def shape_of(total: Sum, depth: int) -> tuple[float, ...]:
    """What bounds look at: how far it extends (west, south, east, north), halvings, cells, sum of absolute weights; how far north and east
    together, north and west, south and east, south and west."""
    west, south, east, north = total.box
    every = 0
    for _, weight in total:
        every |= weight
    halvings = max(0, depth - ((every & -every).bit_length() - 1))
    corners = (max(sx * x + sy * y for (x, y), _ in total) for sy in (1, -1) for sx in (1, -1))
    return (-west, -south, east, north, halvings, len(total.terms), total.cardinality / 2.0**depth, *corners)


def fewest_moves(reach: Sequence[float]) -> int:
    """The moves by one cell that reach so far from the image: the eight distances of `shape_of`, sides first, none negative."""
    west, south, east, north, *corners = map(int, reach)
    sides = (north + east, north + west, south + east, south + west)
    beyond = [max(0, corner - covered) for corner, covered in zip(corners, sides, strict=True)]
    return west + south + east + north + max(beyond[0] + beyond[3], beyond[1] + beyond[2])


@cache
def needs(target: str, costs: Costs) -> npt.NDArray[np.int32]:
    """Shape (NEED_SHIFTS, NEED_GROWTH): the least cost of instructions that together move a box by so many cells and
    multiply a count by at least so much."""
    moves: tuple[tuple[int, int, int], ...] = ((1, 1, costs.plain), (0, 2, costs.plain))
    if target == "scamp5":
        moves = ((1, 2, costs.plain), (2, 2, costs.far), (0, 3, costs.plain))
    table = np.zeros((NEED_SHIFTS, NEED_GROWTH), dtype=np.int32)
    for shifts in range(NEED_SHIFTS):
        for growth in range(NEED_GROWTH):
            if not shifts and growth <= 1:
                continue
            table[shifts, growth] = min(
                cost + int(table[max(0, shifts - shift), -(-growth // factor)])
                for shift, factor, cost in moves
                if (shift and shifts) or (factor > 1 and growth > 1)
            )
    return table
