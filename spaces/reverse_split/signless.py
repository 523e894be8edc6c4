"""Is there a program of at most so many instructions of AUKE's set? Asked of values up to their signs, which are free but for the last.

An addition has every sign at the same cost (`add`, `sub`, `addneg`), so a value and its negation are one, and negations are never
searched for: what no program up to signs computes, none does. The other way round a program up to signs has its signs chosen here.
Where two targets want different ones of a value that is only moved and halved between them, or a target is the negated image but for
moves and halvings, there are none, and the answer is no plan.

A set of values is a program (see `programs.py`). Of the programs as short as possible the search need meet one, and it cuts
off those where another one is as short and preferred:

- a value that is used once, where another one could stand in its place: `(a + b) + c` is `(a + c) + b`, and moves, doublings and halvings
  change places with one another and with additions. The smaller residue is preferred; replacing values that way comes to an end.
  So such a value has to be used once more, and what waits for a use has to be brought together by additions.
- mirrored and turned programs of kernels that are the same mirrored or turned, up to signs: the moves of the image that such a
  program has are those of one of each orbit.

What additions can make of the values where moves are free is looked at where few are left (`signless_classes.h`), and how many moves it
takes to reach as far as a target does, its corners too (`reach.h`).

The last three instructions for a single target are looked up: what follows from the values at once is met by what is two instructions
short of the target.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kilotune.codegen.scamp.plan import Plan, PlanStep
from kilotune.codegen.scamp.sums import Cell, Sum
from kilotune.evaluators.c_structures import structures
from kilotune.evaluators.compiled_library import load_library
from kilotune.spaces.reverse_split.prepared_question import CompiledSearch, PreparedQuestion, ProgramResult, too_long
from kilotune.spaces.reverse_split.programs import (
    MODULUS,
    evaluation_point,
    residue,
    shape_of,
    verified,
)
from kilotune.spaces.reverse_split.symmetries import SQUARE, turned_places, turned_sum

MOST_TARGETS = 8
LONGEST = 32
"""Instructions of one question."""

LONGEST_PATH = 40
"""Numbers of a path, and instructions of a program that is found: more than any question may have."""

MOVES = ("north", "east", "south", "west")
STEPS: tuple[Cell, ...] = ((0, 1), (1, 0), (0, -1), (-1, 0))
DOUBLE, HALVE, SUM = 4, 5, 6
"""Operations of signless.c, after the moves; the difference comes last."""

(_KernelProblem,) = structures(Path(__file__).with_name("signless_state.h"), "SignlessProblem")


@cache
def load_kernel() -> ctypes.CDLL | None:
    """The library; None when there is no working C compiler."""
    loaded = load_library(Path(__file__).with_name("signless.c"))
    if loaded is None:
        return None
    function = loaded.library.kilotune_signless
    function.argtypes = [ctypes.POINTER(_KernelProblem), *[ctypes.c_void_p] * 6]
    function.restype = ctypes.c_int
    return loaded.library


def is_askable(targets: Sequence[Sum], depth: int) -> bool:
    """Whether the targets are few and different up to signs, and none is the image negated."""
    signless = {frozenset((total, -total)) for total in (Sum.image(depth), *targets)}
    return len(targets) <= MOST_TARGETS and len(signless) == 1 + len(targets)


@dataclass
class SignlessSearcher:
    """A question made ready: `targets` in units of `2**-depth` (`is_askable`), none zero. It is asked in slices, as a `Searcher`."""

    targets: tuple[Sum, ...]
    depth: int
    share: int = 0
    shares: int = 0
    """Which nodes of a search that so many threads share are this one's: see `shared_asking.py`."""

    _kept: tuple[npt.NDArray[np.generic], ...] = field(init=False, repr=False)
    _problem: ctypes.Structure = field(init=False, repr=False)

    def __post_init__(self) -> None:
        x, y = evaluation_point()
        target = np.array([_signless(residue(total, self.depth, x, y)) for total in self.targets], dtype=np.uint64)
        shape = np.array(
            [(*shape_of(total, self.depth), *_at_signs(total, self.depth)) for total in self.targets], dtype=np.float64
        )
        mirrored = orbit_masks(self.targets)
        self._kept = (target, shape, mirrored)
        self._problem = _KernelProblem(len(target), 0, int(not mirrored.all()), x, y)
        self._problem.target, self._problem.target_shape = target.ctypes.data, shape.ctypes.data
        self._problem.mirrored = mirrored.ctypes.data
        self._problem.share, self._problem.shares = self.share, self.shares

    def ask(self, budget: int, work_limit: int, path: Sequence[int] = ()) -> ProgramResult:
        """Look for a program of at most `budget` instructions, from where `path` left off. EXHAUSTED is a proof only where that has been
        the answer for smaller budgets. FOUND without a plan: no signs will do. Raises `MemoryError`, and `RuntimeError` without a
        compiler."""
        return self.prepared(budget, work_limit, path).ask(work_limit)

    def prepared(self, budget: int, work_limit: int, path: Sequence[int] = ()) -> PreparedQuestion:
        """What `ask` asks. One question of a searcher at a time."""
        kernel = load_kernel()
        if kernel is None:
            raise RuntimeError("The search for programs needs a C compiler (cc, gcc or clang), and none works here.")
        if budget > LONGEST:
            return too_long()
        search = CompiledSearch(kernel.kilotune_signless, self._problem, LONGEST_PATH, 3, len(self.targets), self._plan)
        return search.prepared(budget, work_limit, path)

    def _plan(self, rows: list[list[int]], results: list[int]) -> Plan | None:
        """The program with signs; None where there are none."""
        deeper = sum(op == HALVE for op, _, _ in rows)
        signless, flips = _values(rows, self.depth + deeper)
        wanted = {
            at: 1 if signless[at] == total.scaled(1 << deeper) else -1
            for at, total in zip(results, self.targets, strict=True)
        }
        signs = _signs(rows, flips, wanted)
        if signs is None:
            return None
        steps = tuple(_step(row, flips[n], signs, n) for n, row in enumerate(rows, start=1))
        return verified(Plan("auke", self.depth, steps, tuple(results)), self.targets)


