"""Models whose layers walk along time, as loops over frames: the same numbers, and no column twice."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.emit.streaming import streamed
from kilotune.codegen.fixed.quantised import lower_quantised
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.time_steps import FramedProgram, over_frames
from kilotune.codegen.trained.conversion import convert
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.tflite_models import read_tflite
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.evaluators.fixed_point.simulator import Backend, Simulator
from tests.codegen.trained.onnx_files import Case, converted
from tests.codegen.trained.quantised_files import RandomNetworks
from tests.codegen.walking_programs import HERE, WalkingPrograms


def drawn(seed: int, padded: bool = True) -> tuple[ir.Program, dict[str, np.ndarray], np.ndarray]:
    random = np.random.default_rng(seed)
    return WalkingPrograms(random, padded).program(int(random.integers(1, 6)))


def framed(program: ir.Program) -> FramedProgram | None:
    """None where no layer walks."""
    try:
        return over_frames(program)
    except ValueError as error:
        if "no layer of the model walks along time" not in str(error):
            raise
        return None


@given(st.integers(0, 1 << 32))
def test_a_loop_over_frames_computes_the_same(seed: int) -> None:
    program, parameters, features = drawn(seed)
    made = framed(program)
    if made is None:
        return
    assert sorted(made.order) == list(range(features.shape[1]))
    expected = run_float(program, parameters, features).outputs
    found = run_float(made.program, parameters, features[:, list(made.order)]).outputs
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    _, stream = streamed(made.program, pushed=True)
    given_input = program.input
    assert given_input is not None
    assert stream.frames == given_input.shape[1]
    assert made.hop == 0 or all(made.hop % s.every == 0 for s in periodic(made.program))
    overlapping = over_frames(program, overlapping=True)
    again = run_float(overlapping.program, parameters, features[:, list(made.order)]).outputs
    np.testing.assert_array_equal(again, found)


def periodic(program: ir.Program) -> list[ir.Periodic]:
    loop = next(s for s in program.body if isinstance(s, ir.Loop))
    return [s for s in loop.body if isinstance(s, ir.Periodic)]


@given(st.integers(0, 1 << 32))
def test_no_column_is_computed_twice(seed: int) -> None:
    """What is computed in the loop is computed as often as the whole image has elements, and moved ones are copies."""
    program, _, _ = drawn(seed)
    made = framed(program)
    if made is None:
        return
    elements = {o.out.variable: o.out.size for o in ir.operations(program.body)}
    for operation, times in ir.executions(made.program.body):
        if not isinstance(operation, ir.Copy | ir.Fill):
            assert operation.out.size * times == elements[operation.out.variable]


@given(st.integers(0, 1 << 32))
def test_both_executions_of_fixed_point_agree(seed: int) -> None:
    program, parameters, features = drawn(seed)
    made = framed(program)
    if made is None:
        return
    random, frames = np.random.default_rng(seed), features[:, list(made.order)]
    shape = (2, len(made.program.variables))
    batch = ShiftryLowering(made.program, {}).lower(random.choice([8, 16], shape), random.integers(2, 8, shape))
    simulator = Simulator(made.program, parameters, frames, Backend.NATIVE)
    np.testing.assert_array_equal(simulator.run(batch), run_reference(batch, parameters, frames))


X = ir.Variable("X", (1, 8, 1, 2), ir.Role.INPUT, HERE)
W = ir.Variable("W", (1, 3, 1, 2, 2), ir.Role.PARAMETER, HERE)


def convolved(
    *after: ir.Operation, padding: tuple[int, int, int, int] = (0, 0, 0, 0), more: tuple[ir.Variable, ...] = ()
) -> ir.Program:
    length = 6 + padding[0] + padding[1]
    made = ir.Variable("t", (1, length, 1, 2), ir.Role.TEMPORARY, HERE)
    body = (ir.Conv2D(ir.whole(made), HERE, ir.whole(X), ir.whole(W), padding=padding), *after)
    return ir.Program("walk", (X, W, made, *more), body, body[-1].out, ir.ResultKind.REAL)


def test_what_is_kept_and_when_it_is_computed() -> None:
    """Three frames of two features under a window with one of padding on either side: eight columns, from the second frame on, the last in
    a round without a frame."""
    made = over_frames(convolved(padding=(1, 1, 0, 0)))
    (loop,) = (s for s in made.program.body if isinstance(s, ir.Loop))
    assert loop.count == 9
    assert [(s.first, s.every, s.count) for s in periodic(made.program)] == [(0, 1, 8), (8, 1, 1), (1, 1, 8)]
    assert made.program.variable("X_kept").shape == (3, 2)
    assert made.hop == 0
    assert over_frames(convolved()).hop == 1


def temporary(name: str, *shape: int) -> ir.Variable:
    return ir.Variable(name, shape, ir.Role.TEMPORARY, HERE)


@pytest.mark.parametrize(("stride", "behind"), [(1, 1), (1, 2), (2, 3), (4, 2)])
def test_windows_of_one_frame_on_padding_behind_the_last_are_computed(stride: int, behind: int) -> None:
    """Nothing is kept of the frames before, but zeros take the place of one (found by a reader)."""
    count = (7 + behind) // stride + 1
    weights, made = (
        ir.Variable("W", (1, 1, 1, 2, 2), ir.Role.PARAMETER, HERE),
        ir.Variable("t", (1, count, 1, 2), ir.Role.TEMPORARY, HERE),
    )
    layer = ir.Conv2D(ir.whole(made), HERE, ir.whole(X), ir.whole(weights), (stride, 1), (0, behind, 0, 0))
    program = ir.Program("walk", (X, weights, made), (layer,), layer.out, ir.ResultKind.REAL)
    random = np.random.default_rng(0)
    parameters, features = {"W": random.normal(size=weights.shape)}, random.normal(size=(2, 16))
    framed = over_frames(program)
    found = run_float(framed.program, parameters, features[:, list(framed.order)]).outputs
    np.testing.assert_allclose(found, run_float(program, parameters, features).outputs, rtol=1e-12)


def test_a_pool_with_padding_along_time_is_refused() -> None:
    pooled = temporary("p", 1, 4, 1, 2)
    pool = ir.MaxPool(ir.whole(pooled), HERE, ir.View("t", (1, 6, 1, 2), (12, 2, 2, 1)), (2, 1), (2, 1), (1, 1, 0, 0))
    with pytest.raises(
        ValueError, match=r"^walk\.sd:1:1: a pool with padding along time cannot take its input frame by frame$"
    ):
        over_frames(convolved(pool, more=(pooled,)))


def test_a_window_on_padding_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="a window of 3 frames lies on padding alone"):
        over_frames(convolved(padding=(3, 0, 0, 0)))


@given(st.integers(0, 1 << 32))
def test_quantised_programs_compute_the_same(seed: int) -> None:
    """Whose padding counts as the zero point."""
    random = np.random.default_rng(seed)
    network = RandomNetworks(random).network(int(random.integers(1, 5)))
    with tempfile.TemporaryDirectory() as folder:
        path = network.write(Path(folder) / "made.tflite")
        made = convert(read_tflite(path, keep_quantisation=True), "made", Returns.VALUE)
    if not ir.is_quantised(made.program):
        return
    try:
        stepped = over_frames(made.program)
    except ValueError:  # parts, pools with padding and constants for each frame are among what is drawn
        return
    samples = random.integers(-128, 128, (4, len(stepped.order))).astype(np.float64)
    expected = run_reference(lower_quantised(made.program), made.parameters, samples)
    found = run_reference(lower_quantised(stepped.program), made.parameters, samples[:, list(stepped.order)])
    np.testing.assert_array_equal(found, expected)


def test_numbers_for_each_frame_are_refused() -> None:
    """As embeddings of positions are."""
    places, added = ir.Variable("E", (6, 2), ir.Role.PARAMETER, HERE), temporary("a", 1, 6, 1, 2)
    view = ir.View("t", (1, 6, 1, 2), (12, 2, 2, 1))
    add = ir.Add(ir.whole(added), HERE, view, ir.View("E", (1, 6, 1, 2), (12, 2, 2, 1)))
    with pytest.raises(ValueError, match="E has other numbers for each frame"):
        over_frames(convolved(add, more=(places, added)))


def test_a_model_without_layers_along_time_is_refused() -> None:
    row, out = ir.View("X", (1, 16), (16, 1)), temporary("o", 1, 2)
    weights = ir.Variable("M", (16, 2), ir.Role.PARAMETER, HERE)
    body = (ir.MatMul(ir.whole(out), HERE, row, ir.whole(weights)),)
    program = ir.Program("dense", (X, weights, out), body, ir.whole(out), ir.ResultKind.REAL)
    with pytest.raises(ValueError, match="no layer of the model walks along time"):
        over_frames(program)
    with pytest.raises(ValueError, match="takes no input"):
        over_frames(dataclasses.replace(program, variables=(weights, out)))


def test_an_average_over_everything_has_its_own_frames_behind_the_loop() -> None:
    mean, ones = temporary("m", 2, 1, 1, 1), ir.Variable("O", (1, 6, 1, 1, 1), ir.Role.PARAMETER, HERE)
    channels = ir.View("t", (2, 6, 1, 1), (1, 2, 2, 12))
    body = ir.Conv2D(ir.whole(mean), HERE, channels, ir.whole(ones))
    program = convolved(body, more=(mean, ones))
    made = over_frames(program)
    assert made.program.variable("t").shape == (6, 2)
    assert isinstance(made.program.body[-1], ir.Conv2D)
    random = np.random.default_rng(1)
    parameters = {"W": random.normal(0, 1, W.shape), "O": np.full(ones.shape, 1 / 6)}
    features = random.normal(0, 1, (4, 16))
    np.testing.assert_allclose(
        run_float(made.program, parameters, features).outputs, run_float(program, parameters, features).outputs
    )


def test_frames_are_moments_where_an_elementwise_operation_reads_channels_first(tmp_path: Path) -> None:
    """A product with numbers of its own walks along the channels too, but no window does."""
    random = np.random.default_rng(2)
    weights = {
        "w": random.normal(0, 1, (5, 4, 3)).astype(np.float32),
        "m": np.float32(0.5),
        "d": np.float32(2.0),
    }
    nodes = [("Sub", ["x", "m"], ["s"], {}), ("Div", ["s", "d"], ["n"], {}), ("Conv", ["n", "w"], ["c"], {"pads": [1, 1]}),
             ("Relu", ["c"], ["y"], {})]  # fmt: skip
    program = converted(Case("net", (1, 4, 13), nodes, weights).write(tmp_path)).program
    made = over_frames(program)
    assert streamed(made.program, pushed=True)[1].frames == 13
    assert made.order[:4] == (0, 13, 26, 39)


@given(st.integers(0, 1 << 32))
def test_branches_that_are_put_beside_one_another_walk_together(seed: int) -> None:
    """Convolutions of several lengths of one input, some channels of it, and what is padded: beside each other, and read again."""
    random = np.random.default_rng(seed)
    channels, length = int(random.integers(2, 5)), int(random.integers(9, 15))
    weights: dict[str, np.ndarray] = {"sizes": np.array([1, channels - 1])}
    nodes: list[tuple[str, list[str], list[str], dict[str, object]]] = [
        ("Split", ["x", "sizes"], ["first", "rest"], {"axis": 1})
    ]
    parts, total = list[str](), 0
    for number in range(int(random.integers(2, 4))):
        kind = str(random.choice(["conv", "first", "rest", "x"]))
        size = {"first": 1, "rest": channels - 1, "x": channels}.get(kind, 3)
        if kind == "conv":
            span = int(random.choice([1, 3, 5]))
            weights[f"w{number}"] = random.normal(0, 1, (size, channels, span)).astype(np.float32)
            nodes.append(("Conv", ["x", f"w{number}"], [f"p{number}"], {"pads": [span // 2] * 2}))
        else:
            nodes.append(("Tanh", [kind], [f"p{number}"], {}))
        parts.append(f"p{number}")
        total += size
    weights["v"] = random.normal(0, 1, (2, total, 2)).astype(np.float32)
    nodes += [("Concat", parts, ["c"], {"axis": 1}), ("Conv", ["c", "v"], ["d"], {}), ("Relu", ["d"], ["y"], {})]
    case = Case("net", (1, channels, length), nodes, weights)
    with tempfile.TemporaryDirectory() as folder:
        made = converted(case.write(Path(folder)))
    features = random.normal(0, 1, (4, channels * length))
    framed = over_frames(made.program)
    assert streamed(framed.program, pushed=True)[1].frames == length
    expected = run_float(made.program, made.parameters, features).outputs
    found = run_float(framed.program, made.parameters, features[:, list(framed.order)]).outputs
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    most = max(v.size for v in framed.program.variables if v.role is ir.Role.TEMPORARY and v.name != "y")
    assert most <= max(6 * total, 2 * length)


def assert_moments_of_three_channels(path: Path) -> None:
    """Of a model of ten moments: frame by frame it computes what it does at once."""
    whole = converted(path)
    made = over_frames(whole.program)
    assert made.order[:3] == (0, 10, 20)
    samples = np.random.default_rng(1).normal(0, 1, (3, 30))
    found = run_float(made.program, whole.parameters, samples[:, list(made.order)]).outputs
    expected = run_float(whole.program, whole.parameters, samples).outputs
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_a_slice_of_channels_is_no_axis_of_time(tmp_path: Path) -> None:
    """Two channels of three lie as far apart as moments might, but the input has three."""
    weights = {"a": np.array([0]), "b": np.array([2]), "x1": np.array([1]), "w": np.ones((2, 2, 3), np.float32)}
    nodes = [
        ("Slice", ["x", "a", "b", "x1"], ["s"], {}),
        ("Relu", ["s"], ["r"], {}),
        ("Conv", ["r", "w"], ["y"], {"pads": [1, 1]}),
    ]
    assert_moments_of_three_channels(Case("net", (1, 3, 10), nodes, weights).write(tmp_path))


def test_channels_in_reverse_walk_as_they_are(tmp_path: Path) -> None:
    weights = {"p": np.array([2, 1, 0]), "w": np.arange(18, dtype=np.float32).reshape(2, 3, 3)}
    nodes = [
        ("Gather", ["x", "p"], ["g"], {"axis": 1}),
        ("Tanh", ["g"], ["t"], {}),
        ("Conv", ["t", "w"], ["y"], {"pads": [1, 1]}),
    ]
    assert_moments_of_three_channels(Case("net", (1, 3, 10), nodes, weights).write(tmp_path))
