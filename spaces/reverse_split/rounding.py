"""Which weights of a network's kernels may be rounded: signed digits go, one after the other, while the accuracy lasts.

Each addition of a program is paid for by a signed digit of some weight, so fewer digits make shorter programs as a rule, though not
always: values are shared. Greedy: each time the digit goes whose loss costs least accuracy, of equal ones the least significant.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

from kilotune.codegen.scamp.kernel import ApproximatedSet, Approximation, signed_digits
from kilotune.codegen.scamp.sums import Cell, Sum

MOST_ROUNDED = 256
"""Digits that may go."""


class KernelMeter(Protocol):
    """What kernels are good for."""

    def accuracy_with(self, kernel: int, cell: Cell, change: int) -> float:
        """If one weight changed by so many units."""

    def change(self, kernel: int, cell: Cell, change: int) -> None:
        """From now on it has."""


def rounded(kernels: ApproximatedSet, meter: KernelMeter, least: float) -> ApproximatedSet:
    """The kernels with as few signed digits as the meter's accuracy, at least `least`, allows; no kernel loses its last one."""
    totals = [dict(total) for total in kernels.sums]
    for _ in range(MOST_ROUNDED):
        tried = []
        for number, weights in enumerate(totals):
            for cell, weight in weights.items():
                digits = signed_digits(Fraction(weight), 0)
                if len(weights) > 1 or len(digits) > 1:
                    place, sign = digits[-1]
                    change = -sign * (1 << -place)
                    tried.append((meter.accuracy_with(number, cell, change), -abs(change), number, cell, change))
        best = max(tried, default=None)
        if best is None or best[0] < least:
            break
        _, _, number, cell, change = best
        meter.change(number, cell, change)
        totals[number][cell] += change
        if not totals[number][cell]:
            del totals[number][cell]
    return ApproximatedSet(
        kernels.depth,
        tuple(
            _approximation(a, weights, kernels.depth) for a, weights in zip(kernels.approximations, totals, strict=True)
        ),
    ).reduced()


def _approximation(before: Approximation, weights: dict[Cell, int], depth: int) -> Approximation:
    """With what every weight now differs by from the wanted one."""
    then, errors = dict(before.total), {}
    for cell in {*then, *weights}:
        error = before.errors.get(cell, Fraction(0)) + Fraction(weights.get(cell, 0) - then.get(cell, 0), 1 << depth)
        if error:
            errors[cell] = error
    return Approximation(Sum.of(weights), depth, errors)
