"""How large the values of a model become on inputs that nobody has seen, and how much room a program has for them.

Numbers that do not fit wrap around, from one end of the scale to the other, and in a program that returns numbers nothing hides that.
Formats that just hold the values of the training samples are not enough: of n samples and one more, any is the largest with the same
probability. In a classifier it is the surest inputs whose class flips by it, which counts where the samples were few.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import BoolArray, FloatArray
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.looped_steps import sample_blocks
from kilotune.codegen.parallel_loops import float_steps
from kilotune.codegen.profile import Profile
from kilotune.codegen.straight_line import OperationInstance

RARITY = 1000
"""How many times as many new samples as training samples are to pass before one of normally distributed values goes beyond."""

FEWEST_SAMPLES = 10
"""Fewer say too little of how values are distributed: they count as so many."""

FEW_SAMPLES = 350
"""With fewer training samples a classifier's values wrap around on one new sample in hundreds, with as many or more on one in thousands."""


def meets_new_numbers(program: ir.Program) -> bool:
    """Whether it returns numbers for inputs that are not known, which must not wrap around."""
    return program.result_kind is not ir.ResultKind.CLASS and program.input is not None


def meets_surer_scores(program: ir.Program, samples: int) -> bool:
    """Whether it returns classes for inputs that are not known and has so few training samples that others often lie further out."""
    return program.result_kind is ir.ResultKind.CLASS and program.input is not None and samples < FEW_SAMPLES


def share_beyond(samples: int) -> float:
    """By which factor (above 1) a range that held `samples` values is extended for new ones.

    The largest of n normally distributed values is near sqrt(2 ln n) deviations, and one of n * RARITY lies beyond sqrt(2 ln(n * RARITY)):
    the factor is their quotient, 2 for ten samples, 1.58 for a hundred, 1.41 for a thousand. Values that are far from zero vary by less
    than their magnitude, so that for these it is more than enough.
    """
    return math.sqrt(1.0 + math.log(RARITY) / math.log(max(samples, FEWEST_SAMPLES)))


def magnitudes_beyond(
    program: ir.Program, parameters: Mapping[str, FloatArray], features: FloatArray, profile: Profile
) -> dict[str, float]:
    """The largest absolute value by variable that there has to be room for on inputs beyond the training samples.

    `features` [samples, features]: these samples, which `profile` is of. The profile's magnitudes are extended by `share_beyond`, and
    further to what the float program makes of samples that lie so much further out (products of features grow faster than these), but
    not beyond what a variable can become. Parameters are what they are.
    """
    share, ends = share_beyond(len(features)), _ends(program, profile)
    further = _magnitudes(program, parameters, _further_out(features, share))
    found = {}
    for variable in program.variables:
        if variable.name not in profile.minimum:
            continue
        magnitude = profile.magnitude(variable.name)
        if variable.role is not ir.Role.PARAMETER:
            beyond = max(share * magnitude, further.get(variable.name, 0.0))
            magnitude = max(magnitude, min(beyond, ends.get(variable.name, math.inf)))
        found[variable.name] = magnitude
    return found


def _further_out(features: FloatArray, share: float) -> FloatArray:
    """Samples [samples, features] whose distances from the middle of each feature are larger by that factor."""
    if not features.size:
        return features
    middle = (features.min(axis=0) + features.max(axis=0)) / 2.0
    return np.asarray(middle + share * (features - middle))


def _magnitudes(program: ir.Program, parameters: Mapping[str, FloatArray], features: FloatArray) -> dict[str, float]:
    """The largest absolute value by variable that is written, of those that are finite."""
    found: dict[str, float] = {}

    def observe(step: OperationInstance, written: FloatArray, read: Sequence[FloatArray]) -> None:
        name = step.operation.out.variable
        most = max(float(written.max(initial=0.0)), -float(written.min(initial=0.0)))  # no copies of large steps
        if not math.isfinite(most):
            magnitudes = np.abs(written)
            most = float(magnitudes.max(initial=0.0, where=np.isfinite(magnitudes)))
        found[name] = max(found.get(name, 0.0), most)

    run_float(program, parameters, features, observe)
    return found


