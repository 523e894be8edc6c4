"""Kernels in as few signed digits as a permitted error allows: each addition of a program is paid for by a digit of some weight.

A weight's approximations have 0, 1, 2, ... digits of its canonical form, the most significant first; each next one is nearer. Digits are
given out one step after the other, always where a digit takes most from the squared error of its kernel, until every kernel is within its
error: the greedy solution of a knapsack whose items are steps of the lower convex hull of (digits, squared error), which is at most one
step off the fewest digits (Dantzig 1957).
"""

from __future__ import annotations

import heapq
import math
from fractions import Fraction

from kilotune.codegen.scamp.kernel import ApproximatedSet, Approximation, Kernel, KernelSet, signed_digits
from kilotune.codegen.scamp.sums import Cell, Sum

DigitStep = tuple[int, Fraction]
"""How many digits an approximation has, and its value in units of the depth."""


def with_few_digits(kernels: KernelSet, depth: int, error: float) -> ApproximatedSet:
    """Every kernel at `depth` with at most `error` times the root of the sum of its squared weights as the root of that of its weights'
    errors, as far as the depth itself allows. ValueError for a share that is no number from 0 to below 1."""
    if not 0.0 <= error < 1.0:
        raise ValueError(f"expected a share of the weights from 0 to below 1, found {error:g}")
    return ApproximatedSet(depth, tuple(_with_few_digits(kernel, depth, error) for kernel in kernels.kernels))


def relative_error(kernel: Kernel, approximation: Approximation) -> float:
    """The root of the sum of the squared errors of a kernel's weights over that of its weights; 0 for a kernel without any."""
    size = sum(weight * weight for _, weight in kernel.weights)
    return math.sqrt(sum(error * error for error in approximation.errors.values()) / size) if size else 0.0


def digits_of(approximated: ApproximatedSet) -> int:
    """Signed digits of all weights."""
    counts = (weight for total in approximated.sums for _, weight in total.terms)
    return sum(len(signed_digits(Fraction(count), 0)) for count in counts)


def _with_few_digits(kernel: Kernel, depth: int, error: float) -> Approximation:
    wanted = {cell: weight * (1 << depth) for cell, weight in kernel.weights}
    steps = {cell: _steps(weight, depth) for cell, weight in kernel.weights}
    permitted = Fraction(error) ** 2 * sum(weight * weight for weight in wanted.values())
    squared = sum((weight * weight for weight in wanted.values()), Fraction(0))
    reached = dict.fromkeys(wanted, 0)
    heap: list[tuple[Fraction, int, Cell]] = []
    cells = list(wanted)

    def offer(number: int) -> None:
        cell = cells[number]
        at = reached[cell]
        if at + 1 < len(steps[cell]):
            (digits, value), (more, nearer) = steps[cell][at], steps[cell][at + 1]
            gain = (wanted[cell] - value) ** 2 - (wanted[cell] - nearer) ** 2
            heapq.heappush(heap, (-gain / (more - digits), number, cell))

    for number in range(len(cells)):
        offer(number)
    while squared > permitted and heap:
        _, number, cell = heapq.heappop(heap)
        at = reached[cell]
        squared += (wanted[cell] - steps[cell][at + 1][1]) ** 2 - (wanted[cell] - steps[cell][at][1]) ** 2
        reached[cell] += 1
        offer(number)
    values = {cell: steps[cell][reached[cell]][1] for cell in cells}
    unit = Fraction(1, 1 << depth)
    errors = {cell: (values[cell] - wanted[cell]) * unit for cell in cells if values[cell] != wanted[cell]}
    return Approximation(Sum.of({cell: int(value) for cell, value in values.items() if value}), depth, errors)


def _steps(weight: Fraction, depth: int) -> list[DigitStep]:
    """Approximations of a weight on the lower convex hull of digits and squared errors, from none to all of its digits."""
    wanted, value = weight * (1 << depth), Fraction(0)
    hull: list[DigitStep] = [(0, value)]
    for count, (place, sign) in enumerate(signed_digits(weight, depth), start=1):
        value += sign * (1 << (depth - place))
        step = (count, value)
        while len(hull) > 1 and _slope(wanted, hull[-2], hull[-1]) >= _slope(wanted, hull[-1], step):
            hull.pop()
        hull.append(step)
    return hull


def _slope(wanted: Fraction, one: DigitStep, other: DigitStep) -> Fraction:
    """By how much the squared error changes a digit."""
    return ((wanted - other[1]) ** 2 - (wanted - one[1]) ** 2) / (other[0] - one[0])