def orbit_masks(targets: Sequence[Sum]) -> npt.NDArray[np.uint8]:
    """Shape (5, 16): whether a program may have those moves of the image (bits: north, east, south, west), when the moves below the
    row's number are decided and the others may still come. Of all subsets that the symmetries of the targets (as a set, up to signs)
    turn into one another one is left."""
    wanted = {frozenset((total, -total)) for total in targets}
    turned = [
        turned_places(STEPS, symmetry)
        for symmetry in SQUARE
        if {frozenset((t, -t)) for t in (turned_sum(total, symmetry) for total in targets)} == wanted
    ]
    left = [mask for mask in range(16) if mask == min(_turned_mask(mask, where) for where in turned)]
    masks = np.zeros((5, 16), dtype=np.uint8)
    for decided in range(5):
        below = (1 << decided) - 1
        for mask in range(16):
            masks[decided, mask] = any(full & mask == mask and not full & ~mask & below for full in left)
    return masks


def _turned_mask(mask: int, where: Sequence[int]) -> int:
    return sum(1 << where[move] for move in range(4) if mask >> move & 1)


def _signless(value: int) -> int:
    return min(value, MODULUS - value)


def _at_signs(total: Sum, depth: int) -> tuple[float, ...]:
    """Values where x and y are 1 or -1, in the order of signless.c: the sign of x changes first."""
    return tuple(
        sum(w * (x if across % 2 else 1) * (y if up % 2 else 1) for (across, up), w in total) / 2.0**depth
        for y in (1, -1)
        for x in (1, -1)
    )


def _values(rows: Sequence[Sequence[int]], depth: int) -> tuple[list[Sum], list[int]]:
    """The values of the rows, each of the sign with the smaller residue, and the sign that its operands give it."""
    x, y = evaluation_point()
    values, flips = [Sum.image(depth)], [1]
    for op, a, b in rows:
        raw = _raw(op, values[a], values[b])
        value = residue(raw, depth, x, y)
        flips.append(1 if value == _signless(value) else -1)
        values.append(raw if flips[-1] > 0 else -raw)
    return values, flips


def _raw(op: int, a: Sum, b: Sum) -> Sum:
    if op < DOUBLE:
        return a.shifted(STEPS[op])
    if op == DOUBLE:
        return a.scaled(2)
    if op == HALVE:
        return a.halved()
    return a + b if op == SUM else a - b


def _signs(rows: Sequence[Sequence[int]], flips: Sequence[int], wanted: dict[int, int]) -> list[int] | None:
    """The sign of every value, so that moves and halvings keep it; None where that cannot be."""
    keeps = {number: a for number, (op, a, _) in enumerate(rows, start=1) if op < SUM and op != DOUBLE}
    signs = {**wanted, 0: 1}
    for number in range(len(rows), 0, -1):
        if number in keeps and number in signs:
            signs[keeps[number]] = signs[number] * flips[number]
    for number in range(1, len(rows) + 1):
        signs[number] = signs[keeps[number]] * flips[number] if number in keeps else signs.get(number, 1)
    given = {**wanted, 0: 1}
    return [signs[number] for number in range(len(rows) + 1)] if given.items() <= signs.items() else None


def _step(row: Sequence[int], flip: int, signs: Sequence[int], number: int) -> PlanStep:
    op, a, b = row
    if op < DOUBLE:
        return PlanStep(MOVES[op], (a,))
    if op == HALVE:
        return PlanStep("div2", (a,))
    sign = signs[number] * flip
    first = sign * signs[a]
    second = first if op == DOUBLE else sign * signs[b] * (1 if op == SUM else -1)
    pair = (a, a if op == DOUBLE else b)
    if first == second:
        return PlanStep("add" if first > 0 else "addneg", pair)
    return PlanStep("sub", pair if first > 0 else pair[::-1])
