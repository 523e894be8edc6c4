"""Features of mixed size: scales of their own change no result, and are there only where they pay."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.bundle import Bundle
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.feature_quantiser import feature_function
from kilotune.codegen.feature_scaling import FeatureScaling
from kilotune.codegen.fixed.arithmetic import quantise
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.straight_line import OperationInstance
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.importing import import_bundle
from tests.codegen.emit.compiled import compile_sources, needs_compiler
from tests.codegen.emit.small_network import classifier
from tests.codegen.trained.cases import draw, numbers
from tests.codegen.trained.onnx_files import Case, reference

MIXED = 10.0 ** np.linspace(-3, 3, 6)
RANDOM = np.random.default_rng(5)

WEIGHTS = {"w": draw(6, 3), "b": draw(3)}
ROWS = RANDOM.normal(3, 1, (40, 6)) * MIXED
SEQUENCE = (RANDOM.normal(0, 1, (40, 4, 6)) * MIXED).reshape(40, -1)
IMAGE = (RANDOM.normal(0, 1, (40, 6, 5)) * MIXED[:, None]).reshape(40, -1)
CHOSEN = numbers(4, -6, 4, 1, 2, 3, 5)

CASES = {
    "a layer": (Case("layer", (1, 6), [("Gemm", ["x", "w", "b"], ["y"], {})], WEIGHTS), ROWS),
    "behind a scaler": (
        Case("scaler", (1, 6), [("Sub", ["x", "o"], ["m"], {}), ("Mul", ["m", "f"], ["s"], {}),
             ("Cast", ["s"], ["c"], {"to": 1}), ("MatMul", ["c", "w"], ["p"], {}), ("Add", ["p", "b"], ["y"], {})],
             {**WEIGHTS, "o": np.float32(3 * MIXED), "f": np.float32(1 / MIXED)}), ROWS),
    "a scaler before no product": (
        Case("tanh", (1, 6), [("Sub", ["x", "o"], ["m"], {}), ("Mul", ["m", "f"], ["s"], {}), ("Tanh", ["s"], ["y"], {})],
             {"o": np.float32(3 * MIXED), "f": np.float32(1 / MIXED)}), ROWS),
    "a scaler behind a cast": (
        Case("cast", (1, 6), [("Cast", ["x"], ["c"], {"to": 1}), ("Mul", ["c", "f"], ["m"], {}), ("Add", ["m", "b"], ["s"], {}),
             ("Tanh", ["s"], ["y"], {})], {"f": np.float32(1 / MIXED), "b": draw(6)}), ROWS),
    "a cast that two scalers read": (
        Case("casts", (1, 6), [("Cast", ["x"], ["c"], {"to": 1}), ("Mul", ["c", "f"], ["m"], {}), ("Tanh", ["m"], ["t"], {}),
             ("Div", ["c", "d"], ["n"], {}), ("Relu", ["n"], ["r"], {}), ("Add", ["t", "r"], ["y"], {})],
             {"f": np.float32(1 / MIXED), "d": np.float32(-2 * MIXED)}), ROWS),
    "chosen columns behind a scaler": (
        Case("chosen", (1, 6), [("Sub", ["o", "x"], ["m"], {}), ("Gather", ["m", "i"], ["g"], {"axis": -1}),
             ("Mul", ["g", "f"], ["s"], {}), ("Tanh", ["s"], ["y"], {})],
             {"o": np.float32(3 * MIXED), "i": CHOSEN, "f": np.float32(1 / MIXED[CHOSEN])}), ROWS),
    "products that read the same features": (
        Case("products", (1, 6), [("MatMul", ["x", "w"], ["p"], {}), ("MatMul", ["x", "v"], ["q"], {}), ("Mul", ["p", "q"], ["y"], {})],
             {"w": draw(6, 3), "v": draw(6, 3)}), ROWS + 50 * MIXED),
    "a product beside a scaler": (
        Case("beside", (1, 6), [("Gemm", ["x", "w", "b"], ["p"], {}), ("Mul", ["x", "f"], ["m"], {}), ("Tanh", ["m"], ["t"], {}),
             ("Concat", ["p", "t"], ["y"], {"axis": 1})], {**WEIGHTS, "f": np.float32(1 / MIXED)}), ROWS),
    "far from zero": (Case("far", (1, 6), [("Gemm", ["x", "w", "b"], ["y"], {})], WEIGHTS), ROWS + 200 * MIXED),
    "a sequence": (Case("steps", (1, 4, 6), [("MatMul", ["x", "w"], ["y"], {})], WEIGHTS), SEQUENCE),
    "channels": (Case("channels", (1, 6, 5), [("Conv", ["x", "k"], ["y"], {"pads": [1, 1]})], {"k": draw(2, 6, 3)}), IMAGE),
}  # fmt: skip
NORMALISED = {"s": draw(4) + 2, "o": draw(4), "m": np.float32(3 * MIXED[1:5]), "v": np.float32(MIXED[1:5] ** 2)}
NORMALISATION = ("BatchNormalization", ["x", "s", "o", "m", "v"], ["n"], {})
for name, shape, behind, more in (
    ("normalised before padding", (1, 4, 4), ("Conv", ["n", "k"], ["y"], {"pads": [1, 1]}), {"k": draw(2, 4, 3)}),
    ("normalised images", (1, 4, 4, 4), ("Relu", ["n"], ["y"], {}), {}),
    ("normalised, with places of their own", (1, 4, 3), ("Tanh", ["n"], ["y"], {}), {}),
):
    size = int(np.prod(shape[2:]))
    features = (RANDOM.normal(3, 1, (40, 4, size)) * MIXED[1:5, None]).reshape(40, -1)
    CASES[name] = (Case("bn", shape, [NORMALISATION, behind], {**NORMALISED, **more}), features)


MOVED = np.float32(3 * MIXED[:4])[:, None], np.float32(MIXED[:4])[:, None]
MOVED_CASE = Case(
    "moved", (1, 4, 5), [("Sub", ["x", "o"], ["m"], {}), ("Div", ["m", "f"], ["s"], {}), ("Conv", ["s", "k"], ["y"], {"pads": [1, 1]})],
    {"o": MOVED[0], "f": MOVED[1], "k": draw(2, 4, 3)},
)  # fmt: skip
CASES["moved before padding"] = (MOVED_CASE, (RANDOM.normal(3, 1, (40, 4, 5)) * MIXED[:4, None]).reshape(40, -1))


def imported(case: Case, features: np.ndarray, folder: Path) -> tuple[Bundle, Path]:
    path = case.write(folder)
    np.savez(folder / "d.npz", X=features)
    return import_bundle(path, folder / "d.npz", returns=Returns.VALUE), path


@pytest.mark.parametrize("named", list(CASES))
def test_results_stay_those_of_the_file(named: str, tmp_path: Path) -> None:
    case, features = CASES[named]
    features = features.astype(np.float32).astype(np.float64)
    bundle, path = imported(case, features, tmp_path)
    assert bundle.scaling is not None
    assert bundle.train is not None
    assert np.abs(bundle.train.features).max(axis=0).min() > 0.05  # no feature is small any more
    assert np.abs(bundle.train.features).max() < 1.0
    found = run_float(bundle.program, bundle.parameters, bundle.train.features).outputs
    expected = reference(path, features).reshape(len(features), -1)
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_what_a_scaler_makes_for_a_padded_convolution_has_one_scale(tmp_path: Path) -> None:
    """Its offsets stay before the padding, its factors go into the weights but for what makes the channels alike."""
    bundle, _ = imported(*CASES["moved before padding"], tmp_path)
    sums = next(o for o in ir.operations(bundle.program.body) if isinstance(o, ir.Add))
    assert bundle.scaling is not None
    samples = bundle.scaling.apply(CASES["moved before padding"][1])
    seen = np.zeros((40, 4, 5))

    def observe(step: OperationInstance, written: np.ndarray, read: Sequence[np.ndarray]) -> None:
        if step.operation is sums:
            seen[:] = np.moveaxis(written.reshape(4, 5, -1) if written.shape[-1] == 40 else written, -1, 0)

    run_float(bundle.program, bundle.parameters, samples, observe)
    sizes = np.abs(seen).max(axis=(0, 2))
    assert sizes.max() / sizes.min() < 8


@pytest.mark.parametrize("value", [0.0, 1.0, 101325.0])
def test_a_feature_that_never_changes_takes_no_digits_from_others(value: float, tmp_path: Path) -> None:
    """It becomes 0 in a fine unit: its weight is not the largest, and what it comes to is no part of a sum that cancels it out."""
    case, features = CASES["behind a scaler"]
    scaler = {**case.constants, "o": np.float32(3 * MIXED), "f": np.float32(1 / MIXED)}
    scaler["o"][4], scaler["f"][4] = value, 1.0  # as of StandardScaler
    features = features.copy()
    features[:, 4] = value
    bundle, path = imported(dataclasses.replace(case, constants=scaler), features, tmp_path)
    assert bundle.scaling is not None
    assert bundle.train is not None
    assert (bundle.train.features[:, 4] == 0).all()
    assert bundle.scaling.offsets[4] == value
    assert (
        bundle.scaling.exponents[4] == 1
    )  # a range to 1 and some more: as a category may be that training has none of
    largest = [np.abs(values).max() for values in bundle.parameters.values()]
    assert max(largest) < 16 * min(np.abs(values).max() for values in WEIGHTS.values())
    found = run_float(bundle.program, bundle.parameters, bundle.train.features).outputs
    np.testing.assert_allclose(found, reference(path, features).reshape(len(features), -1), atol=1e-5)


def test_of_one_sample_nothing_is_known(tmp_path: Path) -> None:
    case, features = CASES["a layer"]
    bundle, _ = imported(case, features[:1], tmp_path)
    assert bundle.scaling is not None
    assert not any(bundle.scaling.offsets)
    assert bundle.train is not None
    assert (np.abs(bundle.train.features) > 0.05).all()


def test_one_value_far_beyond_the_others_is_moved(tmp_path: Path) -> None:
    """Though all other features could do with one scale."""
    case, features = CASES["a layer"]
    features = features / MIXED
    features[:, 1] = 5000.0
    bundle, _ = imported(case, features, tmp_path)
    assert bundle.scaling is not None
    assert bundle.scaling.offsets == (0.0, 5000.0, 0.0, 0.0, 0.0, 0.0)


def test_features_far_from_zero_are_moved_by_what_a_short_float_holds(tmp_path: Path) -> None:
    case, features = CASES["far from zero"]
    bundle, _ = imported(case, features, tmp_path)
    assert bundle.scaling is not None
    offsets = np.array(bundle.scaling.offsets)
    np.testing.assert_array_equal(offsets, offsets.astype(np.float32))
    np.testing.assert_allclose(offsets, 203 * MIXED, rtol=0.02)


@pytest.mark.parametrize(
    "case",
    [
        Case("even", (1, 6), [("Gemm", ["x", "w", "b"], ["y"], {})], WEIGHTS),
        Case("unscalable", (1, 6), [("Relu", ["x"], ["r"], {}), ("Gemm", ["r", "w", "b"], ["y"], {})], WEIGHTS),
        Case("one reader of two", (1, 6), [("Mul", ["x", "b"], ["s"], {}), ("Relu", ["s"], ["r"], {}), ("Relu", ["x"], ["q"], {}),
             ("Add", ["r", "q"], ["y"], {})], {"b": draw(6)}),
        Case("returned too", (1, 6), [("Cast", ["x"], ["y"], {"to": 1}), ("Mul", ["y", "b"], ["z"], {})], {"b": draw(6)}),
        Case("no constant", (1, 6), [("Mul", ["x", "x"], ["y"], {})], {}),
    ],
    ids=lambda case: case.name,
)  # fmt: skip
def test_no_scales_where_one_does_or_weights_cannot_take_them_over(case: Case, tmp_path: Path) -> None:
    features = np.float32(RANDOM.normal(0, 1, (40, 6)) * (1.0 if case.name == "even" else MIXED)).astype(np.float64)
    bundle, _ = imported(case, features, tmp_path)
    assert bundle.scaling is None
    assert bundle.train is not None
    np.testing.assert_array_equal(bundle.train.features, features)


@needs_compiler
@pytest.mark.parametrize("scaling", [None, FeatureScaling((3, -6, 9) + (0,) * 9, (0.0, 0.25, 1024.0) + (0.0,) * 9)])
def test_the_functions_of_the_header_make_the_integers_of_the_search(
    scaling: FeatureScaling | None, tmp_path: Path
) -> None:
    model, batch = classifier()
    source = emit_c(batch, model.parameters, scaling=scaling)
    assert source.interface.scaling == scaling
    exported = f"int16_t quantise_one(uint16_t i, float value) {{ return {feature_function('model')}(i, value); }}\n"
    declared = "int16_t quantise_one(uint16_t i, float value);\n"
    compiled = compile_sources([dataclasses.replace(source, source=source.source + declared + exported)], tmp_path)
    function = compiled.library.quantise_one
    function.restype, function.argtypes = ctypes.c_int16, [ctypes.c_uint16, ctypes.c_float]
    bits, scale = source.interface.input_bits, source.interface.input_scale
    rows = RANDOM.normal(0, 0.4, (50, 12))
    given = rows if scaling is None else rows * scaling.factors + np.array(scaling.offsets)
    given = given.astype(np.float32).astype(np.float64)
    expected = quantise(given if scaling is None else scaling.apply(given), bits, scale)
    found = np.array([[function(i, value) for i, value in enumerate(row)] for row in given])
    assert np.abs(expected).max() < 1 << (bits - 1)
    np.testing.assert_array_equal(found, expected)
    assert function(1, 1e30) == (1 << (bits - 1)) - 1
    assert function(1, -1e30) == -(1 << (bits - 1))
