"""Hypervolume: how much of what is worth having a front has covered (Zitzler and Thiele, IEEE Trans. Evol. Comput. 3(4), 1999).

Losses are minimised. Of the space between the best that losses can be (0 in each of them) and a reference point, which is worse than
whatever counts, the share that some point of the front is at least as good as. No front comes to 1 where nothing costs 0; but of two
fronts, or of one front at two times, it says which one covers more.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from kilotune.search.anytime import Curve, Improvement
from kilotune.search.front import Rank, Ranking, no_worse
from kilotune.search.space import Direction, Measurement, Objective, Space, asks_for_front


def hypervolume(points: Iterable[Rank], reference: Rank) -> float:
    """The share of the box from 0 to `reference` that `points` dominate, 0 to 1. Losses below 0 count as 0. ValueError for a
    reference point that is not above 0 in every loss."""
    if not reference or not all(0.0 < limit < math.inf for limit in reference):
        raise ValueError(f"A reference point has losses above 0, found {reference!r}.")
    scaled = {tuple(max(0.0, loss / limit) for loss, limit in zip(p, reference, strict=True)) for p in points}
    return _volume(sorted(p for p in scaled if max(p) < 1.0))


def _volume(points: Sequence[Rank]) -> float:
    """What sorted points dominate below 1 in every loss: slices along the last loss, each of one dimension less."""
    if not points:
        return 0.0
    if len(points[0]) == 1:
        return 1.0 - points[0][0]
    if len(points[0]) == 2:
        volume, least = 0.0, 1.0
        for first, second in points:
            if second < least:
                volume, least = volume + (1.0 - first) * (least - second), second
        return volume
    volume, met = 0.0, list[Rank]()
    by_last = sorted(points, key=lambda point: point[-1])
    ends = [point[-1] for point in by_last[1:]] + [1.0]
    for point, end in zip(by_last, ends, strict=True):
        rest = point[:-1]
        if not any(no_worse(other, rest) for other in met):
            met = sorted([*(other for other in met if not no_worse(rest, other)), rest])
        volume += (end - point[-1]) * _volume(met)
    return volume


class GrowingFront:
    """The losses that no other dominates, within a reference point, and their hypervolume."""

    def __init__(self, reference: Rank) -> None:
        self._reference = reference
        self._losses: list[Rank] = []  # ascending
        self._volume: float | None = 0.0

    @property
    def losses(self) -> tuple[Rank, ...]:
        """Ascending."""
        return tuple(self._losses)

    @property
    def volume(self) -> float:
        """See `hypervolume`."""
        if self._volume is None:
            self._volume = hypervolume(self._losses, self._reference)
        return self._volume

    def add(self, losses: Rank) -> bool:
        """Take in a point; whether it is on the front now."""
        if not all(loss < limit for loss, limit in zip(losses, self._reference, strict=True)):
            return False
        at = bisect_left(self._losses, losses)
        if at < len(self._losses) and self._losses[at] == losses:
            return False
        # Whatever dominates sorts before what it dominates, and most often just before.
        if any(no_worse(other, losses) for other in reversed(self._losses[:at])):
            return False
        self._losses[at:] = [losses, *(other for other in self._losses[at:] if not no_worse(losses, other))]
        self._volume = None
        return True


HYPERVOLUME = Objective("hypervolume_percent", Direction.MAXIMIZE)
"""What runs are compared by where a front is asked for: the share of the box that their feasible candidates dominate, in per cent."""


def compared_objective(space: Space) -> Objective:
    """What says which of two runs has come further: the first objective, or the hypervolume where a front is asked for."""
    return HYPERVOLUME if asks_for_front(space) else space.objectives[0]


def hypervolume_so_far(
    measured: Iterable[tuple[float, Measurement]], ranking: Ranking, seconds: float, reference: Rank
) -> Curve:
    """The curve of a run that took `seconds`, of `HYPERVOLUME`, over its feasible candidates so far. `measured`: measurements by
    number, each with when it was made."""
    steps, count, now_s, front = list[Improvement](), 0, 0.0, GrowingFront(reference)
    for count, (elapsed_s, measurement) in enumerate(measured, start=1):
        now_s = max(now_s, elapsed_s)
        if ranking.violation(measurement) == 0.0 and front.add(ranking.losses(measurement)):
            loss = -100.0 * front.volume
            if not steps or loss < steps[-1].loss:
                steps.append(Improvement(count, now_s, loss))
    return Curve(tuple(steps), count, seconds)
