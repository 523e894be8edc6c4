"""What ends solves: work, and seconds of whichever clock a budget counts by."""

from __future__ import annotations

import itertools

import numpy as np
from ortools.sat.python import cp_model

from kilotune.evaluators.constraint_solver import SolverClock


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
