"""What of given kernels is to be computed: the depth of their weights, what these become there, and whether registers can hold it."""

from __future__ import annotations

from dataclasses import replace

from kilotune.codegen.scamp.few_digits import with_few_digits
from kilotune.codegen.scamp.instructions import REGISTERS
from kilotune.codegen.scamp.kernel import MAXIMUM_DEPTH, ApproximatedSet, KernelSet
from kilotune.evaluators.scamp5.kernel_accuracy import KernelAccuracy
from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.reverse_split.chip_network import MeasuredNetwork
from kilotune.spaces.reverse_split.first_program import first_plan
from kilotune.spaces.reverse_split.measuring import SplitProblem
from kilotune.spaces.reverse_split.rounding import rounded
from kilotune.spaces.reverse_split.serial import MOST_ADDITIONS

DEFAULT_DEPTH = 4
"""For weights that are no sums of halves. The error is always said."""

REGISTERS_OF_ADDITIONS = 3
"""The most registers in which a kernel may have none for doubling: the image, a total, and the image as a result."""


def depth_of(kernels: KernelSet, asked: int | None) -> int:
    """The depth that was asked for; without one the least that is exact, if there is one."""
    exact = kernels.exact_depth()
    if asked is not None:
        return asked
    return DEFAULT_DEPTH if exact is None or exact > MAXIMUM_DEPTH else exact


def approximated(kernels: KernelSet, depth: int, name: str, error: float | None = None) -> ApproximatedSet:
    """At that depth; with `error` in as few signed digits as keep every kernel's weights within that share. ValueError when a whole kernel
    vanishes."""
    wanted = (kernels.approximate(depth) if error is None else with_few_digits(kernels, depth, error)).reduced()
    for number, (kernel, total) in enumerate(zip(kernels.kernels, wanted.sums, strict=True), start=1):
        if kernel.weights and not total:
            largest = max(abs(weight) for _, weight in kernel.weights)
            raise ValueError(
                f"{name}: kernel {number} vanishes at depth {depth}: its largest weight, {float(largest):.4g}, is no more "
                f"than half of 1/{1 << depth}; ask for a greater --depth."
            )
    return wanted


def require_registers(wanted: ApproximatedSet, registers: int, name: str) -> None:
    """ValueError when it is plain that no program fits, a sum in a single register; and for registers that the chip does not
    have."""
    if not 1 <= registers <= len(REGISTERS):
        raise ValueError(f"{name}: expected 1 to {len(REGISTERS)} registers, found {registers}.")
    cells = max((len(total.terms) for total in wanted.sums), default=0)
    if cells > 1 and registers == 1:
        raise ValueError(f"{name}: a kernel of {cells} weights needs at least 2 registers, 1 given.")


def require_program(problem: SplitProblem, name: str) -> None:
    """ValueError where neither a construction nor, so, a search has a program: macros in so few registers that they add the image as often
    as a large weight says."""
    additions = sum(total.cardinality for total in problem.wanted)
    if problem.target == "scamp5" and problem.registers <= REGISTERS_OF_ADDITIONS and additions > MOST_ADDITIONS:
        try:
            first_plan(problem)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error


def network_registers(asked: int | None, name: str) -> int:
    """All but the one that takes the levels. ValueError when all are asked for."""
    if asked is not None and asked >= len(REGISTERS):
        raise ValueError(
            f"{name}: a network's thresholds need a register, so its kernels have at most {len(REGISTERS) - 1}."
        )
    return asked or len(REGISTERS) - 1


def rounded_weights(
    wanted: ApproximatedSet, measured: MeasuredNetwork, least: float | None, name: str
) -> tuple[ApproximatedSet, MeasuredNetwork]:
    """The kernels with weights rounded while the accuracy lasts, on every second unseen image; the others are left to measure on."""
    digits = measured.digits
    if least is None or digits is None:
        return wanted, measured
    choosing, measuring = digits.halves()
    meter = KernelAccuracy(
        measured.network, wanted.sums, wanted.depth, digits.images[choosing], digits.labels[choosing]
    )
    if meter.accuracy < least:
        raise ValueError(
            f"{name}: expected a limit that the kernels as they are keep; they have an accuracy of {meter.accuracy:.4f} on the "
            f"{counted(choosing.sum(), 'image')} to choose by, found accuracy={least:g}."
        )
    return rounded(wanted, meter, least), replace(measured, digits=replace(digits, measuring=measuring))
