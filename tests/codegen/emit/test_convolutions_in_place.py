"""Convolutions whose results lie over the image that they read, in every code shape and going either way: the definition's integers."""

from __future__ import annotations

import itertools
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.shape import SHAPES
from kilotune.codegen.fixed.encoding import ParameterEncoding
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.interference import find_interference
from kilotune.codegen.placement import Placer
from kilotune.evaluators.fixed_point.reference import run_reference
from tests.codegen.emit.compiled import compile_sources, needs_compiler
from tests.codegen.emit.random_programs import RandomModel
from tests.codegen.emit.test_blocks import SANITIZED
from tests.codegen.emit.test_walking_frames import compiled
from tests.codegen.placement.test_clobbering import any_valid_placement

HERE = ir.Location("images.sd", 1, 1)
Layer = tuple[str, int, int]
"""The kind of a convolution, the side of its kernel, and its stride."""


def network(
    layers: list[Layer], bits: list[int], seed: int, *, packed: bool = False, direct: bool = False
) -> tuple[RandomModel, FixedBatch]:
    """The input's Relu and convolutions of it one after the other, padded to whole windows, with the widths of their results; `direct`:
    convolutions of the input itself."""
    random = np.random.default_rng(seed)
    sides = [int(random.integers(3, 7)) for _ in range(2)]
    channels = int(random.integers(1, 4)) * 2
    variables = [
        ir.Variable("X", (1, *sides, channels), ir.Role.INPUT, HERE),
        ir.Variable("A0", (1, *sides, channels), ir.Role.TEMPORARY, HERE),
    ]
    body: list[ir.Operation] = [ir.Relu(ir.whole(variables[1]), HERE, ir.whole(variables[0]))]
    if direct:
        del variables[1], body[0]
    parameters, image = {}, variables[-1]
    for number, (kind, side, stride) in enumerate(layers, start=1):
        groups = {"ordinary": 1, "depthwise": channels, "grouped": 2}[kind]
        filters = {"ordinary": int(random.integers(1, 7)) * 2, "depthwise": 1, "grouped": 3}[kind]
        padding = [int(random.integers(0, side)) for _ in range(4)]
        padding[1] += max(0, side - sides[0] - padding[0] - padding[1])
        padding[3] += max(0, side - sides[1] - padding[2] - padding[3])
        sides = [(n + sum(padding[2 * k : 2 * k + 2]) - side) // stride + 1 for k, n in enumerate(sides)]
        w = ir.Variable(f"W{number}", (groups, side, side, channels // groups, filters), ir.Role.PARAMETER, HERE)
        channels = groups * filters
        out = ir.Variable(f"A{number}", (1, *sides, channels), ir.Role.TEMPORARY, HERE)
        around = (padding[0], padding[1], padding[2], padding[3])
        views = ir.whole(out), HERE, ir.whole(image), ir.whole(w)
        body.append(ir.Conv2D(*views, (stride, stride), around, groups=groups))
        parameters[w.name] = random.uniform(-1, 1, w.shape)
        variables += [w, out]
        image = out
    program = ir.Program("images", tuple(variables), tuple(body), ir.whole(image), ir.ResultKind.REAL)
    model = RandomModel(program, parameters, random.uniform(-1, 1, (3, variables[0].size)))
    widths = [
        8 if v.role is ir.Role.PARAMETER else bits[0] if v.name in "XA0" else bits[int(v.name[1])] for v in variables
    ]
    scales = [width - 2 - (v.role is ir.Role.TEMPORARY) for v, width in zip(variables, widths, strict=True)]
    codes = np.array([[0 if packed and v.role is ir.Role.PARAMETER else -1 for v in variables]], dtype=np.int32)
    encodings = (ParameterEncoding(4, 4),) if packed else ()
    return model, ShiftryLowering(program, {}).lower([widths], [scales], codes if packed else None, encodings)


def backward_loops(model: RandomModel, batch: FixedBatch, shapes: Sequence[str], seed: int | None = None) -> list[int]:
    """How many loops run backward in each shape, placed as programs are and, with a `seed`, twice at random. AssertionError where outputs
    are not the definition's."""
    placer = Placer(find_interference(model.program))
    bits = {v.name: int(b) for v, b in zip(model.program.variables, batch.bits[0], strict=True)}
    placements = [{}, *([] if seed is None else [any_valid_placement(placer, bits, seed + turn) for turn in range(2)])]
    sources = [
        emit_c(batch, model.parameters, placement, shape=SHAPES[shape], name=f"m{n}", function=f"predict{n}")
        for n, (placement, shape) in enumerate(itertools.product(placements, shapes))
    ]
    expected = run_reference(batch, model.parameters, model.features)[0]
    with tempfile.TemporaryDirectory() as folder:
        compiled = compile_sources(sources, Path(folder), SANITIZED)
        for number, source in enumerate(sources):
            np.testing.assert_array_equal(compiled.run(number, model.features), expected, err_msg=source.source)
    return [len(re.findall(r"\bi[12]-- > 0", source.source)) for source in sources]


@needs_compiler
@pytest.mark.slow
@given(
    layers=st.lists(
        st.tuples(st.sampled_from(["ordinary", "depthwise", "grouped"]), st.integers(1, 3), st.integers(1, 2)),
        min_size=1,
        max_size=3,
    ),
    bits=st.lists(st.sampled_from([8, 16]), min_size=4, max_size=4),
    seed=st.integers(0, 2**32 - 1),
    packed=st.booleans(),
    shape=st.sampled_from(sorted(SHAPES)),
)
@settings(suppress_health_check=list(HealthCheck), database=None, deadline=None, max_examples=4)
def test_random_convolutions_over_their_images(
    layers: list[Layer], bits: list[int], seed: int, packed: bool, shape: str
) -> None:
    model, batch = network(layers, bits, seed, packed=packed)
    backward_loops(model, batch, [shape], seed)


@needs_compiler
@pytest.mark.parametrize(("kind", "backward"), [("ordinary", 2), ("depthwise", 3), ("grouped", 2)])
def test_both_ways_however_they_are_written(kind: str, backward: int) -> None:
    """Two or all of three convolutions go backward over their rows and columns, in the room of one image and little more."""
    model, batch = network([(kind, 3, 1)] * 3, [16] * 4, 4)
    assert backward_loops(model, batch, ["plain", "places2", "unrolled8"]) == [2 * backward] * 3


@needs_compiler
@pytest.mark.parametrize("kind", ["ordinary", "depthwise", "grouped"])
def test_the_sample_itself_is_overwritten_where_the_program_asks_for_it(kind: str) -> None:
    layers, shapes = [(kind, 3, 1), (kind, 2, 2)], ["plain", "places2", "unrolled8"]
    model, batch = network(layers, [16, 8, 16], 7, direct=True)
    sources = [
        emit_c(batch, model.parameters, in_frames=True, shape=SHAPES[shape], name=f"m{n}", function=f"predict{n}")
        for n, shape in enumerate(shapes)
    ]
    expected = run_reference(batch, model.parameters, model.features)[0].tolist()
    first, second = (
        next(v.name for v in model.program.variables if v.role is role) for role in (ir.Role.INPUT, ir.Role.TEMPORARY)
    )
    sizes = {v.name: v.size * int(b) // 8 for v, b in zip(model.program.variables, batch.bits[0], strict=True)}
    with tempfile.TemporaryDirectory() as folder:
        for source, called in zip(sources, compiled(sources, folder), strict=True):
            assert source.variable_bytes < sizes[first] + sizes[second]
            assert [called.asking(row) for row in called.integers(model.features)] == expected
