"""Whether what a quantised program multiplies by ratios of scales fits integers of 32 bits, in which the emitted code does that."""

from __future__ import annotations

from collections.abc import Mapping

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.emit.ranges import largest_sums
from kilotune.codegen.fixed.quantised import lower_quantised


def check_scaled_sums(program: ir.Program, parameters: Mapping[str, FloatArray]) -> None:
    """InputError for a quantised program in which a sum or a product, of inputs that it may get, has no room in 32 bits: it names the
    file, the first such operation and the others, and what their largest magnitudes are."""
    sums = largest_sums(lower_quantised(program), parameters)
    errors = [_error(operation, sums.get(number, 0)) for number, operation in enumerate(ir.operations(program.body))]
    found = [error for error in errors if error is not None]
    if found:
        first, *others = found
        besides = [f"{error.place}: {error.found}" for error in others]
        raise InputError(
            first.path, place=first.place, line=first.line, column=first.column, expected=first.expected, found=first.found, besides=besides
        )  # fmt: skip


def _error(operation: ir.Operation, most: int) -> InputError | None:
    try:
        match operation:
            case ir.MatMul(completion=ir.Requantisation() as made) | ir.Conv2D(completion=ir.Requantisation() as made):
                ir.check_room(made.factors, most)
            case ir.QuantisedSum(factor=factor) | ir.QuantisedProduct(factor=factor):
                ir.check_room((factor,), operation.magnitude)
    except ValueError as error:
        expected, _, found = str(error).removeprefix("expected ").partition(", found ")
        return InputError.at(operation.location, "", expected, found)
    return None
