"""Products of many rows in one call, and several steps a round: the same integers as the definition's, from sanitized C."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.pairs import Blocks, blocks_for
from kilotune.codegen.emit.shape import SHAPES
from kilotune.codegen.emit.unrolled import divisor, steps_for
from kilotune.codegen.fixed.arithmetic import Accumulator
from kilotune.codegen.fixed.encoding import ParameterEncoding, RowShifts
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch, unencoded
from kilotune.evaluators.fixed_point.reference import run_reference
from tests.codegen.emit.compiled import compile_sources, needs_compiler
from tests.codegen.emit.random_programs import RandomModel, random_models, seedot_batches, shiftry_batches
from tests.codegen.emit.single_products import single_products
from tests.evaluators.devices.candidates import bundled

quick = settings(suppress_health_check=list(HealthCheck), database=None)
SANITIZED = ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all")


def assert_agrees(model: RandomModel, batch: FixedBatch, shape: str) -> str:
    source = emit_c(batch, model.parameters, shape=SHAPES[shape])
    with tempfile.TemporaryDirectory() as folder:
        outputs = compile_sources([source], Path(folder), SANITIZED).run(0, model.features)
    expected = run_reference(batch, model.parameters, model.features)[0]
    np.testing.assert_array_equal(outputs, expected, err_msg=source.source)
    return source.source


@needs_compiler
@pytest.mark.slow
@given(made=single_products(), shape=st.sampled_from(sorted(SHAPES)))
@settings(quick, max_examples=12)
def test_single_products_agree(made: tuple[RandomModel, FixedBatch], shape: str) -> None:
    model, batch = made
    assert_agrees(model, batch, shape)


def test_every_product_of_a_network_is_taken_so() -> None:
    """Both convolutions and the dense layer of LeNet, and neither plainly nor where codes are packed."""
    candidate = bundled("lenet-digits", samples=1, seed=3)
    by_rows = emit_c(candidate.batch, candidate.parameters, shape=SHAPES["rows4"]).source
    body = by_rows[by_rows.index("int predict(") :]
    products = [o for o in ir.operations(candidate.batch.program.body) if isinstance(o, ir.Product)]
    assert body.count("kt_sums_") == len(products) > 2
    assert "kt_dot_" not in by_rows
    assert "kt_sums_" not in candidate.source.source


@needs_compiler
@pytest.mark.parametrize(("features", "named"), [(16, "kt_sums_flash8i_ram16"), (8, "kt_sums_flash8_ram8")])
def test_weights_are_interleaved_where_features_have_16_bits(features: int, named: str) -> None:
    assert named in assert_agrees(*_twice_multiplied(features, shared=False), "rows4")


@needs_compiler
def test_weights_that_are_read_otherwise_too_are_not_interleaved() -> None:
    assert "flash8i" not in assert_agrees(*_twice_multiplied(16, shared=True), "rows4")


@needs_compiler
@pytest.mark.parametrize(("coded", "named"), [("W", "kt_sums_flash8i_flash16"), ("P", "kt_sums_flash16_flash8")])
def test_codes_of_rows_are_interleaved_as_they_are_read(coded: str, named: str) -> None:
    """Of 16 bits by what they stand for, of 8 where a call reads them."""
    here = ir.Location("codes.sd", 1, 1)
    shapes = {"P": (3, 8), "W": (8, 6), "X": (3, 6), "Y": (3, 6), "R": (3, 6)}
    roles = {"P": ir.Role.PARAMETER, "W": ir.Role.PARAMETER, "X": ir.Role.INPUT}
    made = {name: ir.Variable(name, shape, roles.get(name, ir.Role.TEMPORARY), here) for name, shape in shapes.items()}
    v = {name: ir.whole(variable) for name, variable in made.items()}
    body = (ir.MatMul(v["Y"], here, v["P"], v["W"], sparse=False), ir.Add(v["R"], here, v["Y"], v["X"]))
    program = ir.Program("codes", tuple(made.values()), body, v["R"], ir.ResultKind.REAL)
    random = np.random.default_rng(3)
    parameters = {name: random.uniform(-1, 1, shapes[name]) for name in "PW"}
    model = RandomModel(program, parameters, random.uniform(-1, 1, (3, 18)))
    rows = RowShifts((0,), (1, 0, 2)) if coded == "P" else RowShifts((1,), (1, 0, 2, 0, 1, 0))
    encoded = unencoded((1, 5))
    encoded[0, "PW".index(coded)] = 0
    lowering = ShiftryLowering(program, {}, accumulator=Accumulator.WIDE)
    batch = lowering.lower([[16] * 5], [[14, 14, 10, 10, 10]], encoded, (ParameterEncoding(8, 0, rows=rows),))
    assert f"{named}(" in assert_agrees(model, batch, "rows4")


@needs_compiler
def test_weights_that_are_returned_are_not_interleaved() -> None:
    model, batch = _twice_multiplied(16, shared=False)
    returned = ir.whole(next(v for v in model.program.variables if v.name == "W"))
    program = dataclasses.replace(model.program, result=returned)
    model = dataclasses.replace(model, program=program)
    assert "flash8i" not in assert_agrees(model, dataclasses.replace(batch, program=program), "rows4")


def _twice_multiplied(features: int, *, shared: bool) -> tuple[RandomModel, FixedBatch]:
    """Weights of 8 bits times features; `shared`: and then, element by element, times themselves."""
    here = ir.Location("product.sd", 1, 1)
    shapes = {"W": (6, 11), "X": (11, 1), "Y": (6, 1), "Z": (6, 11), "R": (6, 1)}
    roles = {"W": ir.Role.PARAMETER, "X": ir.Role.INPUT}
    made = {name: ir.Variable(name, shape, roles.get(name, ir.Role.TEMPORARY), here) for name, shape in shapes.items()}
    v = {name: ir.whole(variable) for name, variable in made.items()}
    body: list[ir.Statement] = [ir.MatMul(v["Y"], here, v["W"], v["X"], sparse=False)]
    names, result = ["W", "X", "Y"], "Y"
    if shared:
        body += [ir.Multiply(v["Z"], here, v["W"], v["W"]), ir.MatMul(v["R"], here, v["Z"], v["X"], sparse=False)]
        names, result = list(shapes), "R"
    program = ir.Program("product", tuple(made[name] for name in names), tuple(body), v[result], ir.ResultKind.REAL)
    random = np.random.default_rng(features)
    model = RandomModel(program, {"W": random.uniform(-2, 2, (6, 11))}, random.uniform(-2, 2, (4, 11)))
    widths = [8 if name == "W" else features if name == "X" else 16 for name in names]
    return model, ShiftryLowering(program, {}).lower([widths], [[5 if w == 8 else 11 for w in widths]])


@needs_compiler
def test_two_places_of_a_convolution_over_its_image() -> None:
    """Results lie over the image in RAM, and those of the second place are written while the first is still read: both are copied."""
    here = ir.Location("pointwise.sd", 1, 1)
    shapes = {"X": (1, 2, 4, 6), "A": (1, 2, 4, 6), "W": (1, 1, 1, 6, 4), "Y": (1, 2, 4, 4)}
    roles = {"X": ir.Role.INPUT, "A": ir.Role.TEMPORARY, "W": ir.Role.PARAMETER, "Y": ir.Role.TEMPORARY}
    made = {name: ir.Variable(name, shape, roles[name], here) for name, shape in shapes.items()}
    views = {name: ir.whole(variable) for name, variable in made.items()}
    relu = ir.Relu(views["A"], here, views["X"])
    body = (relu, ir.Conv2D(views["Y"], here, views["A"], views["W"], (1, 1), (0, 0, 0, 0)))
    program = ir.Program("pointwise", tuple(made.values()), body, views["Y"], ir.ResultKind.REAL)
    random = np.random.default_rng(0)
    model = RandomModel(program, {"W": random.uniform(-2, 2, shapes["W"])}, random.uniform(0, 2, (3, 48)))
    batch = ShiftryLowering(program, {}).lower([[8] * 4], [[6, 6, 6, 4]])
    emitted = emit_c(batch, model.parameters, shape=SHAPES["places2"])
    assert emitted.variable_bytes < 48 + 32
    assert "kt_copy8(" in assert_agrees(model, batch, "places2")
    assert "kt_copy8(" not in assert_agrees(model, batch, "rows4")
    apart = emit_c(batch, model.parameters, shape=SHAPES["places2"], in_place=False).source
    assert "kt_sums2_" in apart
    assert "kt_copy8(" not in apart


@needs_compiler
@pytest.mark.slow
@given(data=st.data(), model=random_models())
@settings(quick, max_examples=8)
def test_random_programs_agree(data: st.DataObject, model: RandomModel) -> None:
    drawn = data.draw(st.sampled_from([shiftry_batches(model.program, 1), seedot_batches(model.program)]))
    assert_agrees(model, data.draw(drawn), data.draw(st.sampled_from(["rows2", "unrolled8"])))


@pytest.mark.parametrize(
    ("most", "calls", "wanted"),
    [
        (4, [(64, 32), (32, 16), (16, 10)], Blocks((4, 2), False)),
        (4, [(9, 6), (54, 12)], Blocks((4, 2), True)),
        (4, [(8, 4)], Blocks((4,), False)),
        (4, [(8, 7)], Blocks((4, 2, 1), False)),
        (2, [(8, 8)], Blocks((2,), False)),
        (2, [(8, 3)], Blocks((2, 1), False)),
        (1, [(6, 3)], Blocks((1,), True)),
    ],
)
def test_only_blocks_that_some_call_needs(most: int, calls: list[tuple[int, int]], wanted: Blocks) -> None:
    assert blocks_for(most, calls) == wanted


@pytest.mark.parametrize(
    ("most", "lengths", "wanted"),
    [
        (16, {64: 32, 32: 16, 16: 10}, 16),
        (8, {64: 32, 32: 16, 16: 10}, 8),
        (16, {9: 384, 48: 10}, 9),  # 48 leave three over, the nine of many runs nothing
        (16, {8: 48, 16: 48}, 8),
        (16, {6: 64, 16: 32}, 6),  # 16 leave four over, in a call; 16 steps would take six one by one
        (16, {18: 10}, 9),  # two rounds and no call; 16 would leave two over
    ],
)
def test_steps_that_take_the_fewest_rounds(most: int, lengths: dict[int, int], wanted: int) -> None:
    assert steps_for(most, lengths) == wanted


@pytest.mark.parametrize(("count", "wanted"), [(6, 6), (16, 16), (32, 16), (18, 9), (3, 0), (34, 0), (1, 0)])
def test_a_round_of_channels_leaves_none_over(count: int, wanted: int) -> None:
    assert divisor(16, count) == wanted
