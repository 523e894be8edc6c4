"""Kernels whose weights may be off: how many signed digits they keep, and a program for what is left of them.

A candidate is one of several approximations (`codegen.scamp.few_digits`) with a program for it, as `ReverseSplitSpace` has them. The front
is that of instructions against the error of the weights, in per cent of a kernel's size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from kilotune.codegen.scamp.few_digits import digits_of, relative_error, with_few_digits
from kilotune.codegen.scamp.kernel import ApproximatedSet, KernelSet
from kilotune.search.fingerprint import fingerprint
from kilotune.search.space import Assignment, ExactStep, Measurement, Objective, Option, Trial
from kilotune.spaces.reverse_split.measuring import KernelGoal, SplitProblem
from kilotune.spaces.reverse_split.several import SeveralKernels
from kilotune.spaces.reverse_split.shared_clock import SharedClock
from kilotune.spaces.reverse_split.space import SEMANTICS, ReverseSplitSpace

DIGITS = "digits"
ERROR = "weight_error_percent"

MOST_APPROXIMATIONS = 12
ERRORS_TRIED, SMALLEST_ERROR = 96, 1e-4
"""Permitted errors from a share of the largest one up to it, a constant factor apart, that approximations are made for."""

SECONDS_A_KERNEL, FEWEST_AT_ONCE = 0.5, 4
"""What a search needs to be worth its time. Generated sets in 10 seconds, mean length over the errors: four 8-bit 3x3 kernels 109 macros
with four searches at once, 135 with twelve; a 5x5 kernel 52 and 44, a 7x7 kernel 90 and 87."""


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


class ApproximationSpace(SeveralKernels):
    """The front of instructions against the error of the weights, for programs of `target` on so many registers."""

    objectives = (Objective("instructions"), Objective(ERROR))
    why_no_model = (
        "of a front of the weights' errors: choose another strategy, or ask for instructions or transfers alone"
    )

    def __init__(self, offered: Sequence[KernelApproximation], target: str, registers: int) -> None:
        """`offered`: the exact ones first. ValueError as `SplitProblem`."""
        self.offered = {one.digits: one for one in offered}
        spaces: dict[Option, ReverseSplitSpace] = {
            digits: ReverseSplitSpace(SplitProblem(one.kernels, target, registers, KernelGoal.INSTRUCTIONS))
            for digits, one in self.offered.items()
        }
        super().__init__(DIGITS, spaces)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of every approximation with its error."""
        parts = [(space.fingerprint, self.offered[int(digits)].error) for digits, space in self.spaces.items()]
        return fingerprint(self.name, SEMANTICS, "approximations", parts)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """As `ReverseSplitSpace`, and the error of the weights."""
        return [self._with_error(a, found) for a, found in zip(batch, super().evaluate(batch), strict=True)]

    def exact_search(self, seed: int, seconds_left: Callable[[], float] = lambda: math.inf) -> Iterator[ExactStep]:
        """The first program of every approximation at once, then as many searches side by side as the time is long enough for, evenly
        spread from the exact kernels to the largest error; another one begins where one has ended. Complete when all are."""
        return self.exact_search_after((), seed, seconds_left)

    def exact_search_after(
        self, trials: Sequence[Trial], seed: int, seconds_left: Callable[[], float]
    ) -> Iterator[ExactStep]:
        """Each approximation's search goes on from its best programs and from what earlier runs have noted; else as `exact_search`."""
        bounds, left = {digits: space.least for digits, space in self.spaces.items()}, set(self.spaces)
        at_once = searches_at_once(len(self.spaces), len(self.problem.wanted), seconds_left())
        for space in self.spaces.values():
            space.threads = self.threads
        searches = self.searches_after(trials, seed)
        begun = {digits: searches[digits] for digits in evenly_first(list(self.spaces), at_once)}
        for digits, step in SharedClock(begun, seconds_left, at_once).steps():
            bounds[digits] = max(bounds[digits], step.bound)
            if step.complete:
                left.discard(digits)
            candidate = None if step.candidate is None else self.chosen(digits, step.candidate)
            yield ExactStep(candidate, min(bounds.values()), not left)

    def _with_error(self, assignment: Assignment, found: Measurement) -> Measurement:
        if found.failure is not None:
            return found
        return Measurement({**found.metrics, ERROR: 100.0 * self.offered[int(assignment[DIGITS])].error})


def searches_at_once(approximations: int, kernels: int, seconds: float) -> int:
    """How many approximations of so many kernels are searched side by side within so many seconds: in a short time those for which it is
    worth to begin."""
    if math.isinf(seconds):
        return approximations
    return min(approximations, max(FEWEST_AT_ONCE, int(seconds / (SECONDS_A_KERNEL * max(1, kernels)))))


def evenly_first(options: Sequence[Option], count: int) -> list[Option]:
    """The options, with so many of them first that are evenly spread from the first to the last."""
    last = len(options) - 1
    first = {options[round(n * last / max(1, count - 1))]: None for n in range(count)}
    return list(first | dict.fromkeys(options))
