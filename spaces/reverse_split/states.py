"""Where a walk through splits, or through instructions, stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from kilotune.codegen.scamp.plan import Plan
from kilotune.codegen.scamp.sums import Sum
from kilotune.search.space import (
    Assignment,
    Decision,
    Option,
    answered,
)
from kilotune.spaces.reverse_split.candidates import METHOD, PROGRAM, RELAXATION, SPLITS, ReverseSplitCandidates
from kilotune.spaces.reverse_split.instructions import (
    apply_step,
    named_step,
    next_steps,
    plan_of_steps,
    step_name,
)
from kilotune.spaces.reverse_split.measuring import (
    SPARE_DEPTH,
    KernelGoal,
    Relaxation,
)
from kilotune.spaces.reverse_split.ordering import OrderWeights, ordered
from kilotune.spaces.reverse_split.pairs import largest_splits
from kilotune.spaces.reverse_split.splits import Sums, after_split, from_image, named_split, start_sums

METHODS: tuple[Option, ...] = (SPLITS, PROGRAM)
RELAXATIONS: tuple[Option, ...] = (Relaxation.FULL.value, Relaxation.MEDIANS.value, Relaxation.NONE.value)

OFFERED_STEPS, OFFERED_VALUES = 12, 3
"""Longer programs, and instructions on values older than the last few, are candidates too, but no walk is offered them."""

MOST_SPLITS = 96


@dataclass(frozen=True)
class MethodState:
    """Nothing decided yet."""

    space: ReverseSplitCandidates

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
        """A bound on the first objective of every program."""
        return self.space.least


@dataclass(frozen=True)
class SplitState:
    """Sums that are left after the splits so far."""

    space: ReverseSplitCandidates
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
        if decision is None or decision.name == RELAXATION:
            answered(decision, option)
            return SplitState(self.space, self.sums, self.answers, option)
        split = named_split(self.sums, str(option))
        return SplitState(self.space, after_split(self.sums, split), (*self.answers, str(option)))

    def bound(self) -> float:
        """A bound on the first objective of every program: sums that are transforms of each other become one, so splits alone promise
        nothing."""
        return self.space.least


@dataclass(frozen=True)
class ProgramState:
    """Instructions so far."""

    space: ReverseSplitCandidates
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
        answered(self.decision, option)
        return self.done(str(option))

    def done(self, name: str) -> ProgramState:
        """One more instruction of the target, whether offered or not. ValueError when it cannot be done."""
        result = apply_step(self.space.problem.target, named_step(name), self._values)
        return ProgramState(self.space, (*self.answers, name), (*self._values, result))

    def bound(self) -> float:
        """At least the instructions so far."""
        problem = self.space.problem
        return max(self.space.least, float(len(self.answers)) * (1 if problem.goal is KernelGoal.INSTRUCTIONS else 2))
