"""The reverse-splitting problem: the shortest SCAMP-5 program for a set of convolution kernels (AUKE).

A candidate is one of two things: splits, one after the other, from the final sums back to the image, which become a plan that is
then relaxed (the paper's decision); or a program instruction by instruction, which may be anything: factorised or with
parts that cancel, where no split of the kernels leads. Both are measured by the program that comes out, and every
program is proved by symbolic execution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.scamp.kernel import signed_digits
from kilotune.codegen.scamp.plan import Plan
from kilotune.codegen.scamp.registers import RegisterPressureError
from kilotune.codegen.scamp.sums import Sum
from kilotune.evaluators.scamp5.symbolic import WrongProgramError
from kilotune.search.fingerprint import fingerprint
from kilotune.search.flat_state import FlatView
from kilotune.search.space import (
    Assignment,
    CandidateModel,
    Constraint,
    Decision,
    ExactStep,
    Measurement,
    Objective,
    Option,
    Procedure,
    Trial,
)
from kilotune.spaces.reverse_split.instructions import (
    apply_step,
    named_step,
    next_steps,
    plan_of_steps,
    step_name,
)
from kilotune.spaces.reverse_split.measuring import (
    SPARE_DEPTH,
    Goal,
    ProvedProgram,
    Relaxation,
    SplitProblem,
    metrics_of,
    proved_program,
)
from kilotune.spaces.reverse_split.order_view import order_decisions, plans_in_order
from kilotune.spaces.reverse_split.ordering import OrderWeights, ordered
from kilotune.spaces.reverse_split.pairs import largest_splits
from kilotune.spaces.reverse_split.plans import plan_of_splits
from kilotune.spaces.reverse_split.procedure import first_descent, paper_search
from kilotune.spaces.reverse_split.search import first_plan, least_cost, search_programs
from kilotune.spaces.reverse_split.splits import Split, Sums, after_split, from_image, named_split, start_sums

METHOD, RELAXATION = "method", "relaxation"
SPLITS, PROGRAM = "splits", "program"
METHODS: tuple[Option, ...] = (SPLITS, PROGRAM)
RELAXATIONS: tuple[Option, ...] = (Relaxation.FULL.value, Relaxation.MEDIANS.value, Relaxation.NONE.value)

OFFERED_STEPS, OFFERED_VALUES = 12, 3
"""Longer programs, and instructions on values older than the last few, are candidates too, but no walk is offered them."""

MOST_SPLITS = 96
MANY_DIGITS = 60
"""Signed binary digits of all weights; the procedure takes up to two seconds for such kernels, and may find nothing."""

SEMANTICS = 1
"""Version of what a program of kernels means and costs; part of the fingerprint."""


class ReverseSplitSpace:
    """Fewest instructions, or fewest bus transfers, or the front of transfers against noise. See `SplitProblem`."""

    name = "reverse-split"
    prefers_flat = True  # walks get lost among splits, whatever walks; the weights of their order are few and good

    def __init__(self, problem: SplitProblem) -> None:
        self.problem = problem
        self._measured: dict[tuple[tuple[str, Option], ...], ProvedProgram | str] = {}

    @cached_property
    def objectives(self) -> tuple[Objective, ...]:
        """By the problem's goal; the others break ties."""
        names = {
            Goal.INSTRUCTIONS: ("instructions", "bus_transfers", "registers"),
            Goal.TRANSFERS: ("bus_transfers", "instructions", "registers"),
            Goal.FRONT: ("bus_transfers", "noise_percent"),
        }
        return tuple(Objective(name) for name in names[self.problem.goal])

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """None: what does not fit the registers has no program."""
        return ()

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the final sums, the depth, the machine and the goal."""
        p = self.problem
        return fingerprint(self.name, SEMANTICS, p.wanted, p.depth, p.target, p.registers, p.goal)

    @cached_property
    def least(self) -> float:
        """No program has less of the first objective."""
        return least_cost(self.problem)

    def procedure(self) -> Procedure:
        """AUKE: depth first in the order of its heuristics, cut by cost, relaxed at medians; 20,000 states at most. Nothing
        for kernels that it would take hundreds of splits for."""
        found = paper_search(self.problem, OrderWeights())
        names = first_descent(self.problem) if found is None else found.names
        if names is not None:
            yield [self.split_candidate(names, Relaxation.MEDIANS)]

    @cached_property
    def first_plan(self) -> Plan:
        """Constructed without a search."""
        return first_plan(self.problem)

    def fallback(self) -> Assignment | None:
        """Of kernels that the procedure takes its time for: the constructed program, which is long, and there at once."""
        weights = (weight for total in self.problem.wanted for _, weight in total)
        digits = sum(len(signed_digits(Fraction(weight), 0)) for weight in weights)
        return self.program_candidate(self.first_plan) if digits >= MANY_DIGITS else None

    def model(self, trials: Sequence[Trial]) -> CandidateModel:
        """Programs as a CP-SAT model; see `spaces.reverse_split.model`."""
        from kilotune.spaces.reverse_split.model import ProgramModel

        return ProgramModel(self, trials)

    def exact_search(self, seed: int = 0, seconds_left: Callable[[], float] = lambda: math.inf) -> Iterator[ExactStep]:
        """The compiled search over splits, programs improved from there, and a proof where one is in reach."""
        for standing in search_programs(self, seed, seconds_left):
            yield ExactStep(standing.candidate, standing.bound, standing.complete)

    def start(self) -> MethodState:
        """Nothing decided."""
        return MethodState(self)

    def flat_view(self) -> FlatView:
        """Weights of the order in which a short search tries splits; see `order_view`."""
        return FlatView(self, order_decisions(self.problem), self.least)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """Metrics of `measuring.metrics_of`; a failure where there is no program that fits the registers."""
        return [self._measure(assignment) for assignment in batch]

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
            state = ProgramState(self)
            for answer in answers:
                state = state.done(answer)
            if (plan := state.plan) is None:
                raise ValueError(f"{len(answers)} instructions do not compute the kernels yet.")
            return plan
        sums, splits = start_sums(wanted), list[Split]()
        for answer in answers:
            splits.append(named_split(sums, answer))
            sums = after_split(sums, splits[-1])
        return plan_of_splits(wanted, depth, splits, shared)

    def in_order(self, answers: Assignment) -> dict[str, Option]:
        """The method, the numbered answers, the relaxation: searches find candidates that no state offers. Without a method
        it is a candidate of the flat view."""
        if METHOD not in answers:
            return {decision.name: answers[decision.name] for decision in order_decisions(self.problem)}
        ranks = {METHOD: 0, RELAXATION: len(answers)}
        return {name: answers[name] for name in sorted(answers, key=lambda n: ranks[n] if n in ranks else int(n))}

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
                return proved_program(self.problem, self.plan(assignment), relaxation)
            except RegisterPressureError:
                if relaxation is Relaxation.NONE:
                    raise
                return proved_program(self.problem, self.plan(assignment, shared=False), Relaxation.NONE)
        except (ValueError, WrongProgramError, InputError) as error:
            return str(error)

    def _measure(self, assignment: Assignment) -> Measurement:
        try:
            return Measurement(metrics_of(self.problem, self.program(assignment)))
        except ValueError as error:
            return Measurement(failure=str(error))


@dataclass(frozen=True)
class MethodState:
    """Nothing decided yet."""

    space: ReverseSplitSpace

    @property
    def decision(self) -> Decision:
        """How the candidate is given."""
        return Decision(METHOD, METHODS)

    @property
    def assignment(self) -> Assignment:
        """Empty."""
        return {}

    def take(self, option: Option) -> SplitState | ProgramState:
        """Start to split, or to write a program."""
        if option not in METHODS:
            raise ValueError(f"{option!r} is no method")
        return (
            SplitState(self.space, start_sums(self.space.problem.wanted))
            if option == SPLITS
            else ProgramState(self.space)
        )

    def bound(self) -> float:
        """Of every program."""
        return self.space.least


@dataclass(frozen=True)
class SplitState:
    """Sums that are left after the splits so far."""

    space: ReverseSplitSpace
    sums: Sums
    answers: tuple[str, ...] = ()
    relaxation: Option | None = None

    @cached_property
    def decision(self) -> Decision | None:
        """Which pair to split next, in the order of the paper's heuristics; at last how to relax."""
        if self.relaxation is not None:
            return None
        if not self.sums or from_image(self.sums, self.space.problem.depth) or len(self.answers) == MOST_SPLITS:
            return Decision(RELAXATION, RELAXATIONS)
        registers = self.space.problem.registers
        splits = largest_splits(self.sums, registers) or largest_splits(self.sums, len(self.sums) + 2)
        return Decision(
            str(len(self.answers) + 1), tuple(named.name for named in ordered(self.sums, splits, OrderWeights()))
        )

    @property
    def assignment(self) -> Assignment:
        """The splits so far."""
        answers: dict[str, Option] = {METHOD: SPLITS, **{str(k): a for k, a in enumerate(self.answers, start=1)}}
        return answers if self.relaxation is None else {**answers, RELAXATION: self.relaxation}

    def take(self, option: Option) -> SplitState:
        """Split, or relax. ValueError for what is no split of this state."""
        decision = self.decision
        if decision is None or (decision.name == RELAXATION and option not in decision.options):
            raise ValueError(f"{option!r} is no option of {decision.name if decision else 'a complete assignment'}")
        if decision.name == RELAXATION:
            return SplitState(self.space, self.sums, self.answers, option)
        split = named_split(self.sums, str(option))
        return SplitState(self.space, after_split(self.sums, split), (*self.answers, str(option)))

    def bound(self) -> float:
        """Of every program: sums that are transforms of each other become one, so splits alone promise nothing."""
        return self.space.least


