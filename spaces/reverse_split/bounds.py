"""Lower bounds on the cost of a program (facts measured on AUKE and Cain, see the module's three parts).

auke: instructions that move, that halve and that add are different ones. The box of the sums, and its corners, must be reached from the
image one side and one cell at a time; every halving deepens by one; every addition at most doubles a support. And where x and
y are replaced by 1 or -1, shifts do nothing but change signs, and what is left computes a number from 1: shortest such chains
are found by the compiled search (with subtractions and halvings: plain addition chains would not be a bound).

scamp5: one instruction may move two cells and add at once, or add three without moving. Halvings stand alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kilotune.codegen.scamp.sums import Cell, Sum
from kilotune.spaces.reverse_split.prepared_question import ProgramStatus
from kilotune.spaces.reverse_split.programs import (
    INSTRUCTIONS,
    NEED_GROWTH,
    NEED_SHIFTS,
    Costs,
    ProgramQuery,
    Searcher,
    fewest_moves,
    needs,
    shape_of,
)

CHAIN_WORK = 3_000
"""How much work one question for a chain may take. A hundred times as much gave none of 16 sets of benchmarks.kernel_table another bound,
and took most of the time of a search for 5 seconds."""

LONGEST_CHAIN = 12


@dataclass(frozen=True)
class SumBounds:
    """Lower bounds for sums (units of `2**-depth`) and for the same sums anywhere else: what of them does not depend on where they are, and
    the least cost for so many moves by one cell."""

    wanted: tuple[Sum, ...]
    depth: int
    halvings: int
    growth: int
    longest: int
    """The longest chain of one of them; 0 but for auke."""

    target: str
    costs: Costs

    def with_moves(self, moves: int) -> int:
        """No program undercuts it that moves by so many cells in all, and computes more than the image."""
        table = needs(self.target, self.costs)
        bound = int(table[min(moves, NEED_SHIFTS - 1), self.growth]) + self.halvings * self.costs.halve
        return max(bound, (moves + self.longest) * self.costs.plain if self.target == "auke" else 0)

    def at(self, position: Cell) -> int:
        """For the sums with all cells moved by `(x, y)`. Those that are the image then cost nothing."""
        moved = [there for total in self.wanted if (there := total.shifted(position)) != Sum.image(self.depth)]
        if not moved:
            return 0
        shapes = [shape_of(total, self.depth) for total in moved]
        moves = fewest_moves([max(0, *(shape[side] for shape in shapes)) for side in (0, 1, 2, 3, 7, 8, 9, 10)])
        return max(self.with_moves(moves), len(moved) * self.costs.plain)


def bounds_of(sums: Sequence[Sum], depth: int, target: str, costs: Costs = INSTRUCTIONS) -> SumBounds:
    """What `lower_bound` knows of sums wherever they are. Zeros cost nothing here."""
    every = [total for total in dict.fromkeys(sums) if total]
    shapes = [shape_of(total, depth) for total in every]
    growth = max((max(shape[5], shape[6]) for shape in shapes), default=1)
    factor = min(NEED_GROWTH - 1, int(growth) + (growth > int(growth)))
    longest = 0
    if target == "auke":
        numbers = [alike for total in every if total != Sum.image(depth) for alike in _evaluations(total)]
        chains = {value: chain_length(value, depth) for value in {value for alike in numbers for value in alike}}
        longest = max((min(chains[value] for value in alike) for alike in numbers), default=0)
    halvings = max((int(shape[4]) for shape in shapes), default=0)
    return SumBounds(tuple(every), depth, halvings, factor, longest, target, costs)


def lower_bound(sums: Sequence[Sum], depth: int, target: str, costs: Costs = INSTRUCTIONS) -> int:
    """A cost that no program for all the sums (units of `2**-depth`) undercuts. Zeros and the image cost nothing here."""
    return bounds_of(sums, depth, target, costs).at((0, 0))


def _evaluations(total: Sum) -> tuple[tuple[int, ...], ...]:
    """The sum's values where x and y are 1 or -1, in its own units. At -1 a shift is a negation, so either sign will do:
    additions and subtractions make both at the same cost."""
    values = [
        sum(weight * (x if across % 2 else 1) * (y if up % 2 else 1) for (across, up), weight in total)
        for x in (1, -1)
        for y in (1, -1)
    ]
    return ((values[0],), *((value, -value) for value in values[1:]))


def chain_length(number: int, depth: int) -> int:
    """The fewest additions, subtractions, negations and halvings that make `number / 2**depth` of 1, or fewer.

    0 without a compiler.
    """
    while depth and number % 2 == 0 and number:
        number, depth = number // 2, depth - 1
    if not number or (number, depth) == (1, 0):
        return 0
    total = Sum((((0, 0), number),))
    searcher = Searcher(ProgramQuery("auke", depth, (total,), shiftless=True))
    for length in range(1, LONGEST_CHAIN):
        try:
            answer = searcher.ask(length, CHAIN_WORK)
        except RuntimeError:
            return 0
        if answer.status is not ProgramStatus.EXHAUSTED:
            return length
    return LONGEST_CHAIN