def _ends(program: ir.Program, profile: Profile) -> dict[str, float]:
    """By variable what no input makes its absolute value exceed; infinity where nothing is known."""
    writers: dict[str, list[tuple[int, ir.Operation]]] = {}
    for row, operation in enumerate(ir.operations(program.body)):
        writers.setdefault(operation.out.variable, []).append((row, operation))
    ends: dict[str, float] = {}
    # In the order in which they are first written: of what comes later nothing is known.
    for name, written in writers.items():
        ends[name] = max(_end(operation, row, ends, profile) for row, operation in written)
    return ends


def _end(operation: ir.Operation, row: int, ends: Mapping[str, float], profile: Profile) -> float:
    """What the result of one operation never exceeds."""
    match operation:
        case ir.Sigmoid() | ir.Tanh() | ir.NormaliseL2():
            return 1.0
        case ir.Exp():  # its table ends at the largest argument of the training samples, or at 0
            return math.exp(max(float(profile.exponents[row][-1]), 0.0))
        case ir.Relu6(a=a):
            return min(6.0, ends.get(a.variable, math.inf))
        case ir.Pointwise(a=a) | ir.MaxPool(a=a):  # no larger than their argument
            return ends.get(a.variable, math.inf)
        case ir.Fill(value=value):
            return abs(value)
        case _:
            return math.inf


@dataclass(frozen=True)
class Headroom:
    """How far the values of one program may grow. `factor`: by how much the largest of the training samples may be exceeded before anything
    wraps around; infinity where nothing can, 1 where what can was 0 in all of them. `largest`: by variable what its format holds, of
    those that are not bounded."""

    factor: float
    largest: Mapping[str, float]


def headroom(
    program: ir.Program, profile: Profile, bits: Sequence[int], scales: Sequence[int], least_bits: int = 0
) -> Headroom:
    """The room of a program whose variables have so many bits and these effective scales, in the order of `program.variables`. The input
    does not count, which is held at the ends of its format, nor what tables of functions give, nor variables of fewer than `least_bits`."""
    ends = _ends(program, profile)
    free = _not_looked_up(program)
    held = {
        variable.name: 2.0 ** (width - 1 - scale)
        for variable, width, scale in zip(program.variables, bits, scales, strict=True)
        if variable.name in free and variable.name in profile.minimum and width >= least_bits
    }
    largest = {name: most for name, most in held.items() if most < ends.get(name, math.inf)}
    factors = (most / magnitude for name, most in largest.items() if (magnitude := profile.magnitude(name)) > 0)
    return Headroom(min(factors, default=1.0 if largest else math.inf), largest)


def samples_beyond(
    program: ir.Program, parameters: Mapping[str, FloatArray], features: FloatArray, room: Headroom
) -> int:
    """How many samples [samples, features] bring a variable of the float program to where its format has no room."""
    steps, count = float_steps(program), 0
    for block in sample_blocks(steps.elements_at_once, len(features)):
        beyond = np.zeros(len(features[block]), dtype=bool)

        def observe(
            step: OperationInstance, written: FloatArray, read: Sequence[FloatArray], beyond: BoolArray = beyond
        ) -> None:
            held = room.largest.get(step.operation.out.variable)
            if held is not None:
                magnitudes = np.abs(written).reshape(-1, written.shape[-1])
                beyond |= ~(magnitudes < held).all(axis=0)  # what is not a number has no room either

        run_float(program, parameters, features[block], observe, steps)
        count += int(beyond.sum())
    return count


def _not_looked_up(program: ir.Program) -> frozenset[str]:
    """Temporaries that hold something else than what tables of functions give."""
    written = (operation for operation in ir.operations(program.body) if not isinstance(operation, ir.TableFunction))
    return frozenset(operation.out.variable for operation in written) - ir.label_variables(program)
