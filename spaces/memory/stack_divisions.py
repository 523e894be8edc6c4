"""Divisions of points of time that sweeps agree on (`spaces.memory.stack_sweep`), forwards and backwards in turn until one passes all.

Where two pieces make room for fourteen, hundreds of divisions have sums that are as good as the right one, and nothing that lies before
tells which it is. Backwards in time fourteen pieces end there, whose order is known by then. So a sweep that a point leaves no order begins
again there, with nothing known; what all its standings have in common, a while before that point, the next one takes over, the other way in
time.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.stack_standings import StackStanding
from kilotune.spaces.memory.stack_sweep import Division, StackPiece, StackRule, StackSweep

DOUBTFUL = 15
"""Points of time before one that leaves no order whose divisions are not sure."""


class DivisionSearch:
    """Sweeps over buffers that are full, and over the same `backwards`. `spent`: groups that were tried in trees so far. `known`: divisions
    by their time, and backwards by minus that."""

    def __init__(self, buffers: BufferArrays, backwards: BufferArrays) -> None:
        self.spent = 0
        self._both = buffers, backwards
        self._points = [np.unique(one.lower).tolist() for one in self._both]
        self.known: tuple[dict[int, Division], dict[int, Division]] = {}, {}

    def standing(self, rule: StackRule, is_backwards: bool, seconds: float) -> StackStanding | None:
        """The likeliest one of all points; None where that takes several pieces."""
        buffers = self._both[is_backwards]
        sweep = StackSweep(buffers)
        pieces = list[StackPiece]()
        for piece in sweep.pieces(rule, seconds, self.known[is_backwards]):
            pieces.append(piece)
            if not rule.spread:
                break  # sums that are the same tell enough
        self.spent += sweep.spent
        if len(pieces) == 1 and pieces[0].end is None:
            return pieces[0].standings[0]
        for piece in pieces if rule.spread and not rule.breaks else ():
            self._learn(piece, is_backwards)
        return None

    def _learn(self, piece: StackPiece, is_backwards: bool) -> None:
        points = self._points[is_backwards]
        begin = points.index(piece.begin)
        end = len(points) if piece.end is None else points.index(piece.end) - DOUBTFUL
        here, there = self.known[is_backwards], self.known[not is_backwards]
        doubtful = points[max(end, begin) : points.index(piece.end) + 1] if piece.end is not None else []
        for at in doubtful:
            here.pop(at, None)
            there.pop(-at, None)
        upper = self._both[is_backwards].upper
        found = [dict(_divisions(one, upper.tolist())) for one in piece.standings]
        for at in points[begin + 1 : max(end, begin)]:
            division = found[0][at]
            if all(other[at] == division for other in found[1:]):
                here[at] = division
                there[-at] = tuple(sorted((beginning, ending) for ending, beginning in division))


def _divisions(standing: StackStanding, upper: list[int]) -> dict[int, Division]:
    groups = defaultdict(list)
    change = standing.changes
    while change is not None:
        groups[upper[change.ending[0]]].append((change.ending, change.beginning))
        change = change.before
    return {at: tuple(sorted(of)) for at, of in groups.items()}
