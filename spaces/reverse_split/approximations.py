"""Kernels whose weights may be off: how many signed digits they keep, and a program for what is left of them.

A candidate is one of several approximations (`codegen.scamp.few_digits`) with a program for it, as `ReverseSplitSpace` has them. The front
is that of instructions against the error of the weights, in per cent of a kernel's size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kilotune.codegen.scamp.few_digits import digits_of, relative_error, with_few_digits
from kilotune.codegen.scamp.kernel import ApproximatedSet, KernelSet
from kilotune.search.fingerprint import fingerprint
from kilotune.search.flat_state import FlatView
from kilotune.search.space import (
    Assignment,
    Decision,
    ExactStep,
    Measurement,
    Objective,
    Option,
    Procedure,
    State,
    answered,
)
from kilotune.spaces.reverse_split.measuring import KernelGoal, ProvedProgram, SplitProblem
from kilotune.spaces.reverse_split.order_view import order_decisions
from kilotune.spaces.reverse_split.space import SEMANTICS, ReverseSplitSpace

DIGITS = "digits"
ERROR = "weight_error_percent"

MOST_APPROXIMATIONS = 12
ERRORS_TRIED, SMALLEST_ERROR = 96, 1e-4
"""Permitted errors from a share of the largest one up to it, a constant factor apart, that approximations are made for."""


@dataclass(frozen=True)
class KernelApproximation:
    """Kernels with so many signed digits in all. `error`: the largest of a kernel, a share of its size."""

    kernels: ApproximatedSet
    digits: int
    error: float


def approximations(kernels: KernelSet, depth: int, error: float) -> tuple[KernelApproximation, ...]:
    """From the exact kernels (as far as `depth` allows) to the fewest digits within `error`, each one of fewer digits than the one before;
    `MOST_APPROXIMATIONS` at most, evenly spread. No kernel vanishes. ValueError as `with_few_digits`."""
    found: dict[int, KernelApproximation] = {}
    ratios = [SMALLEST_ERROR ** (1 - n / (ERRORS_TRIED - 1)) for n in range(ERRORS_TRIED)]
    for permitted in (0.0, *(ratio * error for ratio in ratios)):
        made = with_few_digits(kernels, depth, permitted)
        if any(kernel.weights and not total for kernel, total in zip(kernels.kernels, made.sums, strict=True)):
            break
        errors = [relative_error(k, a) for k, a in zip(kernels.kernels, made.approximations, strict=True)]
        digits = digits_of(made)
        if digits not in found:
            found[digits] = KernelApproximation(made.reduced(), digits, max(errors, default=0.0))
    every = [found[digits] for digits in sorted(found, reverse=True)]
    if len(every) <= MOST_APPROXIMATIONS:
        return tuple(every)
    places = (round(n * (len(every) - 1) / (MOST_APPROXIMATIONS - 1)) for n in range(MOST_APPROXIMATIONS))
    return tuple(every[place] for place in places)


class ApproximationSpace:
    """The front of instructions against the error of the weights, for programs of `target` on so many registers."""

    name = "reverse-split"
    threads = 1
    prefers_flat = ReverseSplitSpace.prefers_flat
    objectives = (Objective("instructions"), Objective(ERROR))
    constraints = ()

    def __init__(self, offered: Sequence[KernelApproximation], target: str, registers: int) -> None:
        """`offered`: the exact ones first. ValueError as `SplitProblem`."""
        self.offered = {one.digits: one for one in offered}
        self.spaces = {
            digits: ReverseSplitSpace(SplitProblem(one.kernels, target, registers, KernelGoal.INSTRUCTIONS))
            for digits, one in self.offered.items()
        }
        self.problem = self.spaces[offered[0].digits].problem

    @property
    def digits(self) -> Decision:
        """How many signed digits the kernels keep, from all of them on."""
        return Decision(DIGITS, tuple(self.offered))

    @cached_property
    def fingerprint(self) -> str:
        """Hash of every approximation with its error."""
        parts = [(space.fingerprint, self.offered[digits].error) for digits, space in self.spaces.items()]
        return fingerprint(self.name, SEMANTICS, "approximations", parts)

    @cached_property
    def least(self) -> float:
        """No program of any approximation has fewer instructions."""
        return min(space.least for space in self.spaces.values())

    def kernels_of(self, assignment: Assignment) -> ApproximatedSet:
        """What the program of a candidate computes."""
        return self.offered[self._digits(assignment)].kernels

    def program(self, assignment: Assignment) -> ProvedProgram:
        """The proved program of a candidate. ValueError, a sentence: it has none."""
        return self.spaces[self._digits(assignment)].program(_without_digits(assignment))

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """As `ReverseSplitSpace`, and the error of the weights."""
        return [self._measured(assignment) for assignment in batch]

    def procedure(self) -> Procedure:
        """AUKE's search for the exact kernels."""
        digits, space = next(iter(self.spaces.items()))
        for candidate in space.paper_candidates():
            yield [{DIGITS: digits, **candidate}]

    def fallback(self) -> Assignment | None:
        """That of the exact kernels."""
        digits, space = next(iter(self.spaces.items()))
        found = space.fallback()
        return None if found is None else {DIGITS: digits, **found}

    def exact_search(self, seed: int, seconds_left: Callable[[], float] = lambda: math.inf) -> Iterator[ExactStep]:
        """Every approximation's own search, in turn; complete when all are."""
        for space in self.spaces.values():
            space.threads = self.threads
        searches = {digits: space.exact_search(seed, seconds_left) for digits, space in self.spaces.items()}
        bounds = {digits: space.least for digits, space in self.spaces.items()}
        while searches:
            for digits, search in list(searches.items()):
                step = next(search, None)
                if step is None:
                    del searches[digits]  # without a compiler a search ends before anything is proved
                    continue
                bounds[digits] = max(bounds[digits], step.bound)
                if step.complete:
                    del searches[digits]
                candidate = None if step.candidate is None else {DIGITS: digits, **step.candidate}
                yield ExactStep(candidate, min(bounds.values()), step.complete and not searches)

    def start(self) -> ApproximationState:
        """Nothing decided."""
        return ApproximationState(self)

    def flat_view(self) -> FlatView:
        """The digits, and the order in which a short search tries splits; see `order_view`."""
        return FlatView(self, (self.digits, *order_decisions(self.problem)), self.least)

    def in_order(self, answers: Assignment) -> dict[str, Option]:
        """The digits first."""
        digits = self._digits(answers)
        return {DIGITS: answers[DIGITS], **self.spaces[digits].in_order(_without_digits(answers))}

    def _measured(self, assignment: Assignment) -> Measurement:
        digits = self._digits(assignment)
        (found,) = self.spaces[digits].evaluate([_without_digits(assignment)])
        if found.failure is not None:
            return found
        return Measurement({**found.metrics, ERROR: 100.0 * self.offered[digits].error})

    def _digits(self, assignment: Assignment) -> int:
        return int(assignment[DIGITS])


@dataclass(frozen=True)
class ApproximationState:
    """How many digits, then a walk through the programs of that approximation."""

    space: ApproximationSpace = field(repr=False)
    digits: Option | None = None
    within: State | None = None

    @property
    def decision(self) -> Decision | None:
        """The digits, then what the space of programs asks."""
        return self.space.digits if self.within is None else self.within.decision

    @property
    def assignment(self) -> Assignment:
        """The answers so far."""
        return {} if self.within is None or self.digits is None else {DIGITS: self.digits, **self.within.assignment}

    def take(self, option: Option) -> ApproximationState:
        """Answer the current decision. ValueError when it is not one of the options."""
        if self.within is not None:
            return ApproximationState(self.space, self.digits, self.within.take(option))
        answered(self.space.digits, option)
        return ApproximationState(self.space, option, self.space.spaces[int(option)].start())

    def bound(self) -> float:
        """No program from here on has fewer instructions."""
        return self.space.least if self.within is None else self.within.bound()


def _without_digits(assignment: Assignment) -> Assignment:
    return {name: option for name, option in assignment.items() if name != DIGITS}
