"""From a plan to a proved program and its metrics: relaxation, registers, text, symbolic execution."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np
import numpy.typing as npt

from kilotune.codegen.scamp.instructions import INSTRUCTION_SETS, REGISTERS
from kilotune.codegen.scamp.kernel import ApproximatedSet, signed_digits
from kilotune.codegen.scamp.plan import Plan
from kilotune.codegen.scamp.program import ScampProgram
from kilotune.codegen.scamp.registers import RegisterPressureError, allocate
from kilotune.codegen.scamp.relaxation import relax
from kilotune.codegen.scamp.selection import ShiftPointTree
from kilotune.codegen.scamp.sums import Sum
from kilotune.codegen.scamp.text import format_program
from kilotune.evaluators.scamp5.array import FULL_SCALE, Chip, NoiseModel, run
from kilotune.evaluators.scamp5.symbolic import prove
from kilotune.spaces.reverse_split.serial import one_register_holds

SPARE_DEPTH = 4
"""Halvings may move before odd weights: plans are relaxed in finer units than the kernels need."""

MANY_DIGITS = 60
"""The paper's procedure takes up to two seconds for so many, and may find nothing; so do rounds of splits."""

NOISE_SEED = 1
NOISE_SIDE = 96


class KernelGoal(enum.Enum):
    """What is to be small: instructions, bus transfers, or transfers and noise as a front."""

    INSTRUCTIONS = "instructions"
    TRANSFERS = "transfers"
    FRONT = "front"


class Relaxation(enum.Enum):
    """None; the paper's, node after node at the median; or sets of nodes, under the true cost of instructions."""

    NONE = "none"
    MEDIANS = "medians"
    FULL = "full"


@dataclass(frozen=True)
class SplitProblem:
    """Kernels at a depth, and the machine. ValueError, a sentence: no such instruction set, no such register count, or one register for
    kernels that it cannot hold."""

    kernels: ApproximatedSet
    target: str = "auke"
    registers: int = len(REGISTERS)
    goal: KernelGoal = KernelGoal.INSTRUCTIONS

    def __post_init__(self) -> None:
        if self.target not in INSTRUCTION_SETS:
            raise ValueError(f"There is no instruction set {self.target!r}; there are {', '.join(INSTRUCTION_SETS)}.")
        if not 1 <= self.registers <= len(REGISTERS):
            raise ValueError(f"A program can have 1 to {len(REGISTERS)} registers, not {self.registers}.")
        if self.registers == 1 and not all(one_register_holds(total, self.depth, self.target) for total in self.wanted):
            more = {"auke": ", doubled, halved or negated", "scamp5": ""}[self.target]
            raise ValueError(
                f"One register can only hold the image moved{more}; a program of these kernels takes at least 2."
            )

    @property
    def consumed(self) -> bool:
        """Whether results are read as they finish: several of which there are at least as many as registers, which leaves none for the
        image. So any kernels have a program in two registers."""
        return 1 < len(set(self.wanted)) >= self.registers

    @property
    def kept(self) -> bool:
        """Whether a program must hold all results at its end. Not where they would leave the last kernel one of all the chip's registers
        beside the image, where programs are long: then the shortest is taken, and its results stay to the end if they can.
        With fewer registers that are asked for, results stay, as is asked for by their number."""
        filled = len(set(self.wanted)) + 1 == self.registers == len(REGISTERS)
        return not self.consumed and not filled

    @property
    def splits_fit(self) -> bool:
        """Whether splits, whose states hold all sums at once, may have a program: with as many results as registers, of fewer than six."""
        return len(set(self.wanted)) <= min(self.registers, len(REGISTERS) - 1)

    @property
    def digits(self) -> int:
        """Signed binary digits of all weights together."""
        return sum(len(signed_digits(Fraction(weight), 0)) for total in self.wanted for _, weight in total)

    @property
    def has_many_digits(self) -> bool:
        """Whether there are at least `MANY_DIGITS`."""
        return self.digits >= MANY_DIGITS

    @property
    def wanted(self) -> tuple[Sum, ...]:
        """The final sums, one a kernel."""
        return self.kernels.sums

    @property
    def depth(self) -> int:
        """Weights are multiples of 2**-depth."""
        return self.kernels.depth


