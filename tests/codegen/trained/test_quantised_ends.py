"""Where integers of a quantised ONNX file end: values that a tool's Clip would have bounded are bounded by the file's integers alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.bundle import Bundle
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.importing import import_bundle
from tests.codegen.trained.cases import draw
from tests.codegen.trained.onnx_files import Case, reference
from tests.codegen.trained.quantised_files import QuantisedNetwork, QuantisedTensor, executed_integers

FEATURES = np.random.default_rng(9).normal(0, 1.5, (80, 6)).astype(np.float32).astype(np.float64)
WEIGHTS = {"w": draw(6, 5), "v": draw(5, 3)}


def _imported(
    low: float, high: float, folder: Path, features: FloatArray = FEATURES, end: str | None = None
) -> tuple[Bundle, Path]:
    """Two products, between which integers from `low` to `high` stand. `end`: an operator whose results tell classes apart."""
    step = np.float32((high - low) / 255)
    zero = np.uint8(round(-low / float(step)))
    nodes = [
        ("MatMul", ["x", "w"], ["h"], {}),
        ("QuantizeLinear", ["h", "step", "zero"], ["q"], {}),
        ("DequantizeLinear", ["q", "step", "zero"], ["d"], {}),
        ("MatMul", ["d", "v"], ["y" if end is None else "scores"], {}),
    ]
    nodes += [] if end is None else [(end, ["scores"], ["y"], {})]
    path = Case("ends", (1, 6), nodes, {**WEIGHTS, "step": step, "zero": zero}).write(folder)
    np.savez(folder / "d.npz", X=features)
    returns = Returns.VALUE if end is None else Returns.CLASS
    return import_bundle(path, folder / "d.npz", returns=returns), path


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (0.0, 6.0), (-0.5, 0.75), (0.0, 100.0), (-100.0, 1.0), (-0.5, 100.0)]
)
def test_values_end_where_the_integers_do(low: float, high: float, tmp_path: Path) -> None:
    bundle, path = _imported(low, high, tmp_path)
    found = run_float(bundle.program, bundle.parameters, FEATURES).outputs
    expected = reference(path, FEATURES).reshape(len(FEATURES), -1)
    rounding = (high - low) / 255 * np.abs(WEIGHTS["v"]).sum(axis=0).max()
    assert np.abs(found - expected).max() <= rounding


def test_ends_that_only_late_samples_reach_are_seen(tmp_path: Path) -> None:
    """Data sorted by class may begin with hundreds of quiet samples (found by a reader)."""
    late = np.concatenate([FEATURES[np.arange(300) % 80] / 100, FEATURES])
    bundle, path = _imported(-0.5, 0.75, tmp_path, late)
    found = run_float(bundle.program, bundle.parameters, FEATURES).outputs
    rounding = 1.25 / 255 * np.abs(WEIGHTS["v"]).sum(axis=0).max()
    assert np.abs(found - reference(path, FEATURES).reshape(len(FEATURES), -1)).max() <= rounding


def test_ends_are_seen_before_an_end_of_the_file_that_only_classes_are_told_of(tmp_path: Path) -> None:
    """PyTorch's usual one, which is no operator of programs (found by a reader: 84 of 200 classes wrong)."""
    bundle, path = _imported(-0.05, 0.05, tmp_path, end="LogSoftmax")
    found = run_float(bundle.program, bundle.parameters, FEATURES).outputs[:, 0]
    expected = reference(path, FEATURES).reshape(len(FEATURES), -1).argmax(axis=1)
    assert (found != expected).sum() <= 2


