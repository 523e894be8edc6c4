"""What a candidate of the reverse-splitting problem means and measures: splits and a relaxation, or a program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.scamp.kernel import ApproximatedSet
from kilotune.codegen.scamp.plan import Plan
from kilotune.codegen.scamp.registers import RegisterPressureError
from kilotune.codegen.scamp.selection import RememberedTrees
from kilotune.codegen.scamp.sums import Sum
from kilotune.evaluators.scamp5.symbolic import WrongProgramError
from kilotune.search.space import (
    Assignment,
    Constraint,
    Measurement,
    Objective,
    Option,
)
from kilotune.spaces.reverse_split.first_program import first_plan, least_cost
from kilotune.spaces.reverse_split.instructions import (
    apply_step,
    named_step,
    plan_of_steps,
    step_name,
)
from kilotune.spaces.reverse_split.measuring import (
    SPARE_DEPTH,
    KernelGoal,
    ProvedProgram,
    Relaxation,
    SplitProblem,
    metrics_of,
    proved_program,
)
from kilotune.spaces.reverse_split.order_view import plans_in_order
from kilotune.spaces.reverse_split.ordering import OrderWeights
from kilotune.spaces.reverse_split.plans import plan_of_splits
from kilotune.spaces.reverse_split.procedure import first_descent, paper_plans
from kilotune.spaces.reverse_split.splits import Split, after_split, named_split, start_sums

METHOD, RELAXATION = "method", "relaxation"
SPLITS, PROGRAM = "splits", "program"


class ReverseSplitCandidates:
    """Proved programs of a `SplitProblem`, kept once they are made."""

    def __init__(self, problem: SplitProblem) -> None:
        self.problem = problem
        self._measured: dict[tuple[tuple[str, Option], ...], ProvedProgram | str] = {}
        self._trees = RememberedTrees()  # plans of one search share most of their sets of points

    @cached_property
    def objectives(self) -> tuple[Objective, ...]:
        """By the problem's goal; the others break ties."""
        names = {
            KernelGoal.INSTRUCTIONS: ("instructions", "bus_transfers", "registers"),
            KernelGoal.TRANSFERS: ("bus_transfers", "instructions", "registers"),
            KernelGoal.FRONT: ("bus_transfers", "noise_percent"),
        }
        return tuple(Objective(name) for name in names[self.problem.goal])

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """None: what does not fit the registers has no program."""
        return ()

    @cached_property
    def least(self) -> float:
        """No program has less of the first objective."""
        return least_cost(self.problem)

    def paper_candidates(self) -> Iterator[Assignment]:
        """Ends with what AUKE finds: depth first in the order of its heuristics, cut by cost, relaxed at medians; 20,000 states at
        most. Nothing for kernels that it would take hundreds of splits for. Without a C compiler, which takes seconds for
        2,000 states, every better plan on the way as well."""
        found = False
        for plan in paper_plans(self.problem, OrderWeights()):
            found = True
            yield self.split_candidate(plan.names, Relaxation.MEDIANS)
        names = None if found else first_descent(self.problem)
        if names is not None:
            yield self.split_candidate(names, Relaxation.MEDIANS)

    @cached_property
    def first_plan(self) -> Plan:
        """Constructed without a search."""
        return first_plan(self.problem)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """Metrics of `measuring.metrics_of`; a failure where there is no program that fits the registers."""
        return [self._measure(assignment) for assignment in batch]

    def kernels_of(self, assignment: Assignment) -> ApproximatedSet:
        """What the program of a candidate computes: the same for all."""
        return self.problem.kernels

    def program(self, assignment: Assignment) -> ProvedProgram:
        """The proved program of a candidate. ValueError, a sentence: it has none."""
        key = tuple(assignment.items())
        if key not in self._measured:
            self._measured[key] = self._made(assignment)
        found = self._measured[key]
        if isinstance(found, str):
            raise ValueError(found)
        return found

    def plan(self, assignment: Assignment, shared: bool = True) -> Plan:
        """What a candidate says before relaxation and register allocation. ValueError: it says nothing."""
        wanted, depth = self.problem.wanted, self.problem.depth
        answers = [str(option) for name, option in assignment.items() if name not in (METHOD, RELAXATION)]
        if assignment.get(METHOD) == PROGRAM:
            plan = plan_of_instructions(self.problem, answers)
            if plan is None:
                raise ValueError(f"{len(answers)} instructions do not compute the kernels yet.")
            return plan
        sums, splits = start_sums(wanted), list[Split]()
        for answer in answers:
            splits.append(named_split(sums, answer))
            sums = after_split(sums, splits[-1])
        return plan_of_splits(wanted, depth, splits, shared)

    def split_candidate(self, names: Sequence[str], relaxation: Relaxation = Relaxation.FULL) -> Assignment:
        """The candidate of splits by name."""
        return {METHOD: SPLITS, **{str(k): n for k, n in enumerate(names, start=1)}, RELAXATION: relaxation.value}

    def program_candidate(self, plan: Plan) -> Assignment:
        """The candidate of a plan in the problem's own instruction set."""
        return {METHOD: PROGRAM, **{str(k): step_name(step) for k, step in enumerate(plan.steps, start=1)}}

    def _made(self, assignment: Assignment) -> ProvedProgram | str:
        return self._made_of_answers(assignment) if METHOD in assignment else self._made_in_order(assignment)

    def _made_in_order(self, assignment: Assignment) -> ProvedProgram | str:
        """The best program of a candidate of the flat view."""
        found: list[ProvedProgram] = []
        failure = "A search of this order finds no plan that the registers hold."
        for names in plans_in_order(self.problem, assignment):
            made = self._made_of_answers(self.split_candidate(names))
            if isinstance(made, str):
                failure = made
            else:
                found.append(made)
        return min(found, key=self._cost) if found else failure

    def _cost(self, made: ProvedProgram) -> tuple[int, int]:
        both = (made.program.instructions, made.program.bus_transfers)
        return both if self.objectives[0].metric == "instructions" else both[::-1]

    def _made_of_answers(self, assignment: Assignment) -> ProvedProgram | str:
        relaxation = Relaxation(assignment.get(RELAXATION, Relaxation.NONE.value))
        try:
            try:
                return proved_program(self.problem, self.plan(assignment), relaxation, self._trees)
            except RegisterPressureError:
                if relaxation is Relaxation.NONE:
                    raise
                return proved_program(self.problem, self.plan(assignment, shared=False), Relaxation.NONE, self._trees)
        except (ValueError, WrongProgramError, InputError) as error:
            return str(error)

    def _measure(self, assignment: Assignment) -> Measurement:
        try:
            return Measurement(metrics_of(self.problem, self.program(assignment)))
        except ValueError as error:
            return Measurement(failure=str(error))


def plan_of_instructions(problem: SplitProblem, names: Sequence[str]) -> Plan | None:
    """The plan of named instructions; None when they do not compute the kernels. ValueError when one cannot be done."""
    depth = problem.depth + SPARE_DEPTH
    steps, values = [named_step(name) for name in names], [Sum.image(depth)]
    for step in steps:
        values.append(apply_step(problem.target, step, values))
    wanted = tuple(total.scaled(1 << SPARE_DEPTH) for total in problem.wanted)
    return plan_of_steps(problem.target, depth, steps, values, wanted)