@dataclass(frozen=True)
class ProvedProgram:
    """A program whose text has been executed on sums and computes the kernels, and the plan that it was made from."""

    program: ScampProgram
    text: str
    plan: Plan


def proved_program(
    problem: SplitProblem, plan: Plan, relaxation: Relaxation = Relaxation.FULL, tree_of: ShiftPointTree | None = None
) -> ProvedProgram:
    """The program of a plan; `tree_of` as in `relax`. RegisterPressureError when it does not fit, WrongProgramError when it is wrong."""
    spare = problem.depth + SPARE_DEPTH
    plan = replace(plan, depth=max(plan.depth, spare))
    if relaxation is not Relaxation.NONE or plan.target != problem.target:
        objective = "instructions" if problem.goal is KernelGoal.INSTRUCTIONS else "transfers"
        medians_only = relaxation is not Relaxation.FULL
        relaxed = relax(
            plan,
            problem.registers,
            target=problem.target,
            objective=objective,
            medians_only=medians_only,
            tree_of=tree_of,
        )
        try:
            return _proved(problem, relaxed)
        except RegisterPressureError:
            if plan.target != problem.target:
                raise
    return _proved(problem, plan)


def metrics_of(problem: SplitProblem, found: ProvedProgram) -> dict[str, float]:
    """instructions, bus_transfers, registers, time_us, energy_uj of one frame, largest_error of a weight, and
    noise_percent when the goal asks for it."""
    program = found.program
    metrics = {
        "instructions": float(program.instructions),
        "bus_transfers": float(program.bus_transfers),
        "registers": float(len(program.registers)),
        "time_us": program.seconds * 1e6,
        "energy_uj": program.energy_joules * 1e6,
        "largest_error": float(problem.kernels.largest_error),
    }
    if problem.goal is KernelGoal.FRONT:
        metrics["noise_percent"] = noise_percent(found.text)
    return metrics


def noise_percent(text: str) -> float:
    """RMS error of all results on one seeded noise image, relative to the RMS of what they should be, in per cent.

    The image is as bright as it can be without saturation, which needs headroom in every intermediate value.
    """
    image = _test_image()
    exact = run(text, image)
    amplitude = min(1.0, FULL_SCALE / exact.largest) if exact.largest else 1.0
    noisy = run(text, image * amplitude, Chip(FULL_SCALE, NoiseModel(), NOISE_SEED))
    error = signal = 0.0
    for wanted, found, known in zip(exact.results, noisy.results, exact.known, strict=True):
        error += float(np.sum((found / amplitude - wanted)[known] ** 2))
        signal += float(np.sum(wanted[known] ** 2))
    return 100.0 * float(np.sqrt(error / signal)) if signal else 0.0


@cache
def _test_image() -> npt.NDArray[np.float64]:
    """Smooth shapes with noise, as photographs have: white noise with a spectrum that falls with the frequency."""
    generator = np.random.default_rng(NOISE_SEED)
    spectrum = np.fft.rfft2(generator.standard_normal((NOISE_SIDE, NOISE_SIDE)))
    rows, columns = np.fft.fftfreq(NOISE_SIDE)[:, None], np.fft.rfftfreq(NOISE_SIDE)[None, :]
    image = np.fft.irfft2(spectrum / np.maximum(np.hypot(rows, columns), 1.0 / NOISE_SIDE), (NOISE_SIDE, NOISE_SIDE))
    return np.asarray(image * (FULL_SCALE / np.abs(image).max()), dtype=np.float64)


def _proved(problem: SplitProblem, plan: Plan) -> ProvedProgram:
    text = format_program(_allocated(problem, plan))
    return ProvedProgram(prove(text, problem.wanted, problem.depth), text, plan)


def _allocated(problem: SplitProblem, plan: Plan) -> ScampProgram:
    if not problem.consumed:
        try:
            return allocate(plan, problem.registers)
        except RegisterPressureError:
            if problem.kept:
                raise
    return allocate(plan, problem.registers, kept=False)
