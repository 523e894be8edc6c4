"""Programs as a CP-SAT model: is there one of N instructions whose values hold all kernels?

Every step chooses one instruction on earlier values; the weights of its value on a grid of cells are linear in theirs once it
is chosen. The grid and the weights are bounded, so a refuted N is no proof for programs that leave them: the bound
that the model reports is that of `bounds.py`, and a program of as many instructions is proved by it. For more than a handful of
instructions other strategies are faster by far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations, product

from ortools.sat.python import cp_model

from kilotune.codegen.scamp.instructions import Instruction, instruction_set
from kilotune.codegen.scamp.plan import Plan, PlanStep
from kilotune.codegen.scamp.sums import DIRECTIONS, Cell, Sum
from kilotune.evaluators.constraint_solver import SolverClock
from kilotune.search.space import Assignment, ModelAnswer, SolveLimit, Trial
from kilotune.spaces.reverse_split.candidates import ReverseSplitCandidates
from kilotune.spaces.reverse_split.measuring import KernelGoal

SPARE_CELLS = 1
"""How far values may reach beyond the box of the kernels and the image."""

LARGEST_GROWTH = 2
"""Weights may be this much larger than the largest of the kernels and the image."""

MOST_LENGTH = 12
MOST_CELLS = 81


class ProgramModel:
    """Starts with the procedure's answer, or with a constructed program, and asks for one instruction less, as long as there is such a
    program."""

    def __init__(self, space: ReverseSplitCandidates, trials: Sequence[Trial]) -> None:
        self._space = space
        lengths = [t.measurement.metrics["instructions"] for t in trials if t.measurement.failure is None]
        self._best = int(min(lengths)) if lengths else None

    def solve(self, count: int, excluded: Sequence[Assignment], seed: int, limit: SolveLimit) -> ModelAnswer:
        """At most one candidate, shorter than what is known; see `search.space.CandidateModel`."""
        problem, least = self._space.problem, self._space.least
        clock = SolverClock(limit.work, limit.seconds, limit.clock)
        if not any(total and total != Sum.image(problem.depth) for total in problem.wanted):
            trivial = _trivial(problem.target, problem.depth, problem.wanted)
            return ModelAnswer((self._space.program_candidate(trivial),), least)
        first = self._first() if self._best is None else None
        if first is not None and first not in excluded:
            return ModelAnswer((first,), least)
        found, length = list[Assignment](), MOST_LENGTH if self._best is None else min(self._best - 1, MOST_LENGTH)
        shortest = max(int(least), 1) if problem.goal is KernelGoal.INSTRUCTIONS else 1
        while length >= shortest and not clock.is_over:
            programs = _Programs(problem.target, problem.depth, problem.wanted, length)
            plan = programs.solve(seed, clock) if programs.cells <= MOST_CELLS else None
            if plan is None:
                break
            found, length = [self._space.program_candidate(plan)], length - 1
        return ModelAnswer(tuple(candidate for candidate in found if candidate not in excluded), least)

    def _first(self) -> Assignment:
        """The procedure's answer; the constructed program where it has none that holds, so that there is one before the solver's."""
        *_, answer = (None, *self._space.paper_candidates())
        has_program = answer is not None and self._space.evaluate([answer])[0].failure is None
        return answer if answer is not None and has_program else self._space.program_candidate(self._space.first_plan)


def _trivial(target: str, depth: int, wanted: Sequence[Sum]) -> Plan:
    if all(wanted):
        return Plan(target, depth, (), (0,) * len(wanted))
    zero = PlanStep("zero" if target == "auke" else "res", ())
    return Plan(target, depth, (zero,), tuple(0 if total else 1 for total in wanted))


class _Programs:
    """All programs of one length."""

    def __init__(self, target: str, depth: int, wanted: Sequence[Sum], length: int) -> None:
        self._target, self._depth, self._wanted, self._length = target, depth, tuple(wanted), length
        boxes = [(0, 0, 0, 0), *(total.box for total in wanted if total)]
        west, south = min(b[0] for b in boxes) - SPARE_CELLS, min(b[1] for b in boxes) - SPARE_CELLS
        east, north = max(b[2] for b in boxes) + SPARE_CELLS, max(b[3] for b in boxes) + SPARE_CELLS
        self._grid: tuple[Cell, ...] = tuple(product(range(west, east + 1), range(south, north + 1)))
        largest = max([1 << depth, *(abs(w) for total in wanted for _, w in total)])
        self._most = LARGEST_GROWTH * largest
        self._model = cp_model.CpModel()
        image = Sum.image(depth).weights()
        self._values: list[dict[Cell, cp_model.IntVar]] = [
            {cell: self._model.new_constant(image.get(cell, 0)) for cell in self._grid}
        ]
        self._choices: list[list[tuple[PlanStep, cp_model.IntVar]]] = []
        for number in range(1, length + 1):
            self._add_step(number)
        self._places = [self._place(total) for total in self._wanted]
        self._add_uses()

    @property
    def cells(self) -> int:
        """The number of cells of the grid."""
        return len(self._grid)

    def solve(self, seed: int, clock: SolverClock) -> Plan | None:
        """A program, or None where there is none or time is up."""
        solver = cp_model.CpSolver()
        solver.parameters.random_seed = seed % (1 << 31)
        if clock.solve(solver, self._model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None
        steps = [next(step for step, chosen in choices if solver.value(chosen)) for choices in self._choices]
        results = [next(n for n, here in enumerate(places) if solver.value(here)) for places in self._places]
        return Plan(self._target, self._depth, tuple(steps), tuple(results))

    def _add_step(self, number: int) -> None:
        model, most = self._model, self._most
        value = {cell: model.new_int_var(-most, most, "") for cell in self._grid}
        choices = [(step, row, model.new_bool_var("")) for step, row in _steps(self._target, number)]
        model.add_exactly_one(chosen for _, _, chosen in choices)
        for step, row, chosen in choices:
            dx, dy = row.offset(step.directions)
            edge = [
                (operand, cell)
                for operand, moved in zip(step.operands, row.shifted, strict=True)
                if moved
                for cell in self._grid
                if (cell[0] + dx, cell[1] + dy) not in value
            ]
            for operand, cell in edge:  # nothing leaves the grid
                model.add(self._values[operand][cell] == 0).only_enforce_if(chosen)
            for x, y in self._grid:
                terms = [
                    sign * at
                    for operand, sign, moved in zip(step.operands, row.signs, row.shifted, strict=True)
                    if (at := self._values[operand].get((x - dx, y - dy) if moved else (x, y))) is not None
                ]
                model.add(value[x, y] * (1 << row.halvings) == sum(terms)).only_enforce_if(chosen)
        self._values.append(value)
        self._choices.append([(step, chosen) for step, _, chosen in choices])

    def _place(self, total: Sum) -> list[cp_model.IntVar]:
        """One literal a value: it is this kernel."""
        weights = total.weights()
        places = []
        for value in self._values:
            here = self._model.new_bool_var("")
            for cell in self._grid:
                self._model.add(value[cell] == weights.get(cell, 0)).only_enforce_if(here)
            places.append(here)
        self._model.add_exactly_one(places)
        return places

    def _add_uses(self) -> None:
        """Every value is a kernel or read later: no instruction is for nothing."""
        for number in range(1, self._length + 1):
            uses = [chosen for later in self._choices[number:] for step, chosen in later if number in step.operands]
            self._model.add_bool_or([*uses, *(places[number] for places in self._places)])


def _steps(target: str, values: int) -> Iterator[tuple[PlanStep, Instruction]]:
    """Every instruction on the first values, but copies."""
    for row in instruction_set(target).rows:
        if row.destroyed or (row.operands == 1 and row.signs == (1,) and not any(row.shifted) and not row.halvings):
            continue
        alike = len(set(zip(row.signs, row.shifted, strict=True))) <= 1
        operands = list((combinations if alike else permutations)(range(values), row.operands))
        if row.operands == 2 and not row.distinct and alike:
            operands += [(number, number) for number in range(values)]
        for numbers in operands:
            for directions in product(DIRECTIONS, repeat=row.directions):
                if row.directions < 2 or (row.offset(directions) != (0, 0) and list(directions) == sorted(directions)):
                    yield PlanStep(row.name, numbers, directions), row