@pytest.mark.parametrize("low", [0.0, -0.5])
def test_a_part_of_the_features_ends_where_its_integers_do(low: float, tmp_path: Path) -> None:
    """A quantiser takes a Relu or Clip of what Split leaves into the integers behind it (found by a reader)."""
    step, zero = np.float32(0.01), np.uint8(round(-low / 0.01))
    nodes = [
        ("Split", ["x", "parts"], ["a", "b"], {"axis": 1}),
        ("QuantizeLinear", ["a", "step", "zero"], ["q"], {}),
        ("DequantizeLinear", ["q", "step", "zero"], ["d"], {}),
        ("MatMul", ["d", "v"], ["e"], {}),
        ("MatMul", ["b", "v"], ["f"], {}),
        ("Sub", ["e", "f"], ["y"], {}),
    ]
    constants = {"parts": np.array([3, 3]), "step": step, "zero": zero, "v": draw(3, 4)}
    path = Case("parts", (1, 6), nodes, constants).write(tmp_path)
    np.savez(tmp_path / "d.npz", X=FEATURES)
    bundle = import_bundle(path, tmp_path / "d.npz", returns=Returns.VALUE)
    assert bundle.scaling is None
    found = run_float(bundle.program, bundle.parameters, FEATURES).outputs
    expected = reference(path, FEATURES).reshape(len(FEATURES), -1)
    assert np.abs(found - expected).max() <= 0.005 * np.abs(constants["v"]).sum(axis=0).max() + 1e-6


def test_a_scale_for_each_element_of_a_computed_value_is_refused(tmp_path: Path) -> None:
    """Where each one's integers end is not looked for."""
    constants = {**WEIGHTS, "step": np.full(5, 0.1, np.float32), "zero": np.zeros(5, np.int8)}
    nodes = [("MatMul", ["x", "w"], ["h"], {}), ("QuantizeLinear", ["h", "step", "zero"], ["q"], {"axis": 1}),
             ("DequantizeLinear", ["q", "step", "zero"], ["d"], {"axis": 1}), ("MatMul", ["d", "v"], ["y"], {})]  # fmt: skip
    path = Case("each", (1, 6), nodes, constants).write(tmp_path)
    np.savez(tmp_path / "d.npz", X=FEATURES)
    with pytest.raises(
        InputError, match=r"node 1 .*: expected one scale for all elements of a computed value, found 5"
    ):
        import_bundle(path, tmp_path / "d.npz")


@pytest.mark.parametrize(
    ("low", "high", "bounds"), [(-100.0, 100.0, 0), (0.0, 100.0, 1), (0.0, 6.0, 1), (-0.5, 100.0, 1), (0.0, 1.0, 2)]
)
def test_an_end_that_nothing_reaches_costs_nothing(low: float, high: float, bounds: int, tmp_path: Path) -> None:
    program = _imported(low, high, tmp_path)[0].program
    assert sum(isinstance(operation, ir.Relu | ir.Relu6) for operation in ir.operations(program.body)) == bounds


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-0.5, 0.75), (0.0, 100.0)])
def test_values_of_operators_on_integers_end_where_their_results_do(low: float, high: float, tmp_path: Path) -> None:
    """What quantisers write in the QOperator form, in which a Clip is but the end of the integers (found by a reader)."""
    fine, step = np.float32(0.05), np.float32((high - low) / 255)
    constants = {"fine": fine, "none": np.int8(0), "codes": np.rint(WEIGHTS["w"] / fine).astype(np.int8),
                 "step": step, "zero": np.uint8(round(-low / float(step))), "v": WEIGHTS["v"], "middle": np.uint8(128)}  # fmt: skip
    nodes = [
        ("QuantizeLinear", ["x", "fine", "middle"], ["i"], {}),
        ("QLinearMatMul", ["i", "fine", "middle", "codes", "fine", "none", "step", "zero"], ["q"], {}),
        ("DequantizeLinear", ["q", "step", "zero"], ["d"], {}),
        ("MatMul", ["d", "v"], ["y"], {}),
    ]
    path = Case("ends", (1, 6), nodes, constants).write(tmp_path)
    np.savez(tmp_path / "d.npz", X=FEATURES)
    bundle = import_bundle(path, tmp_path / "d.npz", returns=Returns.VALUE)
    found = run_float(bundle.program, bundle.parameters, FEATURES).outputs
    expected = reference(path, FEATURES).reshape(len(FEATURES), -1)
    of_features = 0.025 * np.abs(constants["codes"] * float(fine)).sum(axis=0).max()
    rounding = ((high - low) / 255 + of_features) * np.abs(WEIGHTS["v"]).sum(axis=0).max()
    assert np.abs(found - expected).max() <= rounding