@dataclass(frozen=True)
class ProgramState:
    """Instructions so far."""

    space: ReverseSplitSpace
    answers: tuple[str, ...] = ()
    values: tuple[Sum, ...] = field(default=(), repr=False)

    @cached_property
    def _values(self) -> list[Sum]:
        if self.values:
            return list(self.values)
        return [Sum.image(self.space.problem.depth + SPARE_DEPTH)]

    @cached_property
    def plan(self) -> Plan | None:
        """Once all kernels are there."""
        problem = self.space.problem
        wanted = tuple(total.scaled(1 << SPARE_DEPTH) for total in problem.wanted)
        steps = [named_step(name) for name in self.answers]
        return plan_of_steps(problem.target, problem.depth + SPARE_DEPTH, steps, self._values, wanted)

    @cached_property
    def decision(self) -> Decision | None:
        """The next instruction."""
        if self.plan is not None or len(self.answers) >= OFFERED_STEPS:
            return None
        names = (step_name(step) for step, _ in next_steps(self.space.problem.target, self._values, OFFERED_VALUES))
        return Decision(str(len(self.answers) + 1), tuple(names))

    @property
    def assignment(self) -> Assignment:
        """The instructions so far."""
        return {METHOD: PROGRAM, **{str(k): a for k, a in enumerate(self.answers, start=1)}}

    def take(self, option: Option) -> ProgramState:
        """One more instruction."""
        if self.decision is None or option not in self.decision.options:
            raise ValueError(
                f"{option!r} is no option of {self.decision.name if self.decision else 'a complete program'}"
            )
        return self.done(str(option))

    def done(self, name: str) -> ProgramState:
        """One more instruction of the target, whether offered or not. ValueError when it cannot be done."""
        result = apply_step(self.space.problem.target, named_step(name), self._values)
        return ProgramState(self.space, (*self.answers, name), (*self._values, result))

    def bound(self) -> float:
        """At least the instructions so far."""
        problem = self.space.problem
        return max(self.space.least, float(len(self.answers)) * (1 if problem.goal is Goal.INSTRUCTIONS else 2))
