"""Columns of a sparse matrix on processing elements, in the fewest cycles that there are: CP-SAT, with symmetry broken."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ortools.sat.python import cp_model

from kilotune.codegen.rtl.processing import ColumnShares, least_cycles, longest_first_shares
from kilotune.evaluators.constraint_solver import SolverClock

WORK = 20.0
"""What a proof may take at most, in CP-SAT's deterministic seconds; the bundled models take less than one."""


def exact_shares(nonzeros: Sequence[int], elements: int, work: float = WORK) -> tuple[ColumnShares, bool]:
    """Shares of the fewest cycles, and whether that is proved; those of longest processing time first where nothing better is found."""
    found = longest_first_shares(nonzeros, elements)
    clock = SolverClock(work)
    while found.cycles(nonzeros) > least_cycles(nonzeros, elements):
        better, decided = _within(nonzeros, elements, found.cycles(nonzeros) - 1, clock)
        if better is None:
            return found, decided
        found = better
    return found, True


def _within(
    nonzeros: Sequence[int], elements: int, cycles: int, clock: SolverClock
) -> tuple[ColumnShares | None, bool]:
    """Shares of at most so many cycles or None, and whether None means that there are none.

    Columns that are equally full are exchanged at no cost, so what is asked for is how many of each fullness an element has.
    """
    model, counts = cp_model.CpModel(), sorted({n for n in nonzeros if n}, reverse=True)
    alike = {n: [c for c, held in enumerate(nonzeros) if held == n] for n in counts}
    taken = [
        {n: model.new_int_var(0, min(len(alike[n]), cycles // n), f"{n} on {e}") for n in counts}
        for e in range(elements)
    ]
    loads = [sum(n * own[n] for n in counts) for own in taken]
    for n in counts:
        model.add(sum(own[n] for own in taken) == len(alike[n]))
    for load in loads:
        model.add(load <= cycles)
    for first, second in pairwise(loads):
        model.add(first >= second)
    solver = cp_model.CpSolver()
    status = clock.solve(solver, model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, status == cp_model.INFEASIBLE
    own: list[list[int]] = [[c for c, held in enumerate(nonzeros) if not held]] + [[] for _ in range(elements - 1)]
    for n in counts:
        left = iter(alike[n])
        for columns, numbers in zip(own, taken, strict=True):
            columns += [next(left) for _ in range(solver.value(numbers[n]))]
    return ColumnShares(tuple(tuple(sorted(columns)) for columns in own)), True
