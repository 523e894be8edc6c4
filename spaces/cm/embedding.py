"""The paper's mapping problem: partitions on different cores, connected ones on linked cores (Section 3.1), or not farther
apart than some number of links.

Three encodings of it. The paper's own states it with quantifiers over an interconnect given as a relation; repaired here, for
it says `if and only if` where it means `implies`, and nothing keeps two partitions off one core. Without quantifiers the same
solver is some thirty times faster, and CP-SAT faster again where partitions are many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilotune.evaluators.constraint_solver import LIBRARY, solved
from kilotune.evaluators.interruptible import interruptible

PairArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Embedding:
    """edges: pairs of partitions. near: [cores, cores], which pairs of cores an edge may join, writer's first."""

    partitions: int
    edges: tuple[tuple[int, int], ...]
    near: PairArray

    @property
    def cores(self) -> int:
        return len(self.near)

    def holds(self, cores: Sequence[int]) -> bool:
        """Whether a placement solves it."""
        different = len(set(cores)) == len(cores) == self.partitions
        return different and all(bool(self.near[cores[a], cores[b]]) for a, b in self.edges)


@dataclass(frozen=True)
class EmbeddingResult:
    """cores: of the partitions, when there is a placement. impossible: proved that there is none. Else time was up, or steps were.
    steps: by Z3's own count, where it was asked."""

    cores: tuple[int, ...] | None = None
    impossible: bool = False
    steps: int = 0


LIBRARIES = ("z3", LIBRARY)
"""What the questions below import."""


def load_solvers() -> None:
    """Before a clock runs: importing them takes longer than many a question."""
    import z3  # noqa: F401
    from ortools.sat.python import cp_model  # noqa: F401


def solve_as_in_the_paper(problem: Embedding, seconds: float) -> EmbeddingResult:
    """Z3 with finite sorts, an uninterpreted mapping, and quantifiers."""
    import z3

    context = z3.Context()
    part, parts = z3.EnumSort("Partition", [f"p{k}" for k in range(problem.partitions)], ctx=context)
    core, cores = z3.EnumSort("Core", [f"c{k}" for k in range(problem.cores)], ctx=context)
    boolean = z3.BoolSort(ctx=context)
    place, link = z3.Function("place", part, core), z3.Function("link", core, core, boolean)
    edge = z3.Function("edge", part, part, boolean)
    solver = z3.Solver(ctx=context)
    solver.set("ctrl_c", False)  # it is Python's to hear
    solver.set("timeout", max(1, int(1000 * seconds)))
    edges = set(problem.edges)
    for a in range(problem.partitions):
        for b in range(problem.partitions):
            solver.add(edge(parts[a], parts[b]) == ((a, b) in edges))
    for a in range(problem.cores):
        for b in range(problem.cores):
            solver.add(link(cores[a], cores[b]) == bool(problem.near[a, b]))
    p, q = z3.Consts("p q", part)
    solver.add(z3.ForAll([p, q], z3.Implies(edge(p, q), link(place(p), place(q)))))
    solver.add(z3.ForAll([p, q], z3.Implies(p != q, place(p) != place(q))))
    status = _checked(solver, (part, core, boolean, parts, cores, link, edge, place, p, q))
    if status == z3.sat:
        model = solver.model()
        numbers = {str(one): k for k, one in enumerate(cores)}
        return EmbeddingResult(tuple(numbers[str(model.eval(place(one), model_completion=True))] for one in parts))
    return EmbeddingResult(impossible=status == z3.unsat)


def solve_without_quantifiers(problem: Embedding, seconds: float, most_steps: int | None = None) -> EmbeddingResult:
    """Z3 with a Boolean for each partition on each core. `most_steps` of the solver make the answer repeatable."""
    import z3

    context = z3.Context()
    solver = z3.SolverFor("QF_FD", ctx=context)
    solver.set("ctrl_c", False)  # it is Python's to hear
    if math.isfinite(seconds):
        solver.set("timeout", max(1, int(1000 * seconds)))
    if most_steps is not None:
        solver.set("rlimit", most_steps)
    on = [[z3.Bool(f"x{p},{c}", ctx=context) for c in range(problem.cores)] for p in range(problem.partitions)]
    for row in on:
        solver.add(z3.Or(row), z3.AtMost(*row, 1))
    for c in range(problem.cores):
        solver.add(z3.AtMost(*(row[c] for row in on), 1))
    for a, b in problem.edges:
        for c in range(problem.cores):
            for here, there, reachable in ((a, b, problem.near[c]), (b, a, problem.near[:, c])):
                others = [on[there][d] for d in np.flatnonzero(reachable).tolist()]
                solver.add(z3.Implies(on[here][c], z3.Or(others) if others else z3.BoolVal(False, ctx=context)))
    status = _checked(solver, on)
    if status == z3.sat:
        model = solver.model()
        true = [[z3.is_true(model.eval(one)) for one in row] for row in on]
        return EmbeddingResult(tuple(row.index(True) for row in true))
    counted = dict(iter(solver.statistics()))
    return EmbeddingResult(impossible=status == z3.unsat, steps=int(counted.get("rlimit count", 0)))


def _checked(solver: Any, terms: Any) -> Any:
    """The status of a Z3 solver. terms: all of its context that the caller has. When an exception ends the wait for it, the check may go on
    a while, and Z3 counts references without locks: so they are released by the check's own thread, when it has ended."""

    status, _ = interruptible(lambda: (solver.check(), terms), solver.ctx.interrupt)
    return status


def solve_with_cp_sat(problem: Embedding, seconds: float, seed: int = 0, effort: float = math.inf) -> EmbeddingResult:
    """Placement by CP-SAT with the clauses of `solve_without_quantifiers`, one solver thread; `seconds` is a
    limit. `effort`: the solver's own count of its work, in seconds of some machine."""
    from ortools.sat.python import cp_model  # imports pandas, and few mappings come to this

    model = cp_model.CpModel()
    on = [[model.new_bool_var("") for _ in range(problem.cores)] for _ in range(problem.partitions)]
    for row in on:
        model.add_exactly_one(row)
    for c in range(problem.cores):
        model.add_at_most_one(row[c] for row in on)
    for a, b in problem.edges:
        for c in range(problem.cores):
            for here, there, reachable in ((a, b, problem.near[c]), (b, a, problem.near[:, c])):
                model.add_bool_or([on[here][c].negated(), *(on[there][d] for d in np.flatnonzero(reachable).tolist())])
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed % (1 << 31)
    solver.parameters.max_time_in_seconds = max(seconds, 0.01)
    solver.parameters.max_deterministic_time = effort
    status = solved(solver, model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return EmbeddingResult(tuple(next(c for c, one in enumerate(row) if solver.value(one)) for row in on))
    return EmbeddingResult(impossible=status == cp_model.INFEASIBLE)
