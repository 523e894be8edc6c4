"""What tests of one pointwise operator need: a program of it alone, its integers, ONNX's results, and all its executions."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.seedot import SeeDotLowering, SeeDotParameters
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.fixed_point.reference import Arrays, run_reference
from kilotune.evaluators.fixed_point.simulator import Backend, Simulator
from tests.codegen.emit.compiled import SANITISED, compile_sources
from tests.codegen.ir.examples import HERE

EXTREMES = (-1e6, -100.0, -4.0, -1.0, -1e-3, 0.0, 1e-3, 1.0, 4.0, 100.0, 1e6)


def one_operation(kind: type[ir.Pointwise], **parameters: float) -> ir.Program:
    """The operation on an input of 12 elements."""
    given = ir.Variable("X", (12,), ir.Role.INPUT, HERE)
    result = ir.Variable("y", (12,), ir.Role.TEMPORARY, HERE)
    operation = kind(ir.whole(result), HERE, ir.whole(given), **parameters)
    return ir.Program(kind.__name__, (given, result), (operation,), ir.whole(result), ir.ResultKind.REAL)


def integers_of(
    operation: ir.Pointwise, numbers: Sequence[int], bits: int, scale: int, rounding: Rounding
) -> list[int]:
    """The operator's integer function of numbers of so many bits at that scale."""
    found = operation.integer(Arrays(rounding, bits), np.array(numbers), operation.constants(bits, scale))
    return [int(number) for number in found]


def onnx_results(operator: str, numbers: FloatArray, **attributes: float) -> FloatArray:
    """What ONNX's own reference evaluator computes."""
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    node = helper.make_node(operator, ["x"], ["y"], **attributes)
    ends = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, [len(numbers)]) for name in "xy"]
    model = helper.make_model(helper.make_graph([node], "one", ends[:1], ends[1:]))
    return np.asarray(ReferenceEvaluator(model).run(None, {"x": numbers})[0])


def hard_features(random: np.random.Generator, samples: int) -> FloatArray:
    """Samples [samples, 12] of all sizes, the first of them at the ends."""
    features = random.normal(0, 1, (samples, 12)) * np.exp(random.uniform(-8, 8, (samples, 1)))
    features[0] = [*EXTREMES, 0.5]
    return features


def candidates(program: ir.Program, random: np.random.Generator, rounding: Rounding) -> list[FixedBatch]:
    """Two of Shiftry's, at widths and scales near and far, and SeeDot's of 8, 16 and 32 bits."""
    bits = random.choice([8, 16], (2, 2))
    batch = ShiftryLowering(program, {}, rounding).lower(bits, bits - 4 + random.integers(-14, 15, (2, 2)))
    lowering = SeeDotLowering(program, {"X": float(np.exp(random.uniform(-6, 6)))}, rounding)
    return [batch.one(0), batch.one(1), *(lowering.lower(SeeDotParameters(b, 8), {}) for b in (8, 16, 32))]


def assert_executions_agree(program: ir.Program, seed: int) -> None:
    """Reference, batch kernel and emitted C."""
    random = np.random.default_rng(seed)
    features = hard_features(random, 40)
    batches = candidates(program, random, list(Rounding)[seed % len(Rounding)])
    sources = [emit_c(one, {}, name=f"m{n}", function=f"predict{n}") for n, one in enumerate(batches)]
    with tempfile.TemporaryDirectory() as folder:
        compiled = compile_sources(sources, Path(folder), SANITISED)
        for number, one in enumerate(batches):
            expected = run_reference(one, {}, features)
            np.testing.assert_array_equal(compiled.run(number, features), expected[0], err_msg=sources[number].source)
            if one.bits.max() <= 16:
                found = Simulator(program, {}, features, Backend.NATIVE).run(one)
                np.testing.assert_array_equal(found, expected, err_msg="batch kernel")
