"""Products of two parameters, packed in codes or not: convolutions whose image is one, and products of matrices."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.shape import SHAPES
from kilotune.codegen.fixed.encoding import ParameterEncoding
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.evaluators.architectures.avr.run import AvrTarget
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.evaluators.simulated import of_emitted, quantised
from tests.codegen.emit.compiled import compile_sources, needs_compiler

HERE = ir.Location("net.sd", 1, 1)


PARAMETERS = {"W": (1, 2, 3, 2, 3), "P": (1, 5, 4, 2)}
RESULTS = (1, 4, 2, 3)
MATRICES: dict[str, tuple[tuple[int, int], dict[str, tuple[int, int]], tuple[int, int]]] = {
    "both": ((3, 5), {"P": (3, 20), "W": (20, 5)}, (3, 5)),
    "vector": ((3, 20), {"P": (20, 1)}, (3, 1)),
    "rows": ((5, 20), {"P": (3, 20)}, (3, 5)),
}
"""The shapes of the input, of the parameters and of the result."""

needs_avr = pytest.mark.skipif(
    shutil.which("avr-gcc") is None, reason="avr-gcc is not installed (apt install gcc-avr avr-libc)"
)


def convolved_parameter() -> ir.Program:
    """Parameter P convolved with W, plus the input."""
    x = ir.Variable("X", RESULTS, ir.Role.INPUT, HERE)
    w, p = (ir.Variable(name, shape, ir.Role.PARAMETER, HERE) for name, shape in PARAMETERS.items())
    y, z = (ir.Variable(name, RESULTS, ir.Role.TEMPORARY, HERE) for name in "yz")
    body = (
        ir.Conv2D(ir.whole(y), HERE, ir.whole(p), ir.whole(w)),
        ir.Add(ir.whole(z), HERE, ir.whole(y), ir.whole(x)),
    )
    return ir.Program("net", (x, w, p, y, z), body, ir.whole(z), ir.ResultKind.REAL)


def drawn() -> tuple[dict[str, FloatArray], FloatArray]:
    """Parameters, and features of three samples."""
    random = np.random.default_rng(0)
    parameters: dict[str, FloatArray] = {name: random.normal(0, 0.3, shape) for name, shape in PARAMETERS.items()}
    return parameters, random.normal(0, 1, (3, 24))


@needs_compiler
@pytest.mark.parametrize("shape", ["compact", "plain", "rows4"])
@pytest.mark.parametrize("weights", [-1, 0])
def test_codes_are_taken_apart_as_pixels_too(shape: str, weights: int) -> None:
    """Found by a reader: the C was given codes where it wanted pixels, and did not compile. `weights`: their encoding."""
    parameters, features = drawn()
    codes = np.array([[-1, weights, 0, -1, -1]], dtype=np.int32)
    lowering = ShiftryLowering(convolved_parameter(), {})
    batch = lowering.lower([[16, 8, 8, 16, 16]], [[12, 6, 6, 11, 11]], codes, (ParameterEncoding(2, 0),))
    source = emit_c(batch, parameters, shape=SHAPES[shape])
    with tempfile.TemporaryDirectory() as folder:
        found = compile_sources([source], Path(folder)).run(0, features)
    np.testing.assert_array_equal(found, run_reference(batch, parameters, features)[0])


def multiplied(case: str) -> ir.Program:
    """`both`: matrices P and W; `vector`: the input with parameter P; `rows`: parameter P with the rows of the input."""
    shape, parameters, result = MATRICES[case]
    x = ir.Variable("X", shape, ir.Role.INPUT, HERE)
    held = [ir.Variable(name, size, ir.Role.PARAMETER, HERE) for name, size in parameters.items()]
    y, z = (ir.Variable(name, result, ir.Role.TEMPORARY, HERE) for name in "yz")
    features = ir.whole(x)
    turned = dataclasses.replace(features, shape=features.shape[::-1], strides=features.strides[::-1])
    factors = {
        "both": [ir.whole(one) for one in held],
        "vector": [features, *map(ir.whole, held)],
        "rows": [*map(ir.whole, held), turned],
    }
    body: list[ir.Operation] = [ir.MatMul(ir.whole(y), HERE, *factors[case])]
    body.append(ir.Add(ir.whole(z), HERE, ir.whole(y), features if case == "both" else ir.whole(y)))
    return ir.Program("net", (x, *held, y, z), tuple(body), ir.whole(z), ir.ResultKind.REAL)


@needs_avr
@pytest.mark.parametrize("case", MATRICES)
@pytest.mark.parametrize("shape", ["plain", "rows4", "places2"])
@pytest.mark.parametrize("bits", [8, 16])
def test_an_avr_multiplies_what_lies_in_flash(case: str, shape: str, bits: int) -> None:
    """Found by readers: calls that take all rows of weights read the other factor as if it lay in RAM, and results were wrong."""
    size, shapes, _ = MATRICES[case]
    random = np.random.default_rng(3)
    parameters: dict[str, FloatArray] = {name: random.normal(0, 0.4, held) for name, held in shapes.items()}
    features: FloatArray = random.normal(0, 1, (3, size[0] * size[1]))
    held_bits, held_scales = [bits] * len(shapes), [bits - 2] * len(shapes)
    program = multiplied(case)
    batch = ShiftryLowering(program, {}).lower([[16, *held_bits, 16, 16]], [[12, *held_scales, 10, 10]])
    source = emit_c(batch, parameters, shape=SHAPES[shape])
    found = AvrTarget().run(of_emitted(source), quantised(source, features))[1].outputs
    np.testing.assert_array_equal(found, run_reference(batch, parameters, features)[0])


@needs_avr
@pytest.mark.parametrize("shape", ["plain", "rows4", "unrolled16"])
@pytest.mark.parametrize("bits", [8, 16])
def test_an_avr_reads_pixels_from_flash(shape: str, bits: int) -> None:
    """Found by a reader: shapes that copy windows copied pixels of a parameter as if they lay in RAM."""
    parameters, features = drawn()
    batch = ShiftryLowering(convolved_parameter(), {}).lower(
        [[16, bits, bits, 16, 16]], [[12, bits - 2, bits - 2, 11, 11]]
    )
    source = emit_c(batch, parameters, shape=SHAPES[shape])
    found = AvrTarget().run(of_emitted(source), quantised(source, features))[1].outputs
    np.testing.assert_array_equal(found, run_reference(batch, parameters, features)[0])
