"""Features that have one value in all training samples, in windows of time too, through the functions of the exported header."""

from __future__ import annotations

import ctypes
import dataclasses
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.bundle import Bundle
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.emit.feature_quantiser import feature_function
from kilotune.codegen.fixed.arithmetic import exponent, quantise
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.importing import import_bundle
from tests.codegen.emit.compiled import CompiledBatch, compile_sources, needs_compiler
from tests.codegen.trained.cases import draw
from tests.codegen.trained.onnx_files import Case, reference

SAMPLES, TIMES, CHANNELS, STILL = 30, 5, 4, 2
SIZES = np.array([1e-3, 1.0, 1.0, 1e3])
MEANS, FACTORS = 3 * SIZES, 1 / SIZES
BITS = 16
SMALL = 0.1
VALUES = [0.0, 5.0, -101325.0, 16777217.0, SMALL]


def windows(value: float, channels_last: bool) -> np.ndarray:
    """Of `SAMPLES`, one channel of which is the same at all times."""
    random = np.random.default_rng(3)
    found = MEANS + SIZES * random.normal(0, 1, (SAMPLES, TIMES, CHANNELS))
    found[..., STILL] = value
    return (found if channels_last else np.moveaxis(found, 2, 1)).reshape(SAMPLES, -1)


def scaled(value: float) -> dict[str, np.ndarray]:
    """Constants of a scaler, which divides what never changes by 1."""
    means, factors = MEANS.copy(), FACTORS.copy()
    means[STILL], factors[STILL] = value, 1.0
    return {"o": np.float32(means), "f": np.float32(factors)}


def steps_first(value: float) -> tuple[Case, np.ndarray]:
    """Windows [time, channel] behind a scaler, then weights."""
    nodes = [("Sub", ["x", "o"], ["m"], {}), ("Mul", ["m", "f"], ["s"], {}), ("MatMul", ["s", "w"], ["y"], {})]
    constants = {**scaled(value), "w": draw(CHANNELS, 3)}
    return Case("steps", (1, TIMES, CHANNELS), nodes, constants), windows(value, True)


def channels_first(value: float) -> tuple[Case, np.ndarray]:
    """Windows [channel, time] behind a scaler, then a convolution that pads them."""
    nodes = [
        ("Sub", ["x", "o"], ["m"], {}),
        ("Mul", ["m", "f"], ["s"], {}),
        ("Conv", ["s", "k"], ["y"], {"pads": [1, 1]}),
    ]
    constants = {**{name: values[:, None] for name, values in scaled(value).items()}, "k": draw(2, CHANNELS, 3)}
    return Case("channels", (1, CHANNELS, TIMES), nodes, constants), windows(value, False)


def imported(case: Case, features: np.ndarray, folder: Path) -> tuple[Bundle, np.ndarray]:
    """And what the file itself makes of the features."""
    path = case.write(folder)
    np.savez(folder / "d.npz", X=features)
    return import_bundle(path, folder / "d.npz", returns=Returns.VALUE), reference(path, features).reshape(SAMPLES, -1)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("made", [steps_first, channels_first])
def test_a_channel_that_never_changes_is_zero_at_all_times(made: object, value: float, tmp_path: Path) -> None:
    case, features = steps_first(value) if made is steps_first else channels_first(value)
    bundle, expected = imported(case, features, tmp_path)
    assert bundle.scaling is not None
    assert bundle.train is not None
    places = np.arange(TIMES * CHANNELS).reshape(case.shape[1:])
    still = (places[:, STILL] if made is steps_first else places[STILL]).tolist()
    assert (bundle.train.features[:, still] == 0).all()
    assert {bundle.scaling.offsets[place] for place in still} == {float(np.float32(value))}
    assert {bundle.scaling.exponents[place] for place in still} == {
        1 if value != SMALL else -2
    }  # what it was, or may become
    found = run_float(bundle.program, bundle.parameters, bundle.train.features).outputs
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_a_channel_that_padding_leaves_in_its_place_keeps_its_value(tmp_path: Path) -> None:
    """Zeros that a convolution pads with are no other value than 0."""
    features = windows(5.0, False)
    case = Case(
        "plain", (1, CHANNELS, TIMES), [("Conv", ["x", "k"], ["y"], {"pads": [1, 1]})], {"k": draw(2, CHANNELS, 3)}
    )
    bundle, expected = imported(case, features, tmp_path)
    assert bundle.scaling is not None
    assert bundle.train is not None
    assert not any(bundle.scaling.offsets)
    found = run_float(bundle.program, bundle.parameters, bundle.train.features).outputs
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


@needs_compiler
@pytest.mark.parametrize("value", VALUES)
def test_the_exported_header_takes_windows_as_the_search_does(value: float, tmp_path: Path) -> None:
    bundle, expected = imported(*steps_first(value), tmp_path)
    assert bundle.train is not None
    assert bundle.scaling is not None
    compiled, scale = compiled_with_header(bundle, expected, tmp_path)
    rows = windows(value, True).astype(np.float32)
    found = np.array([[compiled.library.quantise_one(i, v) for i, v in enumerate(row)] for row in rows.tolist()])
    np.testing.assert_array_equal(
        found, quantise(bundle.train.features, BITS, compiled.sources[0].interface.input_scale)
    )
    assert (found.reshape(-1, TIMES, CHANNELS)[..., STILL] == 0).all()
    outputs = compiled.run_integers(0, found) / 2.0**scale
    np.testing.assert_allclose(outputs, expected, atol=2e-3 * np.abs(expected).max())


def compiled_with_header(bundle: Bundle, expected: np.ndarray, folder: Path) -> tuple[CompiledBatch, int]:
    """The program in `BITS` with its header, whose function for features `quantise_one` calls; and the scale of its results."""
    largest = {name: float(np.abs(values).max()) for name, values in bundle.parameters.items()}
    for variable in bundle.program.variables:
        largest.setdefault(variable.name, 1.0 if variable.role.name == "INPUT" else 4 * float(np.abs(expected).max()))
    scales = [BITS - 1 - exponent(largest[variable.name]) for variable in bundle.program.variables]
    widths = np.full((1, len(scales)), BITS)
    batch = ShiftryLowering(bundle.program, {}).lower(widths, np.array([scales]))
    source = emit_c(batch, bundle.parameters, scaling=bundle.scaling)
    wrapper = f"int16_t quantise_one(uint16_t i, float value) {{ return {feature_function(source.name)}(i, value); }}\n"
    whole = source.source + "int16_t quantise_one(uint16_t i, float value);\n" + wrapper
    compiled = compile_sources([dataclasses.replace(source, source=whole)], folder)
    function = compiled.library.quantise_one
    function.restype, function.argtypes = ctypes.c_int16, [ctypes.c_uint16, ctypes.c_float]
    return compiled, source.interface.result_scale
