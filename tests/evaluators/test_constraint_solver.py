"""What ends solves: work, and seconds of whichever clock a budget counts by."""

from __future__ import annotations

import itertools
import math

import numpy as np
from ortools.sat.python import cp_model

from kilotune.evaluators.constraint_solver import SolverClock, least_whole


def market_split(columns: int, rows: int) -> cp_model.CpModel:
    """Cornuejols and Dawande (1998): feasible subsets of random numbers, hard for branch and bound beyond their size."""
    weights = np.random.default_rng(1).integers(0, 100, (rows, columns))
    model = cp_model.CpModel()
    chosen = [model.new_bool_var(str(n)) for n in range(columns)]
    for row in weights:
        model.add(sum(int(w) * x for w, x in zip(row, chosen, strict=True)) == int(row.sum()) // 2)
    return model


def test_a_clock_that_stands_still_ends_no_solve() -> None:
    clock = SolverClock(100.0, 0.001, lambda: 0.0)
    assert clock.solve(cp_model.CpSolver(), market_split(14, 3)) in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
    assert not clock.is_over


def test_a_solve_ends_with_the_seconds_of_its_clock() -> None:
    looks = itertools.count()
    clock = SolverClock(10_000.0, 3.0, lambda: float(next(looks)))
    assert clock.solve(cp_model.CpSolver(), market_split(60, 6)) == cp_model.UNKNOWN
    assert clock.is_over


def test_a_bound_that_is_off_by_some_last_places_is_the_whole_number_that_is_meant() -> None:
    for whole in (0, 1, -1, 7, 10**6, 134217728000, 10**13, -(10**13)):
        for places in range(-8, 9):
            assert least_whole(whole + places * math.ulp(float(whole))) == whole
    assert least_whole(2.5) == 3
    assert least_whole(1e-3) == 1
    assert least_whole(10**13 + 0.5) == 10**13 + 1


def test_a_bound_beyond_the_whole_numbers_of_floats_is_none_that_the_optimum_undercuts() -> None:
    for whole in (10**15, 2**53 + 1, 10**17):
        assert whole * (1 - 1e-13) < least_whole(float(whole) + 8 * math.ulp(float(whole))) <= whole
