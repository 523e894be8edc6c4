"""Layers of a convolutional network that share functions in compact code: the same results, whatever tells the layers apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.emit.c import CSource, emit_c
from kilotune.codegen.emit.common_windows import told_apart
from kilotune.codegen.emit.shape import SHAPES
from kilotune.codegen.fixed.arithmetic import Accumulator
from kilotune.codegen.fixed.encoding import ParameterEncoding, RowShifts
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.fixed_point.reference import run_reference
from tests.codegen.emit.compiled import compile_sources, needs_compiler
from tests.codegen.emit.random_programs import RandomModel

_HERE = ir.Location("layers.sd", 1, 1)
LAYERS = {
    "as in LeNet": ((8, 8, 1), [((3, 3), 1, (1, 1, 1, 1), 6), ((3, 3), 1, (1, 1, 1, 1), 4)]),
    "not square": ((9, 6, 2), [((3, 2), 1, (1, 1, 0, 1), 3), ((2, 3), 1, (0, 1, 1, 1), 2)]),
    "with strides": ((11, 11, 1), [((3, 3), 2, (1, 1, 1, 1), 2), ((3, 3), 1, (2, 1, 1, 2), 3)]),
    "smaller than a kernel": ((4, 4, 1), [((5, 5), 1, (2, 2, 2, 2), 3), ((5, 5), 1, (2, 2, 2, 2), 2)]),
}
"""The image and two convolutions, each with a pool of 2 x 2 behind it: kernel, stride, padding, filters."""


def network(name: str) -> RandomModel:
    shape, layers = LAYERS[name]
    random = np.random.default_rng(len(name))
    variables = [ir.Variable("x", (1, *shape), ir.Role.INPUT, _HERE)]
    parameters, body = {}, list[ir.Statement]()
    for number, (kernel, stride, padding, filters) in enumerate(layers):
        image = variables[-1]
        weights = (1, *kernel, image.shape[3], filters)
        size = [(image.shape[1 + k] + sum(padding[2 * k : 2 * k + 2]) - kernel[k]) // stride + 1 for k in (0, 1)]
        parameters[f"w{number}"] = random.uniform(-2, 2, weights)
        w = ir.Variable(f"w{number}", weights, ir.Role.PARAMETER, _HERE)
        y = ir.Variable(f"y{number}", (1, *size, filters), ir.Role.TEMPORARY, _HERE)
        p = ir.Variable(f"p{number}", (1, size[0] // 2, size[1] // 2, filters), ir.Role.TEMPORARY, _HERE)
        body.append(ir.Conv2D(ir.whole(y), _HERE, ir.whole(image), ir.whole(w), (stride, stride), padding))
        body.append(ir.MaxPool(ir.whole(p), _HERE, ir.whole(y), (2, 2), (2, 2)))
        variables += [w, y, p]
    program = ir.Program("layers", tuple(variables), tuple(body), ir.whole(variables[-1]), ir.ResultKind.REAL)
    return RandomModel(program, parameters, random.uniform(-2, 2, (4, variables[0].size)))


def candidate(model: RandomModel, encoding: ParameterEncoding | None) -> FixedBatch:
    """Of 8 bits, with weights that are stored so."""
    variables = model.program.variables
    encoded = np.array([[0 if encoding and v.role is ir.Role.PARAMETER else -1 for v in variables]], dtype=np.int32)
    scales = [5 if v.role is not ir.Role.TEMPORARY else 3 for v in variables]
    encodings = (encoding,) if encoding else ()
    return ShiftryLowering(model.program, {}).lower([[8] * len(variables)], [scales], encoded, encodings)


def compact(model: RandomModel, batch: FixedBatch, number: int) -> CSource:
    return emit_c(batch, model.parameters, shape=SHAPES["compact"], name=f"m{number}", function=f"f{number}")


@needs_compiler
@pytest.mark.parametrize(
    "encoding", [None, ParameterEncoding(4), ParameterEncoding(4, codebook=True), ParameterEncoding(6, 1)]
)
def test_layers_that_share_functions_compute_the_definition(encoding: ParameterEncoding | None, tmp_path: Path) -> None:
    models = [network(name) for name in LAYERS]
    batches = [candidate(model, encoding) for model in models]
    sources = [compact(model, batch, n) for n, (model, batch) in enumerate(zip(models, batches, strict=True))]
    built = compile_sources(sources, tmp_path, ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all"))
    for number, (model, batch) in enumerate(zip(models, batches, strict=True)):
        expected = run_reference(batch, model.parameters, model.features)[0]
        assert len(np.unique(expected)) > 3
        np.testing.assert_array_equal(built.run(number, model.features), expected)


_FILTERS = (2, 2, 4, 5)


def mixed_layers(given: Sequence[str]) -> tuple[RandomModel, FixedBatch]:
    """Four convolutions that a function may have in common, the last two of images with other numbers of channels. `given`: whose weights
    are bytes ("bytes"), and whose are codes of 8 bits with rows of their own scales ("rows")."""
    random, variables = np.random.default_rng(7), [ir.Variable("x", (1, 6, 6, 2), ir.Role.INPUT, _HERE)]
    parameters, body, bits, encoded, encodings = {}, list[ir.Statement](), {}, {}, []
    for number, (form, filters) in enumerate(zip(given, _FILTERS, strict=True)):
        image, name, shape = variables[-1], f"w{number}", (1, 3, 3, variables[-1].shape[3], filters)
        w = ir.Variable(name, shape, ir.Role.PARAMETER, _HERE)
        y = ir.Variable(f"y{number}", (1, 6, 6, filters), ir.Role.TEMPORARY, _HERE)
        parameters[name], bits[name] = random.uniform(-2, 2, shape), 16 if form == "rows" else 8
        encoded[name] = number if form == "rows" else -1
        encodings.append(ParameterEncoding(8, rows=RowShifts((0, 4), (1, *[0] * (filters - 1)))))
        body.append(ir.Conv2D(ir.whole(y), _HERE, ir.whole(image), ir.whole(w), (1, 1), (1, 1, 1, 1)))
        variables += [w, y]
    program = ir.Program("mixed", tuple(variables), tuple(body), ir.whole(variables[-1]), ir.ResultKind.REAL)
    batch = ShiftryLowering(program, {}, accumulator=Accumulator.WIDE).lower(
        [[bits.get(v.name, 16) for v in variables]],
        [[4 if v.role is ir.Role.PARAMETER else 8 for v in variables]],
        np.array([[encoded.get(v.name, -1) for v in variables]], dtype=np.int32),
        tuple(encodings),
    )
    return RandomModel(program, parameters, random.uniform(-2, 2, (4, 72))), batch


@needs_compiler
@pytest.mark.parametrize(
    "given",
    [
        ("bytes", "bytes", "bytes", "rows"),
        ("rows", "bytes", "rows", "rows"),
        ("bytes", "rows", "bytes", "bytes"),
    ],
)
def test_layers_of_one_function_have_its_numbers(given: Sequence[str], tmp_path: Path) -> None:
    """Weights that are bytes and weights that are codes of bytes call functions of one name, of which there is one."""
    model, batch = mixed_layers(given)
    source = compact(model, batch, 0)
    assert "kt_window_ram16_" in source.source
    built = compile_sources([source], tmp_path, ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all"))
    expected = run_reference(batch, model.parameters, model.features)[0]
    assert len(np.unique(expected)) > 3
    np.testing.assert_array_equal(built.run(0, model.features), expected)


@needs_compiler
def test_pools_of_reversed_channels_have_loops_of_their_own(tmp_path: Path) -> None:
    """A slice that counts backward is read so."""
    shapes = {"x": (1, 6, 6, 2), "image": (1, 6, 6, 2), "p": (1, 3, 3, 2), "q": (1, 2, 2, 2)}
    v = {n: ir.Variable(n, s, ir.Role.INPUT if n == "x" else ir.Role.TEMPORARY, _HERE) for n, s in shapes.items()}
    reversed_of = {
        n: ir.View(n, shapes[n], (*ir.row_major_strides(shapes[n])[:3], -1), ir.Affine(1)) for n in ("image", "p")
    }
    body = (
        ir.Relu(ir.whole(v["image"]), _HERE, ir.whole(v["x"])),
        ir.MaxPool(ir.whole(v["p"]), _HERE, reversed_of["image"], (2, 2), (2, 2)),
        ir.MaxPool(ir.whole(v["q"]), _HERE, reversed_of["p"], (2, 2), (1, 1)),
    )
    program = ir.Program("turned", tuple(v.values()), body, ir.whole(v["q"]), ir.ResultKind.REAL)
    model = RandomModel(program, {}, np.random.default_rng(3).uniform(-2, 2, (4, 72)))
    batch = ShiftryLowering(program, {}).lower([[8] * 4], [[5] * 4])
    built = compile_sources([compact(model, batch, 0)], tmp_path, ("-O1",))
    np.testing.assert_array_equal(built.run(0, model.features), run_reference(batch, {}, model.features)[0])


def test_a_second_layer_is_a_call() -> None:
    model = network("as in LeNet")
    text = compact(model, candidate(model, ParameterEncoding(4)), 0).source
    for name in ("kt_window_ram8_ram8_16", "kt_pool8", "kt_unpack_codes8_4"):
        assert text.count(f" {name}(") + text.count(f"\t{name}(") >= 3, name
        assert text.count(f"KT_NOINLINE void {name}(") + text.count(f"KT_NOINLINE uint16_t {name}(") == 1
    plain = emit_c(candidate(model, None), model.parameters).source
    assert "kt_window" not in plain
    assert "kt_pool" not in plain


def test_equal_numbers_are_one_argument() -> None:
    layers = [{"a": 1, "b": 8, "c": 8, "d": 3}, {"a": 6, "b": 4, "c": 4, "d": 3}]
    first, second = (told_apart(layers, one) for one in layers)
    assert first.texts == second.texts == {"a": "n0", "b": "n1", "c": "n1", "d": "3"}
    assert (first.passed(), second.passed()) == (", 1, 8", ", 6, 4")
    assert first.declared() == ", uint8_t n0, uint8_t n1"
