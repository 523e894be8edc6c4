"""Operators are a closed set: everybody who tells them apart knows all of them, and refuses what is none of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.floats import emit_float_c
from kilotune.codegen.emit.ranges import intervals
from kilotune.codegen.fixed.footprint import Footprint
from kilotune.codegen.fixed.seedot import SeeDotLowering, SeeDotParameters
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.hazards import find_hazard
from kilotune.codegen.in_place import write_orders
from kilotune.codegen.interference import find_interference
from kilotune.codegen.looped_steps import loop_steps
from kilotune.codegen.placement import Placer
from kilotune.evaluators.cost_counts import CostFeatures
from kilotune.evaluators.fixed_point.kernel import load_kernel
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.evaluators.fixed_point.simulator import Backend, Simulator
from tests.codegen.emit.compiled import needs_compiler
from tests.codegen.ir.examples import HERE, SHAPES, example, operators

Model = tuple[ir.Program, dict[str, FloatArray], FloatArray]


def shiftry(model: Model) -> FixedBatch:
    width = len(model[0].variables)
    return ShiftryLowering(model[0], {}).lower(np.full((1, width), 16), np.full((1, width), 10))


def seedot(model: Model) -> FixedBatch:
    program = model[0]
    magnitudes = {v.name: 4.0 for v in program.variables}
    return SeeDotLowering(program, magnitudes).lower(SeeDotParameters(16, 8), {0: (-1.0, 1.0), 1: (-1.0, 1.0)})


def counted(model: Model) -> None:
    """Both lowerings' rows are counted, and the operation is more than nothing."""
    for batch in (shiftry(model), seedot(model)):
        assert CostFeatures(model[0], model[1]).terms(batch).matrix().sum() > 12


CONSUMERS: dict[str, Callable[[Model], object]] = {
    "straight line": lambda m: list(loop_steps(m[0])),
    "in-place orders": lambda m: write_orders(loop_steps(m[0])),
    "hazards": lambda m: find_hazard(loop_steps(m[0])),
    "float evaluator": lambda m: run_float(*m),
    "SeeDot lowering": seedot,
    "Shiftry lowering": shiftry,
    "footprint": lambda m: Footprint(m[0], m[1]).operation_counts(shiftry(m)),
    "reference simulator": lambda m: run_reference(shiftry(m), m[1], m[2]),
    "emitted integers": lambda m: emit_c(seedot(m), m[1]),
    "emitted floats": lambda m: emit_float_c(m[0], m[1]),
    "ranges": lambda m: intervals(shiftry(m), m[1]),
    "cost counts": counted,
}
"""Everybody who asks what an operation is; the batch kernel is asked below."""


def test_every_operator_has_an_example() -> None:
    assert set(SHAPES) == set(operators())


@pytest.mark.parametrize("consumer", CONSUMERS)
@pytest.mark.parametrize("kind", operators(), ids=lambda kind: kind.__name__)
def test_everybody_knows_every_operator(consumer: str, kind: type[ir.Operation]) -> None:
    """The name of a failing test says who does not know which operator."""
    CONSUMERS[consumer](example(kind))


@needs_compiler
@pytest.mark.parametrize("kind", operators(), ids=lambda kind: kind.__name__)
def test_the_kernel_executes_every_operator(kind: type[ir.Operation]) -> None:
    model = example(kind)
    for batch in (shiftry(model), seedot(model)):
        found = Simulator(*model, Backend.NATIVE).run(batch)
        np.testing.assert_array_equal(found, run_reference(batch, model[1], model[2]))


@needs_compiler
def test_the_kernel_names_what_it_does_not_execute() -> None:
    kernel = load_kernel()
    assert kernel is not None
    with pytest.raises(LookupError, match="executes no Reversal"):
        kernel.opcode("Reversal")


@dataclass(frozen=True)
class Reversal(ir.OperationBase):
    """As many elements as its operand, visited in another order than any known operation does."""

    a: ir.View


def reversal() -> ir.Program:
    given = ir.Variable("X", (6,), ir.Role.INPUT, HERE)
    held, turned = (ir.Variable(name, (6,), ir.Role.TEMPORARY, HERE) for name in ("held", "turned"))
    body = (
        ir.Copy(ir.whole(held), HERE, ir.whole(given)),
        Reversal(ir.whole(turned), HERE, ir.whole(held)),
    )
    return ir.Program("reversal", (given, held, turned), body, ir.whole(turned), ir.ResultKind.REAL)  # type: ignore[arg-type]


def test_an_unknown_operation_is_not_placed_over_its_operand() -> None:
    """It was taken for an elementwise one, so that its result was written over elements that it had still to read."""
    with pytest.raises(AssertionError, match="Reversal"):
        Placer(find_interference(reversal())).place({"X": 8, "held": 8, "turned": 8})


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_nobody_takes_an_unknown_operation_for_another(consumer: str) -> None:
    if consumer == "footprint":
        pytest.skip("operations say themselves how much they compute")
    with pytest.raises(AssertionError, match="Reversal"):
        CONSUMERS[consumer]((reversal(), {}, np.zeros((1, 6))))
