"""What the float program's variables look like on the training data (Shiftry Algorithm 10, `Profile`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.float_evaluator import FloatRun, run_float
from kilotune.codegen.straight_line import OperationInstance


@dataclass(frozen=True)
class Profile:
    """Extremes of every variable, and all arguments of every exponential by its row (operation number)."""

    minimum: Mapping[str, float]
    maximum: Mapping[str, float]
    exponents: Mapping[int, FloatArray]

    def magnitude(self, variable: str) -> float:
        """The largest absolute value that the variable takes."""
        return max(abs(self.minimum[variable]), abs(self.maximum[variable]))

    def exponent_range(self, row: int, coverage: float) -> tuple[float, float]:
        """The narrowest interval that holds a `coverage` (0 to 1) share of the exponential's arguments.

        SeeDot Section 5.3.2 wants "a small range in which most (more than 90%) of the inputs lie".
        """
        values = self.exponents[row]
        kept = max(1, int(np.ceil(coverage * values.size)))
        widths = values[kept - 1 :] - values[: values.size - kept + 1]
        start = int(widths.argmin())
        return float(values[start]), float(values[start + kept - 1])


class Profiler:
    """Makes the profile of a float run that it observes."""

    def __init__(self, program: ir.Program, parameters: Mapping[str, FloatArray], features: FloatArray) -> None:
        self._minimum: dict[str, float] = {}
        self._maximum: dict[str, float] = {}
        self._exponents: dict[int, list[FloatArray]] = {}
        for variable in program.variables:
            if variable.role is ir.Role.PARAMETER:
                self._widen(variable.name, np.asarray(parameters[variable.name], dtype=np.float64))
            elif variable.role is ir.Role.INPUT:
                self._widen(variable.name, features)

    def observe(self, step: OperationInstance, written: FloatArray, read: Sequence[FloatArray]) -> None:
        """What a step has written and read. InputError, at the operation, for what is not finite."""
        least, most = self._widen(step.operation.out.variable, written)
        if not (math.isfinite(least) and math.isfinite(most)):  # where anything is NaN, both are
            subject = type(step.operation).__name__.lower()
            raise InputError.at(
                step.operation.location, subject, "finite values on the training data", "infinity or NaN"
            )
        if isinstance(step.operation, ir.Exp):
            self._exponents.setdefault(step.row, []).append(read[0].flatten())

    def made(self) -> Profile:
        """The profile of all that was observed."""
        exponents = {row: _in_order(parts) for row, parts in self._exponents.items()}
        return Profile(self._minimum, self._maximum, exponents)

    def _widen(self, name: str, values: FloatArray) -> tuple[float, float]:
        """The extremes of the values alone."""
        least, most = float(values.min()), float(values.max())
        self._minimum[name] = min(self._minimum.get(name, np.inf), least)
        self._maximum[name] = max(self._maximum.get(name, -np.inf), most)
        return least, most


def profile(
    program: ir.Program, parameters: Mapping[str, FloatArray], features: FloatArray
) -> tuple[Profile, FloatRun]:
    """Run the float program on `features` [samples, features] and record what it sees.

    Raises InputError at the operation that overflows.
    """
    profiler = Profiler(program, parameters, features)
    run = run_float(program, parameters, features, profiler.observe)
    return profiler.made(), run


def _in_order(parts: list[FloatArray]) -> FloatArray:
    values = np.concatenate(parts)
    parts.clear()
    values.sort()
    return values
