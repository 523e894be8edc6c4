"""Columns of a sparse matrix on processing elements, in the fewest cycles that there are: CP-SAT, with symmetry broken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

from ortools.sat.python import cp_model

from kilotune.codegen.rtl.processing import ColumnShares, least_cycles, longest_first_shares
from kilotune.evaluators.constraint_solver import SolverClock

WORK = 20.0
"""What a proof may take at most, in CP-SAT's deterministic seconds; the bundled models take less than one."""

MOST_LOADS = 5000
"""Different loads of an element, beyond which elements are told apart."""


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
    counts = sorted({n for n in nonzeros if n}, reverse=True)
    alike = {n: [c for c, held in enumerate(nonzeros) if held == n] for n in counts}
    most = [len(alike[n]) for n in counts]
    loads = list(islice(_loads(counts, most, cycles), MOST_LOADS + 1))
    solver, model = cp_model.CpSolver(), cp_model.CpModel()
    chosen = _by_load(model, loads, most, elements) if len(loads) <= MOST_LOADS else None
    taken = _by_element(model, counts, most, elements, cycles) if chosen is None else []
    status = clock.solve(solver, model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, status == cp_model.INFEASIBLE
    if chosen is None:
        held_by = [tuple(solver.value(number) for number in own) for own in taken]
    else:
        held_by = [load for load, times in zip(loads, chosen, strict=True) for _ in range(solver.value(times))]
    own: list[list[int]] = [[] for _ in range(elements)]
    own[-1] = [c for c, held in enumerate(nonzeros) if not held]
    for place, n in enumerate(counts):
        left = iter(alike[n])
        for columns, numbers in zip(own, held_by, strict=False):
            columns += [next(left) for _ in range(numbers[place])]
    return ColumnShares(tuple(tuple(sorted(columns)) for columns in own)), True


def _loads(counts: Sequence[int], most: Sequence[int], cycles: int) -> Iterator[tuple[int, ...]]:
    """How many columns of each fullness (`counts`, of each at most `most`) an element may have within so many cycles."""
    if not counts:
        yield ()
        return
    for number in range(min(most[0], cycles // counts[0]), -1, -1):
        for rest in _loads(counts[1:], most[1:], cycles - number * counts[0]):
            yield (number, *rest)


def _by_load(
    model: cp_model.CpModel, loads: Sequence[tuple[int, ...]], most: Sequence[int], elements: int
) -> list[cp_model.IntVar]:
    """How many elements have each load: no two of them are told apart (Gilmore and Gomory 1961)."""
    times = [model.new_int_var(0, elements, f"load {number}") for number in range(len(loads))]
    model.add(sum(times) <= elements)
    for place, there in enumerate(most):
        model.add(sum(load[place] * number for load, number in zip(loads, times, strict=True)) == there)
    return times


def _by_element(
    model: cp_model.CpModel, counts: Sequence[int], most: Sequence[int], elements: int, cycles: int
) -> list[list[cp_model.IntVar]]:
    """What each element has, the busiest first, where there are too many loads to name them."""
    taken = [
        [model.new_int_var(0, min(there, cycles // n), f"{n} on {e}") for n, there in zip(counts, most, strict=True)]
        for e in range(elements)
    ]
    loads = [sum(n * number for n, number in zip(counts, own, strict=True)) for own in taken]
    for place, there in enumerate(most):
        model.add(sum(own[place] for own in taken) == there)
    for load in loads:
        model.add(load <= cycles)
    for first, second in pairwise(loads):
        model.add(first >= second)
    return taken
