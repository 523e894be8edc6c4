"""What became of kernels, in sentences: how many signed digits their weights kept, how far the worst one is off, and where results lie."""

from __future__ import annotations

from fractions import Fraction

from kilotune.codegen.scamp.few_digits import digits_of, relative_error
from kilotune.codegen.scamp.kernel import ApproximatedSet, KernelSet
from kilotune.codegen.scamp.sums import Cell
from kilotune.experiments.presentation.wording import counted


def relative_errors(kernels: KernelSet, made: ApproximatedSet) -> list[float]:
    """By kernel: the root of its weights' squared errors over that of its squared weights."""
    return [relative_error(kernel, one) for kernel, one in zip(kernels.kernels, made.approximations, strict=True)]


def digits_sentence(kernels: KernelSet, made: ApproximatedSet, exact: ApproximatedSet) -> str:
    """How many digits a permitted error has saved."""
    worst = 100.0 * max(relative_errors(kernels, made), default=0.0)
    kept = counted(digits_of(made), "signed digit")
    return f"The kernels have {kept} of {digits_of(exact)}: of each, weights are off by at most {worst:.3g} %."


def approximation_sentence(kernels: KernelSet, made: ApproximatedSet, remedy: str) -> str:
    """The worst weight, and what makes the error smaller."""
    error = made.largest_error
    if not error:
        return f"The weights are exact at depth {made.depth} (multiples of 1/{1 << made.depth})."
    errors = [one.errors for one in made.approximations]
    number, cell, weight = max(
        ((number, cell, weight) for number, kernel in enumerate(kernels.kernels) for cell, weight in kernel.weights),
        key=lambda entry: abs(errors[entry[0]].get(entry[1], Fraction(0))),
    )
    return (
        f"The weights are approximated to multiples of 1/{1 << made.depth}: the largest error is "
        f"{float(error):.4g} ({float(weight):.10g} at cell {cell} of kernel {number + 1} becomes "
        f"{float(weight + errors[number].get(cell, Fraction(0))):.10g}); {remedy} makes it smaller."
    )


def position_sentence(position: Cell) -> str:
    """At which pixel an element has the results."""
    ways = ((position[0], "east", "west"), (position[1], "north", "south"))
    parts = [f"{abs(far)} to the {ahead if far > 0 else behind}" for far, ahead, behind in ways if far]
    place = f"the pixel {' and '.join(parts)} of it" if parts else "its own pixel"
    return f"Every element holds the results at {place}."
