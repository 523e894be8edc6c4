"""The compiled depth-first search over split states, and its plans as lists of split names."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.scamp.sums import Sum
from kilotune.evaluators.interruptible import StopFlag, interruptible
from kilotune.spaces.reverse_split.native import load_kernel
from kilotune.spaces.reverse_split.ordering import OrderWeights
from kilotune.spaces.reverse_split.splits import (
    Split,
    Sums,
    Transformation,
    after_split,
    divided,
    largest_pair,
    split_name,
    start_sums,
)

MOST_DEPTH = 192
"""The greatest depth of kernels that splitting.c takes."""

MOST_SUMS = 32
"""The most final sums that splitting.c takes."""

LARGEST_SIDE = (1 << 15) - 1
"""The most columns, or rows, that splitting.c takes."""

LARGEST_WEIGHT = 1 << 30
"""The largest count of a sum that splitting.c takes."""

RULES = ("first", "last", "factor")
"""How B of a split is found, by the numbers of splitting.c."""
_HEADER, _NUMBERS = 3, 7


@dataclass(frozen=True)
class SplitLimits:
    """How far a search goes: states it visits, sums at a time, plans it keeps, and its discrepancies.

    `by_cost` is the paper's search: cut by the cost before relaxation, the first plan of the least cost is the only one.
    `descends`: of it only the first descent, over states of more sums than registers where there is no other way.
    A discrepancy is one that the order is contradicted by: the second best split spends 1, the next two 2, the next four 3.
    """

    nodes: int = 20_000
    registers: int = 6
    plans: int = 32
    first_discrepancies: int = 0
    last_discrepancies: int = 1 << 20
    factors: bool = True
    by_cost: bool = False
    descends: bool = False
    slack: int = 1
    table_bits: int = 16


@dataclass(frozen=True)
class SplitPlan:
    """Names of splits from the final sums on, and the instructions of the `auke` set before and after relaxation (the
    latter as the compiled search estimates it)."""

    names: tuple[str, ...]
    splits: tuple[Split, ...]
    cost: int
    relaxed: int


@dataclass(frozen=True)
class SplitReport:
    """`complete`: every path within the order's rules was visited or cut by a bound."""

    plans: tuple[SplitPlan, ...]
    nodes: int
    complete: bool


def search_splits(
    sums: Sums,
    depth: int,
    limits: SplitLimits,
    weights: OrderWeights,
    halvings: int = 0,
    seed: int = 0,
    seconds_left: Callable[[], float] = lambda: math.inf,
) -> SplitReport | None:
    """Plans, best first; None without a C compiler, or for weights or kernels that do not fit its integers, or too many sums.

    `halvings`: how many every program needs. The search ends where `seconds_left()` is no more, with what it has. MemoryError.
    """
    kernel = load_kernel()
    start = start_sums(sums)
    if kernel is None or any(abs(w) > LARGEST_WEIGHT for total in start for _, w in total):
        return None
    west, south, east, north = _box(start)
    height = north - south + 1
    if len(start) > MOST_SUMS or max(east - west + 1, height) > LARGEST_SIDE:
        return None
    terms = [((x - west) * height + y - south, w) for total in start for (x, y), w in total]
    sizes = np.array([len(total.terms) for total in start], dtype=np.int32)
    cells = np.array(terms, dtype=np.int32).reshape(-1, 2)
    numbers = (
        *(limits.registers, limits.table_bits, limits.slack, limits.plans, limits.factors),
        *(limits.first_discrepancies, limits.last_discrepancies, halvings, limits.by_cost, limits.descends),
    )
    settings = np.array(numbers, dtype=np.int32)
    order = np.array(weights.values(), dtype=np.float64)
    plans = np.zeros((limits.plans, _HEADER + _NUMBERS * MOST_DEPTH), dtype=np.int32)
    report = np.zeros(5, dtype=np.int64)
    flag = StopFlag()

    def call() -> int:
        return int(
            kernel.kilotune_split(
                *(east - west + 1, height, -west, -south, depth, len(start)),
                *(array.ctypes.data for array in (sizes, cells, settings, order)),
                *(limits.nodes, seed, plans.ctypes.data, report.ctypes.data, flag.address),
            )
        )

    found = interruptible(call, flag.set, seconds_left)
    if found < 0:
        raise MemoryError("The search over splits ran out of memory.")
    rows = sorted(plans[:found].tolist(), key=lambda row: (row[0], row[1]))
    return SplitReport(tuple(_plan(start, row) for row in rows), int(report[0]), bool(report[1]))


def _box(sums: Sequence[Sum]) -> tuple[int, int, int, int]:
    wests, souths, easts, norths = zip(*(total.box for total in sums), strict=True)
    return min(wests), min(souths), max(easts), max(norths)


def _plan(start: Sums, row: list[int]) -> SplitPlan:
    relaxed, cost, depth = row[:_HEADER]
    sums, names, splits = start, list[str](), list[Split]()
    for k in range(depth):
        a_from, b_from, dx, dy, doublings, negated, rule = row[_HEADER + _NUMBERS * k :][:_NUMBERS]
        t = Transformation(dx, dy, doublings, bool(negated))
        how = RULES[rule]
        b = divided(sums[a_from], t) if how == "factor" else largest_pair(sums, a_from, b_from, t, how == "last")
        assert b  # the compiled search and this one pair alike
        split = Split(a_from, b_from, t, b)
        names.append(split_name(split, how))
        splits.append(split)
        sums = after_split(sums, split)
    return SplitPlan(tuple(names), tuple(splits), cost, relaxed)
