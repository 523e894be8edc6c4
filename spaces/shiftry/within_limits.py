"""A first program within limits, by what options cost alone.

The search for a front begins with every option alone beside the widest program, hundreds of programs none of which may keep a limit. What
options cost is known without a run. So from a program whose variables all have one width those are narrowed that save most by it, until the
limits are kept. Narrower need not be cheaper: the code that takes packed codes apart counts as flash, and what they are unpacked into as
RAM, so one width after the other is no descent, and one limit may be kept where another one is broken.
"""

from __future__ import annotations

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
    from the widest width but one that is not within them, the other from the one that is nearest to them. Where neither comes within all
    limits, which several may keep one by one, those of other widths descend, and that of a width that is within them will do."""
    descent = _Descent(space, space.narrowings())
    levels, prices = descent.levels, descent.prices(descent.levels)
    above = [number for number, price in enumerate(prices) if not price.is_within]
    if 0 not in above:
        return []
    nearest = sorted(above, key=lambda number: (prices[number].excess, prices[number].share))
    begun = dict.fromkeys((above[:2][-1], min(above, key=lambda number: prices[number].share)))
    found = [one for number in begun if (one := descent.run(levels[number])) is not None]
    if not found:
        found = [levels[number] for number in range(len(levels)) if prices[number].is_within][:1]
    if not found:
        ends = (descent.run(levels[number], keeping=True) for number in nearest)
        found = [one for one in ends if one is not None][:1]
    return found if len(found) < 2 or found[0] != found[1] else found[:1]


@dataclass(frozen=True)
class _Price:
    share: float  # of the limits, all together
    excesses: tuple[float, ...]  # of each limit, by how much it is broken, as a share of it

    @property
    def is_within(self) -> bool:
        return not any(self.excesses)

    @property
    def excess(self) -> float:
        return sum(self.excesses)

    def keeps(self, other: _Price) -> bool:
        """Whether every limit that the other keeps is kept here."""
        return all(not here or there for here, there in zip(self.excesses, other.excesses, strict=True))


class _Descent:
    """From programs to such within the limits, a variable at a time. `levels`: as `Narrowed.narrowings`."""

    def __init__(self, space: Narrowed, levels: Sequence[Assignment]) -> None:
        self._space, self.levels = space, levels
        self._depths = {name: {level[name]: -number for number, level in enumerate(levels)} for name in levels[0]}

    def run(self, here: Assignment, *, keeping: bool = False) -> Assignment | None:
        """From here the variable after the other that saves most at another width, and at last the one that saves least of those that are
        enough; None where nothing saves before the limits are kept. `keeping`: a limit that is kept stays so, and what saves most is what
        the others are broken by; where nothing does, of limits together, and else (of RAM, which several variables may take at once) the
        next narrower ones are as good."""
        (price,) = self.prices([here])
        while True:
            changed = [one for one in self._changed(here) if not keeping or one[0].keeps(price)]
            within = [one for one in changed if one[0].is_within]
            if within:
                return max(within, key=lambda one: one[0].share)[1]
            worth = self._worth if keeping else _of_all
            best = min(changed, key=lambda one: worth(*one), default=None)
            if best is None or worth(*best) >= worth(price, here):
                return None
            price, here = best

    def prices(self, batch: Sequence[Assignment]) -> list[_Price]:
        limits = self._space.constraints
        found = self._space.costs(batch) if batch else ()
        return [
            _Price(
                sum(metrics[limit.metric] / max(limit.limit, 1.0) for limit in limits),
                tuple(limit.violation(metrics) / max(limit.limit, 1.0) for limit in limits),
            )
            for metrics in found
        ]

    def _changed(self, here: Assignment) -> list[tuple[_Price, Assignment]]:
        options = dict.fromkeys(
            (name, level[name]) for level in self.levels for name in here if level[name] != here[name]
        )
        candidates = [{**here, name: option} for name, option in options]
        return list(zip(self.prices(candidates), candidates, strict=True))

    def _worth(self, price: _Price, candidate: Assignment) -> tuple[float, ...]:
        return price.excess, price.share, sum(self._depths[name][option] for name, option in candidate.items())


def _of_all(price: _Price, candidate: Assignment) -> tuple[float, ...]:
    return (price.share,)
