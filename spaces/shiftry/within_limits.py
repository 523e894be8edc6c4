"""A first program within limits, by what options cost alone.

The search for a front begins with every option alone beside the widest program, hundreds of programs none of which may keep a limit. What
options cost is known without a run. So all variables are narrowed together, as little as the limits ask for, and the last step is taken for
as few of them as do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kilotune.search.space import Assignment
from kilotune.spaces.shiftry.known_candidates import Costed


class Narrowed(Costed, Protocol):
    """A space that has candidates of every width."""

    def narrowings(self) -> list[Assignment]:
        """From the widest to the narrowest."""


def first_within(space: Narrowed) -> list[Assignment]:
    """Candidates within the limits, which are on costs; two at most, none where the widest is within them or the narrowest is not. They are
    of two widths: the step from one to the other is taken first for the variables that save most by it, or least."""
    levels = space.narrowings()
    kept = _kept(space, levels)
    if True not in kept or kept[0]:
        return []
    number = kept.index(True)
    wider, narrower = levels[number - 1], levels[number]
    changed = [name for name in wider if wider[name] != narrower[name]]
    shares = _shares_of_limits(space, [{**wider, name: narrower[name]} for name in changed])
    order = [name for _, name in sorted(zip(shares, changed, strict=True), key=lambda pair: pair[0])]
    found = [_mixed(space, wider, narrower, names) for names in (order, order[::-1])]
    return found if found[0] != found[1] else found[:1]


def _mixed(space: Narrowed, wider: Assignment, narrower: Assignment, names: Sequence[str]) -> Assignment:
    """The wider candidate with its variables narrowed in that order until the limits are kept."""
    steps = [{**wider, **{name: narrower[name] for name in names[: count + 1]}} for count in range(len(names))]
    return steps[_kept(space, steps).index(True)]


def _kept(space: Narrowed, batch: Sequence[Assignment]) -> list[bool]:
    return [all(limit.violation(metrics) == 0.0 for limit in space.constraints) for metrics in space.costs(batch)]


def _shares_of_limits(space: Narrowed, batch: Sequence[Assignment]) -> list[float]:
    """The shares of the limits that each candidate costs, together."""
    shares = [(limit.metric, max(limit.limit, 1.0)) for limit in space.constraints]
    return [sum(metrics[metric] / most for metric, most in shares) for metrics in space.costs(batch)]
