"""What the float program's variables look like on the training data (Shiftry Algorithm 10, `Profile`)."""

from __future__ import annotations

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


def profile(
    program: ir.Program, parameters: Mapping[str, FloatArray], features: FloatArray
) -> tuple[Profile, FloatRun]:
    """Run the float program on `features` [samples, features] and record what it sees.

    Raises InputError at the operation that overflows.
    """
    minimum: dict[str, float] = {}
    maximum: dict[str, float] = {}
    exponents: dict[int, list[FloatArray]] = {}

    def widen(name: str, values: FloatArray) -> None:
        minimum[name] = min(minimum.get(name, np.inf), float(values.min()))
        maximum[name] = max(maximum.get(name, -np.inf), float(values.max()))

    def observe(step: OperationInstance, written: FloatArray, read: Sequence[FloatArray]) -> None:
        if not np.isfinite(written).all():
            subject = type(step.operation).__name__.lower()
            raise InputError.at(
                step.operation.location, subject, "finite values on the training data", "infinity or NaN"
            )
        widen(step.operation.out.variable, written)
        if isinstance(step.operation, ir.Exp):
            exponents.setdefault(step.row, []).append(read[0].reshape(-1))

    for variable in program.variables:
        if variable.role is ir.Role.PARAMETER:
            widen(variable.name, np.asarray(parameters[variable.name], dtype=np.float64))
        elif variable.role is ir.Role.INPUT:
            widen(variable.name, features)
    run = run_float(program, parameters, features, observe)
    return Profile(minimum, maximum, {row: _in_order(parts) for row, parts in exponents.items()}), run


def _in_order(parts: list[FloatArray]) -> FloatArray:
    values = np.concatenate(parts)
    parts.clear()
    values.sort()
    return values
