"""The instructions of a walk over the cells of a kernel, whose terms are multiples of the image that are there."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np

from kilotune.codegen.scamp.sums import DIRECTIONS, Cell, Sum
from kilotune.spaces.reverse_split.cell_walks import CellWalk
from kilotune.spaces.reverse_split.plan_writer import PlanWriter, ways_of
from kilotune.spaces.reverse_split.term_prices import MISSING, TermPrices, walked, weight_tables


class WalkWriter:
    """Writes the instructions of a walk. Terms of a cell are taken from those constants of which most are left."""

    def __init__(
        self,
        writer: PlanWriter,
        walk: CellWalk,
        constants: tuple[int, ...],
        values: Sequence[Sum],
        prices: TermPrices,
    ) -> None:
        """`values`: the `constants` as sums, which the writer has. All weights must be sums of them."""
        _, self._absorbed = walked(walk, weight_tables(constants, prices, walk.largest))
        self._writer, self._walk, self._values = writer, walk, values
        sums = prices.counts @ np.array(constants, dtype=np.int64)
        self._plus, self._minus = list[Counter[int]](), list[Counter[int]]()
        for place, (weight, (taken, out)) in enumerate(zip(walk.weights, self._absorbed, strict=True)):
            costs = prices.inner[taken, out] if place else prices.first[out]
            counts = prices.counts[int(np.where(sums == weight, costs, MISSING).argmin())].tolist()
            self._plus.append(Counter({n: count for n, count in enumerate(counts) if count > 0}))
            self._minus.append(Counter({n: -count for n, count in enumerate(counts) if count < 0}))

    def total(self) -> Sum:
        """What the walk comes to, where it belongs."""
        total, cells = Sum(), self._walk.cells
        for place, (cell, to) in enumerate(itertools.pairwise([*cells, (0, 0)])):
            plus, minus = self._plus[place], self._minus[place]
            if not total:
                total = self._taken(plus) or self._writer.negative(self._taken(minus))
            out = self._taken(plus) if self._absorbed[place][1] else Sum()
            total = self._with_terms(total, plus, minus)
            less = Sum()
            if place + 1 < len(cells) and self._absorbed[place + 1][0]:
                less = self._taken(self._minus[place + 1])
            total = self._moved(total, (cell[0] - to[0], cell[1] - to[1]), out, less)
        return total

    def _taken(self, terms: Counter[int]) -> Sum:
        """A term, which is left then; none where there is none."""
        if not terms:
            return Sum()
        ((number, _),) = terms.most_common(1)
        terms[number] -= 1
        if not terms[number]:
            del terms[number]
        return self._values[number]

    def _with_terms(self, total: Sum, plus: Counter[int], minus: Counter[int]) -> Sum:
        while plus:
            pair = [number for number, _ in plus.most_common(2)]
            first = self._taken(plus)
            if len(pair) == 2 and self._writer.target == "scamp5" and total:
                second = self._values[pair[1]]
                plus[pair[1]] -= 1
                plus += Counter()  # without those of which none are left
                total = self._writer.write(total + first + second, "add", total, first, second)
            else:
                total = self._writer.plus(total, first)
        while minus:
            total = self._writer.minus(total, self._taken(minus))
        return total

    def _moved(self, total: Sum, by: Cell, out: Sum, less: Sum) -> Sum:
        """The total with `out`, moved, without `less`."""
        writer, ways = self._writer, ways_of(by)
        if writer.target == "auke" or not total:
            return (
                writer.minus(writer.shift(writer.plus(total, out), by), less)
                if less
                else writer.shift(writer.plus(total, out), by)
            )
        hops = [ways[at : at + 2] for at in range(0, len(ways), 2)]
        if out and (not hops or (less and len(hops) == 1)):
            total, out = writer.plus(total, out), Sum()
        for number, hop in enumerate(hops):
            suffix, offset = "2x" if len(hop) == 2 else "x", _offset(hop)
            if number == 0 and out:
                total = writer.write((total + out).shifted(offset), f"add{suffix}", total, out, directions=hop)
            elif number == len(hops) - 1 and less:
                total, less = (
                    writer.write(total.shifted(offset) - less, f"sub{suffix}", total, less, directions=hop),
                    Sum(),
                )
            else:
                total = writer.write(total.shifted(offset), f"mov{suffix}", total, directions=hop)
        return writer.minus(total, less) if less else total


def _offset(hop: Sequence[str]) -> Cell:
    steps = [DIRECTIONS[way] for way in hop]
    return sum(x for x, _ in steps), sum(y for _, y in steps)
