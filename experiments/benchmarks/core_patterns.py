"""How few cores hold stages when none may do more than so much in PIMCOMP-NN's cost model, and which stages lie together then.

A pattern says how many stages of which kinds a core has. Which patterns to use how often is a cutting-stock problem (Gilmore and Gomory,
1961): a linear programme covers all stages with patterns that are known; its prices of stages say which pattern would help most, a knapsack
over products and rows of crossbars for each length of a core's steps; that goes on until none helps. Whole cores are then chosen among the
patterns that came up (HiGHS's branch and bound).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

PRODUCT_UNITS, ROW_UNITS = 160, 64
"""Into how many parts a core is divided at most, where patterns are looked for. What a stage takes of them is rounded up."""

SMALL = 0.01
"""Stages of a smaller part of a core have no say in how large the parts are."""

OVERFULL = 2.0
"""What a core with one stage counts that does more than it may, by how much more."""

HELPS = 1e-6


@dataclass(frozen=True, order=True)
class StageKind:
    """A stage's products (of row blocks, started one after the other) and steps an image, and its rows of crossbars."""

    products: int
    steps: int
    rows: int


Pattern = tuple[tuple[StageKind, int], ...]
"""Kinds and how many stages of each, in order."""


@dataclass(frozen=True)
class CoreRoom:
    """What a core may do an image, in products: those of its stages, and `a_step` more for each step of its slowest one. rows: of
    crossbars."""

    most: int
    rows: int
    a_step: int = 3

    def holds(self, pattern: Pattern) -> bool:
        """Whether it may do all that."""
        products = sum(kind.products * count for kind, count in pattern)
        steps = max((kind.steps for kind, _ in pattern), default=0)
        rows = sum(kind.rows * count for kind, count in pattern)
        return products + self.a_step * steps <= self.most and rows <= self.rows

    def cost(self, pattern: Pattern) -> float:
        """What a core with it counts: 1, or more where one stage alone is too much."""
        if self.holds(pattern):
            return 1.0
        ((kind, _),) = pattern
        return OVERFULL * max((kind.products + self.a_step * kind.steps) / self.most, kind.rows / self.rows)


@dataclass(frozen=True)
class FractionalCores:
    """So many cores hold all stages if there may be parts of cores, by the patterns that came up. Without patterns: more than were asked
    for."""

    cores: float
    patterns: tuple[Pattern, ...]


def fractional_cores(
    counts: Mapping[StageKind, int], room: CoreRoom, known: Iterable[Pattern] = (), most: float = math.inf
) -> FractionalCores:
    """known: patterns that came up in other cases; those that suit this one are used. most: it ends as soon as so many cores cannot be
    enough."""
    kinds = sorted(counts)
    patterns: dict[Pattern, None] = {((kind, 1),): None for kind in kinds}
    patterns.update(
        (p, None) for p in known if all(kind in counts and n <= counts[kind] for kind, n in p) and room.holds(p)
    )
    while True:
        columns = list(patterns)
        costs = [room.cost(pattern) for pattern in columns]
        needed = np.array([counts[kind] for kind in kinds])
        found = linprog(costs, A_ub=-_matrix(columns, kinds), b_ub=-needed, method="highs")
        prices = dict(zip(kinds, -found.ineqlin.marginals, strict=True))
        offered = [_best_pattern(counts, prices, room, steps) for steps in sorted({kind.steps for kind in kinds})]
        worth = [sum(prices[kind] * n for kind, n in pattern) for pattern in offered]
        # No cover costs less than this: prices divided by the worth of the best pattern are a solution of the dual.
        if found.fun / max(1.0, *worth) > most:
            return FractionalCores(found.fun, ())
        better = [p for p, value in zip(offered, worth, strict=True) if value > 1 + HELPS and p not in patterns]
        if not better:
            return FractionalCores(found.fun, tuple(columns) if found.fun <= most else ())
        patterns.update((pattern, None) for pattern in better)


def whole_cores(
    counts: Mapping[StageKind, int], patterns: Sequence[Pattern], room: CoreRoom, cores: int, seconds: float
) -> list[Pattern] | None:
    """A pattern for each of at most so many cores, together with room for all stages and maybe more. None: none found in those seconds."""
    kinds = sorted(counts)
    usable = [pattern for pattern in patterns if room.holds(pattern) and all(kind in counts for kind, _ in pattern)]
    if not usable:
        return None
    found = milp(
        np.ones(len(usable)),
        constraints=LinearConstraint(_matrix(usable, kinds), lb=np.array([counts[kind] for kind in kinds])),
        integrality=np.ones(len(usable)),
        bounds=Bounds(0, cores),
        options={"time_limit": seconds},
    )
    if found.x is None or round(found.fun) > cores:
        return None
    return [pattern for pattern, times in zip(usable, found.x, strict=True) for _ in range(round(times))]


def _matrix(patterns: Sequence[Pattern], kinds: Sequence[StageKind]) -> np.ndarray:
    """Stages of each kind, a row each, in each pattern."""
    found = np.zeros((len(kinds), len(patterns)))
    row = {kind: number for number, kind in enumerate(kinds)}
    for column, pattern in enumerate(patterns):
        for kind, count in pattern:
            found[row[kind], column] = count
    return found


def _best_pattern(
    counts: Mapping[StageKind, int], prices: Mapping[StageKind, float], room: CoreRoom, steps: int
) -> Pattern:
    """The pattern of stages of at most so many steps that is worth most, but for rounding of what stages take; empty where none is worth
    anything."""
    products = room.most - room.a_step * steps
    kinds = [kind for kind in counts if kind.steps <= steps and kind.products <= products and prices[kind] > HELPS]
    if not kinds:
        return ()
    unit = _unit([kind.products for kind in kinds], products, PRODUCT_UNITS)
    row_unit = -(-room.rows // ROW_UNITS)
    worth = np.zeros((products // unit + 1, room.rows // row_unit + 1))
    taken = list[tuple[StageKind, tuple[int, int], np.ndarray]]()
    for kind in kinds:
        high, wide = -(-kind.products // unit), -(-kind.rows // row_unit)
        for _ in range(
            min(counts[kind], *(end // size for end, size in zip(worth.shape, (high, wide), strict=True) if size))
        ):
            with_it = np.full_like(worth, -1.0)
            with_it[high:, wide:] = worth[: worth.shape[0] - high, : worth.shape[1] - wide] + prices[kind]
            better = with_it > worth + 1e-12
            if not better.any():
                break
            worth = np.where(better, with_it, worth)
            taken.append((kind, (high, wide), better))
    found, at, across = Counter[StageKind](), worth.shape[0] - 1, worth.shape[1] - 1
    for kind, (high, wide), better in reversed(taken):
        if better[at, across]:
            found[kind] += 1
            at, across = at - high, across - wide
    return tuple(sorted(found.items()))


def _unit(sizes: Sequence[int], whole: int, most: int) -> int:
    """What divides all sizes but the smallest, as long as the whole is not divided into more than so many parts."""
    large = [size for size in sizes if size >= SMALL * whole]
    return max(math.gcd(*large) if large else 1, -(-whole // most))
