"""Programs of one product: matrices and convolutions of random sizes, whose sums are long and are not divided."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.fixed.arithmetic import Accumulator
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch
from tests.codegen.emit.random_programs import RandomModel

_HERE = ir.Location("product.sd", 1, 1)


@st.composite
def single_products(draw: st.DrawFn) -> tuple[RandomModel, FixedBatch]:
    """A product of weights and the input, of 8 or 16 bits each, on three samples at the ends of their widths."""
    random = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    made = draw(st.sampled_from([_matrix, _vector, _convolution, _depthwise]))
    weights, given, written, build = made(draw)
    variables = {
        name: ir.Variable(name, shape, role, _HERE)
        for name, shape, role in (
            ("W", weights, ir.Role.PARAMETER),
            ("X", given, ir.Role.INPUT),
            ("Y", written, ir.Role.TEMPORARY),
        )
    }
    views = {name: ir.whole(variable) for name, variable in variables.items()}
    program = ir.Program("product", tuple(variables.values()), (build(views),), views["Y"], ir.ResultKind.REAL)
    widths = [draw(st.sampled_from([8, 16])) for _ in range(3)]
    features = random.uniform(-2.0, 2.0, (3, ir.count_elements(given)))
    model = RandomModel(program, {"W": random.uniform(-2.0, 2.0, weights)}, features)
    wanted = [widths[0] - 2, widths[1] - 2, draw(st.integers(0, widths[2] - 3))]
    return model, ShiftryLowering(program, {}).lower([widths], [wanted])


def matrix_times_input(
    widths: tuple[int, int], terms: int, accumulator: Accumulator = Accumulator.DOUBLE
) -> tuple[RandomModel, FixedBatch]:
    """Three rows of weights of one width times an input of another, at the ends of both."""
    random = np.random.default_rng(terms)
    shapes = {"W": (3, terms), "X": (terms, 1), "Y": (3, 1)}
    roles = {"W": ir.Role.PARAMETER, "X": ir.Role.INPUT, "Y": ir.Role.TEMPORARY}
    variables = {name: ir.Variable(name, shape, roles[name], _HERE) for name, shape in shapes.items()}
    views = {name: ir.whole(variable) for name, variable in variables.items()}
    body = (ir.MatMul(views["Y"], _HERE, views["W"], views["X"], sparse=False),)
    program = ir.Program("product", tuple(variables.values()), body, views["Y"], ir.ResultKind.REAL)
    model = RandomModel(
        program, {"W": random.choice([-1.0, 0.99, 0.3], (3, terms))}, random.choice([-1.0, 0.99, 0.2], (4, terms))
    )
    lowering = ShiftryLowering(program, {}, accumulator=accumulator)
    return model, lowering.lower([[*widths, 16]], [[widths[0] - 1, widths[1] - 1, sum(widths) - 9]])


def _matrix(draw: st.DrawFn):  # type: ignore[no-untyped-def]
    rows, terms, columns = draw(st.integers(1, 11)), draw(st.integers(2, 21)), draw(st.integers(1, 2))
    return (
        (rows, terms),
        (terms, columns),
        (rows, columns),
        lambda v: ir.MatMul(v["Y"], _HERE, v["W"], v["X"], sparse=False),
    )


def _vector(draw: st.DrawFn):  # type: ignore[no-untyped-def]
    rows, terms, columns = draw(st.integers(1, 2)), draw(st.integers(2, 21)), draw(st.integers(2, 11))
    return (
        (terms, columns),
        (rows, terms),
        (rows, columns),
        lambda v: ir.MatMul(v["Y"], _HERE, v["X"], v["W"], sparse=False),
    )


def _convolution(draw: st.DrawFn):  # type: ignore[no-untyped-def]
    return _convolved(draw, 1, draw(st.integers(1, 3)), draw(st.integers(1, 7)))


def _depthwise(draw: st.DrawFn):  # type: ignore[no-untyped-def]
    return _convolved(draw, draw(st.integers(2, 6)), 1, 1)


def _convolved(draw: st.DrawFn, groups: int, channels: int, filters: int):  # type: ignore[no-untyped-def]
    stride = draw(st.integers(1, 2))
    kernel = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    image = draw(st.integers(3, 6)), draw(st.integers(3, 6))
    before, after = (draw(st.integers(0, min(kernel) + draw(st.sampled_from([-1, 1])))) for _ in range(2))
    out = tuple((extent + before + after - size) // stride + 1 for extent, size in zip(image, kernel, strict=True))
    return (
        (groups, *kernel, channels, filters),
        (1, *image, groups * channels),
        (1, *out, groups * filters),
        lambda v: ir.Conv2D(
            v["Y"], _HERE, v["X"], v["W"], (stride, stride), (before, after, before, after), groups=groups
        ),
    )
