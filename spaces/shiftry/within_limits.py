"""A first program within limits, by what options cost alone.

The search for a front begins with every option alone beside the widest program, hundreds of programs none of which may keep a limit. What
options cost is known without a run. So from a program whose variables all have one width those are narrowed that save most by it, until the
limits are kept. Narrower need not be cheaper: the code that takes packed codes apart counts as flash, so one width after the other is no
descent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kilotune.search.space import Assignment
from kilotune.spaces.shiftry.known_candidates import Costed


class Narrowed(Costed, Protocol):
    """A space that has candidates of every width."""

    def narrowings(self) -> list[Assignment]:
        """From the widest to the narrowest."""


def first_within(space: Narrowed) -> list[Assignment]:
    """Candidates within the limits, which are on costs; two at most, none where the widest is within them, or none is found. One descends
    from the widest width but one that is not within them, the other from the one that is nearest to them."""
    levels = space.narrowings()
    prices = _prices(space, levels)
    above = [number for number, price in enumerate(prices) if not price.is_within]
    if 0 not in above:
        return []
    begun = dict.fromkeys((above[:2][-1], min(above, key=lambda number: prices[number].share)))
    found = [one for number in begun if (one := _narrowed(space, levels[number], levels)) is not None]
    return found if len(found) < 2 or found[0] != found[1] else found[:1]


def _narrowed(space: Narrowed, here: Assignment, levels: Sequence[Assignment]) -> Assignment | None:
    """From here the variable after the other that saves most at another width, and at last the one that saves least of those that are
    enough; None where nothing saves before the limits are kept."""
    share = _prices(space, [here])[0].share
    while True:
        options = dict.fromkeys((name, level[name]) for level in levels for name in here if level[name] != here[name])
        candidates = [{**here, name: option} for name, option in options]
        changed = list(zip(_prices(space, candidates), candidates, strict=True))
        within = [one for one in changed if one[0].is_within]
        if within:
            return max(within, key=lambda one: one[0].share)[1]
        price, narrower = min(changed, key=lambda one: one[0].share, default=(_Price(math.inf, False), here))
        if price.share >= share:
            return None
        here, share = narrower, price.share


@dataclass(frozen=True)
class _Price:
    share: float  # of the limits, all together
    is_within: bool


def _prices(space: Narrowed, batch: Sequence[Assignment]) -> list[_Price]:
    limits = space.constraints
    return [
        _Price(
            sum(metrics[limit.metric] / max(limit.limit, 1.0) for limit in limits),
            all(limit.violation(metrics) == 0.0 for limit in limits),
        )
        for metrics in (space.costs(batch) if batch else ())
    ]
