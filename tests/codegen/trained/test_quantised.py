"""Quantised TensorFlow Lite files whose integers are kept: equal to TensorFlow Lite Micro in every element."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.arrays import IntArray
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.fixed.quantised import lower_quantised
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.ir.requantisation import fixed_multiplier
from kilotune.codegen.quantisation_grid import QuantisationGrid
from kilotune.codegen.trained.conversion import Converted, convert
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.integer_functions import logistic_entries, rescaling_entries, tanh_entries
from kilotune.codegen.trained.tflite_models import read_tflite
from kilotune.evaluators.fixed_point.reference import run_reference
from tests.codegen.tflite.models import DATA
from tests.codegen.trained.quantised_files import QuantisedNetwork, QuantisedTensor, RandomNetworks, executed_integers
from tests.codegen.trained.tflite_files import executed

IMAGE = QuantisedTensor((1, 4, 4, 2), scales=(0.05,), zeros=(7,))


def converted(path: Path, returns: Returns = Returns.VALUE) -> Converted:
    return convert(read_tflite(path, keep_quantisation=True), "made", returns)


def outputs(made: Converted, samples: IntArray) -> IntArray:
    batch = lower_quantised(made.program)
    return run_reference(batch, made.parameters, samples.astype(np.float64))[0]


@given(st.integers(0, 1 << 32))
def test_random_networks_equal_the_reference_kernels(seed: int) -> None:
    pytest.importorskip("tflite_micro")
    random = np.random.default_rng(seed)
    network = RandomNetworks(random).network(int(random.integers(1, 5)))
    samples = random.integers(-128, 128, (4, int(np.prod(network.tensors[0].shape))))
    with tempfile.TemporaryDirectory() as folder:
        path = network.write(Path(folder) / "made.tflite")
        expected, made = executed_integers(path, samples), converted(path)
    if ir.is_quantised(made.program):  # padding and maxima alone are those of any program
        np.testing.assert_array_equal(outputs(made, samples), expected)


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.glob("*int8.tflite")))
def test_networks_of_mlperf_tiny_choose_the_class_of_the_reference_kernels(name: str) -> None:
    pytest.importorskip("tflite_micro")
    made = converted(DATA / name, Returns.CLASS)
    given_input = made.program.input
    assert given_input is not None
    samples = np.random.default_rng(3).integers(-128, 128, (5, given_input.size))
    expected = executed_integers(DATA / name, samples).argmax(axis=1)
    np.testing.assert_array_equal(outputs(made, samples)[:, 0], expected)


@given(st.integers(-(2**31), 2**31 - 1), st.floats(2.0**-20, 0.9999999))
def test_a_fixed_multiplier_rounds_as_the_two_steps_of_the_specification(value: int, factor: float) -> None:
    made = fixed_multiplier(factor)
    product = value * made.mantissa
    nudge = (1 << 30) if product >= 0 else 1 - (1 << 30)
    high = abs(product + nudge) // (1 << 31) * (1 if product + nudge >= 0 else -1)
    down = -made.shift
    mask = (1 << down) - 1
    expected = (high >> down) + ((high & mask) > (mask >> 1) + (high < 0))
    assert int(made.integer(np.array([value]))[0]) == expected


@given(st.floats(1e-9, 1e8))
def test_a_fixed_multiplier_is_its_factor_to_31_bits(factor: float) -> None:
    assert fixed_multiplier(factor).real == pytest.approx(factor, rel=2.0**-31, abs=2.0**-62)


def test_a_factor_that_rounds_up_to_one_keeps_a_mantissa_of_31_bits() -> None:
    made = fixed_multiplier(1 - 2.0**-40)
    assert (made.mantissa, made.shift) == (1 << 30, 1)


@given(st.sampled_from(["LOGISTIC", "TANH"]), st.floats(0.0005, 40), st.integers(-128, 127))
def test_tables_of_functions_equal_the_reference_kernels(kind: str, step: float, zero: int) -> None:
    pytest.importorskip("tflite_micro")
    step = float(np.float32(step))
    made = QuantisationGrid(1 / 256, -128) if kind == "LOGISTIC" else QuantisationGrid(1 / 128, 0)
    network = QuantisedNetwork()
    first = network.tensor(QuantisedTensor((1, 256), scales=(step,), zeros=(zero,)))
    network.operator(kind, (first,), QuantisedTensor((1, 256), scales=(made.step,), zeros=(made.zero,)))
    entries = (logistic_entries if kind == "LOGISTIC" else tanh_entries)(QuantisationGrid(step, zero), made)
    with tempfile.TemporaryDirectory() as folder:
        found = executed_integers(network.write(Path(folder) / "made.tflite"), np.arange(-128, 128)[None])
    assert list(entries) == found[0].tolist()


def test_functions_are_near_what_they_stand_for() -> None:
    given_grid = QuantisationGrid(0.05, -20)
    reals = (np.arange(-128, 128) + 20) * 0.05
    shares = (np.array(logistic_entries(given_grid, QuantisationGrid(1 / 256, -128))) + 128) / 256
    tanhs = np.array(tanh_entries(given_grid, QuantisationGrid(1 / 128, 0))) / 128
    assert np.abs(shares - 1 / (1 + np.exp(-reals))).max() < 1 / 256
    assert np.abs(tanhs - np.tanh(reals)).max() < 1.01 / 128


def test_the_same_grid_twice_changes_nothing() -> None:
    grid = QuantisationGrid(0.03, 5)
    assert rescaling_entries(grid, grid) == tuple(range(-128, 128))


def test_halves_of_features_go_away_from_zero() -> None:
    grid = QuantisationGrid(0.5, 3)
    reals = np.array([0.25, -0.25, 0.75, -0.75, 0.2499, 1e9, -1e9])
    assert grid.apply(reals).tolist() == [4, 2, 5, 1, 3, 127, -128]
    assert QuantisationGrid(1.0, 0).apply(np.array([0.49999997])).tolist() == [0]


def refusal(network: QuantisedNetwork, folder: Path, returns: Returns = Returns.VALUE) -> str:
    with pytest.raises(InputError) as refused:
        converted(network.write(folder / "made.tflite"), returns)
    return str(refused.value)


def test_weights_with_a_zero_point_are_refused(tmp_path: Path) -> None:
    network = QuantisedNetwork()
    first = network.tensor(QuantisedTensor((1, 3), scales=(0.1,), zeros=(0,)))
    weights = network.tensor(QuantisedTensor((2, 3), data=np.ones((2, 3)), scales=(0.1,), zeros=(4,)))
    network.operator(
        "FULLY_CONNECTED", (first, weights, -1), QuantisedTensor((1, 2), scales=(0.1,)), "FullyConnectedOptions"
    )
    assert "operator 0 (FULLY_CONNECTED" in (said := refusal(network, tmp_path))
    assert "expected weights with zero point 0 and scales above 0, found others" in said


def test_real_ends_of_a_file_are_its_callers(tmp_path: Path) -> None:
    """QUANTIZE before the first operator and DEQUANTIZE behind the last are what the grids of the program say."""
    pytest.importorskip("tflite_micro")
    network = QuantisedNetwork()
    given_reals = network.tensor(QuantisedTensor((1, 6), "float32"))
    first = network.operator("QUANTIZE", (given_reals,), QuantisedTensor((1, 6), scales=(0.05,), zeros=(-30,)))
    total = network.operator("ADD", (first, first), QuantisedTensor((1, 6), scales=(0.11,), zeros=(12,)), "AddOptions")
    network.operator("DEQUANTIZE", (total,), QuantisedTensor((1, 6), "float32"))
    path = network.write(tmp_path / "made.tflite")
    model = read_tflite(path, keep_quantisation=True)
    made = converted(path)
    assert (model.input_grid, model.output_grid) == (
        QuantisationGrid(float(np.float32(0.05)), -30), QuantisationGrid(float(np.float32(0.11)), 12)
    )  # fmt: skip
    reals = np.random.default_rng(1).normal(0, 3, (20, 6)).astype(np.float32)
    assert model.input_grid is not None
    assert model.output_grid is not None
    integers = outputs(made, model.input_grid.apply(reals).astype(np.int64))
    found = (integers - model.output_grid.zero) * np.float32(model.output_grid.step)
    np.testing.assert_array_equal(found.astype(np.float32), executed(path, reals).astype(np.float32))


def test_ends_without_a_sign_are_the_same_grid(tmp_path: Path) -> None:
    """As a converter writes them for `inference_input_type = uint8`: integers 128 above those that are computed with."""
    pytest.importorskip("tflite_micro")
    network = QuantisedNetwork()
    first = network.tensor(QuantisedTensor((1, 6), "uint8", scales=(0.05,), zeros=(98,)))
    inner = network.operator("QUANTIZE", (first,), QuantisedTensor((1, 6), scales=(0.05,), zeros=(-30,)))
    total = network.operator("ADD", (inner, inner), QuantisedTensor((1, 6), scales=(0.11,), zeros=(12,)), "AddOptions")
    network.operator("QUANTIZE", (total,), QuantisedTensor((1, 6), "uint8", scales=(0.11,), zeros=(140,)))
    path = network.write(tmp_path / "made.tflite")
    model = read_tflite(path, keep_quantisation=True)
    assert (model.input_grid, model.output_grid) == (
        QuantisationGrid(float(np.float32(0.05)), -30), QuantisationGrid(float(np.float32(0.11)), 12)
    )  # fmt: skip
    samples = np.random.default_rng(1).integers(0, 256, (20, 6))
    found = outputs(converted(path), samples - 128) + 128
    interpreter = pytest.importorskip("tflite_micro").runtime.Interpreter.from_file(str(path))
    for sample, row in zip(samples, found, strict=True):
        interpreter.set_input(sample.astype(np.uint8).reshape(1, 6), 0)
        interpreter.invoke()
        assert row.tolist() == interpreter.get_output(0).reshape(-1).tolist()


def test_ends_without_a_sign_on_another_grid_are_refused(tmp_path: Path) -> None:
    for scale, zero in ((0.06, 98), (0.05, 99)):
        network = QuantisedNetwork()
        first = network.tensor(QuantisedTensor((1, 6), "uint8", scales=(scale,), zeros=(zero,)))
        inner = network.operator("QUANTIZE", (first,), QuantisedTensor((1, 6), scales=(0.05,), zeros=(-30,)))
        network.operator("ADD", (inner, inner), QuantisedTensor((1, 6), scales=(0.11,), zeros=(12,)), "AddOptions")
        assert "expected integers with and without a sign on one grid, found two" in refusal(network, tmp_path)


def test_features_are_on_the_grid_of_the_input_where_it_is_rescaled(tmp_path: Path) -> None:
    network = QuantisedNetwork()
    first = network.tensor(QuantisedTensor((1, 6), scales=(0.05,), zeros=(-30,)))
    network.operator("QUANTIZE", (first,), QuantisedTensor((1, 6), scales=(0.11,), zeros=(12,)))
    model = read_tflite(network.write(tmp_path / "made.tflite"), keep_quantisation=True)
    assert (model.input_grid, model.output_grid) == (
        QuantisationGrid(float(np.float32(0.05)), -30), QuantisationGrid(float(np.float32(0.11)), 12)
    )  # fmt: skip


def test_a_border_before_an_average_is_its_padding(tmp_path: Path) -> None:
    """It is counted, as its real zeros are, and no larger image is written."""
    pytest.importorskip("tflite_micro")
    network = QuantisedNetwork()
    first = network.tensor(IMAGE)
    widths = network.tensor(QuantisedTensor((4, 2), "int32", np.array([[0, 0], [1, 0], [0, 1], [0, 0]])))
    padded = network.operator(
        "PAD", (first, widths), QuantisedTensor((1, 5, 5, 2), scales=(0.05,), zeros=(7,)), "PadOptions"
    )
    options = {"Padding": 1, "StrideH": 1, "StrideW": 1, "FilterHeight": 2, "FilterWidth": 2}
    network.operator("AVERAGE_POOL_2D", (padded,), IMAGE, "Pool2DOptions", **options)
    path = network.write(tmp_path / "made.tflite")
    made, samples = converted(path), np.random.default_rng(3).integers(-128, 128, (10, 32))
    assert {type(o) for o in ir.operations(made.program.body)} == {ir.Conv2D}
    np.testing.assert_array_equal(outputs(made, samples), executed_integers(path, samples))


@given(st.integers(0, 1 << 32), st.booleans())
def test_averages_over_time_equal_the_reference_kernel(seed: int, kept: bool) -> None:
    """As Keras writes GlobalAveragePooling1D."""
    pytest.importorskip("tflite_micro")
    random = np.random.default_rng(seed)
    shape = (1, int(random.integers(1, 12)), int(random.integers(1, 5)))
    grids = [(float(np.exp(random.uniform(-5, -2))), int(random.integers(-128, 128))) for _ in range(2)]
    network = QuantisedNetwork()
    first = network.tensor(QuantisedTensor(shape, scales=(grids[0][0],), zeros=(grids[0][1],)))
    axis = network.tensor(QuantisedTensor((1,), "int32", np.array([1])))
    wanted = (1, 1, shape[2]) if kept else (1, shape[2])
    made = QuantisedTensor(wanted, scales=(grids[1][0],), zeros=(grids[1][1],))
    network.operator("MEAN", (first, axis), made, "ReducerOptions", KeepDims=kept)
    samples = random.integers(-128, 128, (5, shape[1] * shape[2]))
    with tempfile.TemporaryDirectory() as folder:
        path = network.write(Path(folder) / "made.tflite")
        np.testing.assert_array_equal(outputs(converted(path), samples), executed_integers(path, samples))


def test_weights_of_other_integers_are_refused(tmp_path: Path) -> None:
    network = QuantisedNetwork()
    first = network.tensor(QuantisedTensor((1, 3), scales=(0.1,), zeros=(0,)))
    weights = network.tensor(QuantisedTensor((2, 3), "int16", np.ones((2, 3)), scales=(0.1,)))
    made = QuantisedTensor((1, 2), scales=(0.1,), zeros=(0,))
    network.operator("FULLY_CONNECTED", (first, weights, -1), made, "FullyConnectedOptions")
    assert "expected weights of INT8, found INT16" in refusal(network, tmp_path)


def test_other_integers_are_refused(tmp_path: Path) -> None:
    network = QuantisedNetwork()
    first = network.tensor(QuantisedTensor((1, 4, 4, 2), "uint8", scales=(0.1,), zeros=(3,)))
    network.operator("ADD", (first, first), QuantisedTensor((1, 4, 4, 2), "uint8", scales=(0.1,)), "AddOptions")
    assert "of INT8 with one scale, found UINT8" in refusal(network, tmp_path)


def test_an_average_over_padding_is_refused(tmp_path: Path) -> None:
    network = QuantisedNetwork()
    first = network.tensor(IMAGE)
    options = {"Padding": 0, "StrideH": 1, "StrideW": 1, "FilterHeight": 3, "FilterWidth": 3}
    network.operator("AVERAGE_POOL_2D", (first,), IMAGE, "Pool2DOptions", **options)
    assert "found one over padding" in refusal(network, tmp_path)


def test_a_relu6_that_rescales_is_refused(tmp_path: Path) -> None:
    network = QuantisedNetwork()
    first = network.tensor(IMAGE)
    network.operator("RELU6", (first,), QuantisedTensor(IMAGE.shape, scales=(0.1,), zeros=(7,)))
    assert "expected a Relu6 whose result has the scale of its operand" in refusal(network, tmp_path)


def shares(beta: float, step: float, scores: int = 3, made: float = 1 / 256) -> QuantisedNetwork:
    network = QuantisedNetwork()
    first = network.tensor(QuantisedTensor((1, scores), scales=(step,), zeros=(0,)))
    sums = network.operator(
        "ADD", (first, first), QuantisedTensor((1, scores), scales=(step,), zeros=(0,)), "AddOptions"
    )
    network.operator(
        "SOFTMAX", (sums,), QuantisedTensor((1, scores), scales=(made,), zeros=(-128,)), "SoftmaxOptions", Beta=beta
    )
    return network


@given(st.sampled_from([0.01, 0.4, 1.0, 3.0]), st.floats(0.001, 2.0), st.integers(1, 12), st.integers(0, 1 << 32))
def test_shares_equal_the_reference_kernel(beta: float, step: float, scores: int, seed: int) -> None:
    pytest.importorskip("tflite_micro")
    samples = np.random.default_rng(seed).integers(-64, 64, (5, scores))
    with tempfile.TemporaryDirectory() as folder:
        path = shares(beta, float(np.float32(step)), scores).write(Path(folder) / "made.tflite")
        np.testing.assert_array_equal(outputs(converted(path), samples), executed_integers(path, samples))


def test_probabilities_are_left_out_of_a_class(tmp_path: Path) -> None:
    made = converted(shares(1.0, 0.1).write(tmp_path / "made.tflite"), Returns.CLASS)
    assert not any(isinstance(o, ir.QuantisedSoftmax) for o in ir.operations(made.program.body))
    assert outputs(made, np.array([[3, -5, 60], [5, 5, 4]]))[:, 0].tolist() == [2, 0]


def test_shares_on_another_grid_are_refused(tmp_path: Path) -> None:
    assert "expected a Softmax in steps of 1/256 from -128 on" in refusal(shares(1.0, 0.1, made=0.01), tmp_path)
    assert "expected a Softmax with beta above 0, found -1.0" in refusal(shares(-1.0, 0.1), tmp_path)
    assert "expected a Softmax with beta above 0, found 0.0" in refusal(shares(0.0, 0.1), tmp_path)


def test_shares_of_more_elements_than_32_bits_can_sum_are_refused(tmp_path: Path) -> None:
    """8192 equal ones sum up to 2^32: the reference kernel's shares are wrong from 4097 on."""
    assert "expected a Softmax over at most 8191 elements, found 8192" in refusal(
        shares(1.0, 0.1, scores=8192), tmp_path
    )
    made = converted(shares(1.0, 0.1, scores=8191).write(tmp_path / "made.tflite"))
    assert set(outputs(made, np.full((1, 8191), 7)).flat) == {-128}


def test_formats_of_a_quantised_program_are_not_for_others_to_decide(tmp_path: Path) -> None:
    network = QuantisedNetwork()
    first = network.tensor(IMAGE)
    network.operator("ADD", (first, first), IMAGE, "AddOptions")
    program = converted(network.write(tmp_path / "made.tflite")).program
    bits = np.full((1, len(program.variables)), 8)
    with pytest.raises(ValueError, match="made, which has integers of its own"):
        ShiftryLowering(program, {}).lower(bits, np.zeros_like(bits))
    with pytest.raises(ValueError, match="has no integers of its own"):
        lower_quantised(ir.Program("plain", program.variables, (), program.result, program.result_kind))