@pytest.mark.parametrize("requantised", [False, True])
@pytest.mark.parametrize(("scale", "bounds"), [(0.02, 1), (0.5, 0)])
def test_values_of_tensorflow_lite_end_where_their_integers_do(
    scale: float, bounds: int, requantised: bool, tmp_path: Path
) -> None:
    """The sums of the first product reach 20 and more; 0.02 ends at 2.5, whether they are rounded to it at once or by a QUANTIZE."""
    pytest.importorskip("tflite_micro")
    random = np.random.default_rng(4)
    network = QuantisedNetwork()
    first = network.tensor(QuantisedTensor((1, 6), scales=(0.05,), zeros=(0,)))
    data = random.integers(-127, 128, (5, 6)), random.integers(-127, 128, (3, 5))
    weights = [network.tensor(QuantisedTensor(one.shape, data=one, scales=(0.02,))) for one in data]
    ends = QuantisedTensor((1, 5), scales=(scale,))
    made = QuantisedTensor((1, 5), scales=(0.5,)) if requantised else ends
    sums = network.operator("FULLY_CONNECTED", (first, weights[0], -1), made, "FullyConnectedOptions")
    if requantised:
        sums = network.operator("QUANTIZE", (sums,), ends)
    network.operator(
        "FULLY_CONNECTED", (sums, weights[1], -1), QuantisedTensor((1, 3), scales=(8.0,)), "FullyConnectedOptions"
    )
    path = network.write(tmp_path / "made.tflite")
    integers = random.integers(-128, 128, (40, 6))
    np.savez(tmp_path / "d.npz", X=integers * 0.05)
    bundle = import_bundle(path, tmp_path / "d.npz", returns=Returns.VALUE)
    found = run_float(bundle.program, bundle.parameters, integers * 0.05).outputs
    expected = executed_integers(path, integers) * 8.0
    rounding = (0.25 * requantised + scale / 2) * 0.02 * np.abs(data[1]).sum(axis=1).max() + 4.0
    assert np.abs(found - expected).max() <= rounding + 0.1
    assert len([o for o in ir.operations(bundle.program.body) if isinstance(o, ir.Relu | ir.Pointwise)]) == 2 * bounds


def test_features_beyond_the_integers_of_a_file_are_refused(tmp_path: Path) -> None:
    """The file would clip them, as a Relu before its first rounding."""
    network = QuantisedNetwork()
    first = network.tensor(QuantisedTensor((1, 6), scales=(0.05,), zeros=(-128,)))
    weights = network.tensor(QuantisedTensor((3, 6), data=np.ones((3, 6)), scales=(0.02,)))
    network.operator(
        "FULLY_CONNECTED", (first, weights, -1), QuantisedTensor((1, 3), scales=(1.0,)), "FullyConnectedOptions"
    )
    np.savez(tmp_path / "d.npz", X=FEATURES)
    with pytest.raises(
        InputError, match=r"features: expected from 0 to 12.75, to which the integers of the file's input clip them"
    ):
        import_bundle(network.write(tmp_path / "made.tflite"), tmp_path / "d.npz")


def test_the_upper_end_holds_behind_a_relu(tmp_path: Path) -> None:
    """Which makes the lower one idle, not the upper one."""
    step, zero = np.float32(1 / 255), np.uint8(0)
    nodes = [
        ("MatMul", ["x", "w"], ["h"], {}), ("Relu", ["h"], ["r"], {}), ("QuantizeLinear", ["r", "step", "zero"], ["q"], {}),
        ("DequantizeLinear", ["q", "step", "zero"], ["d"], {}), ("MatMul", ["d", "v"], ["y"], {}),
    ]  # fmt: skip
    path = Case("ends", (1, 6), nodes, {**WEIGHTS, "step": step, "zero": zero}).write(tmp_path)
    np.savez(tmp_path / "d.npz", X=FEATURES)
    bundle = import_bundle(path, tmp_path / "d.npz", returns=Returns.VALUE)
    found = run_float(bundle.program, bundle.parameters, FEATURES).outputs
    expected = reference(path, FEATURES).reshape(len(FEATURES), -1)
    assert np.abs(found - expected).max() <= np.abs(WEIGHTS["v"]).sum(axis=0).max() / 255
