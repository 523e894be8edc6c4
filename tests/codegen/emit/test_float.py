"""The float build computes what the float evaluator does, but for rounding."""

from __future__ import annotations

import ctypes
import dataclasses
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import booleans

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.byte_weights import eight_bit_weights
from kilotune.codegen.emit.c import CSource
from kilotune.codegen.emit.floats import emit_float_c
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.straight_line import OperationInstance
from tests.codegen.emit.compiled import COMPILERS, WARNINGS, needs_compiler
from tests.codegen.emit.random_programs import RandomModel, random_models
from tests.codegen.emit.small_network import classifier

pytestmark = pytest.mark.slow

MODELS = Path(__file__).parents[3] / "experiments" / "models"
BUNDLES = sorted(path.parent.name for path in MODELS.glob("*/model.sd"))


def run_compiled(source: CSource, features: FloatArray, folder: Path) -> FloatArray:
    (folder / "model.h").write_text(source.header)
    (folder / "model.c").write_text(source.source)
    library = folder / "model.so"
    command = [COMPILERS[0], *WARNINGS, "-O2", "-shared", "-fPIC", "-o", str(library), str(folder / "model.c"), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + source.source
    function = getattr(ctypes.CDLL(str(library)), source.function)
    label = source.interface.kind is ir.ResultKind.CLASS
    function.restype = ctypes.c_int if label else None
    rows = []
    for sample in features:
        x, result = sample.astype(np.float32), np.zeros(source.interface.results, dtype=np.float32)
        arguments = [ctypes.c_void_p(x.ctypes.data)] if source.interface.input_bits else []
        arguments += [] if label else [ctypes.c_void_p(result.ctypes.data)]
        returned = function(*arguments)
        rows.append([returned] if label else result.tolist())
    return np.array(rows, dtype=np.float64)


@needs_compiler
@pytest.mark.parametrize("name", BUNDLES)
def test_shipped_models(name: str, tmp_path: Path) -> None:
    bundle = load_bundle(MODELS / name)
    features = bundle.train.features[:200] if bundle.train else np.zeros((1, 0))
    source = emit_float_c(bundle.program, bundle.parameters)
    expected = run_float(bundle.program, bundle.parameters, features).outputs
    np.testing.assert_allclose(run_compiled(source, features, tmp_path), expected, rtol=2e-4, atol=2e-5)


@needs_compiler
@pytest.mark.parametrize("name", ["bonsai-digits", "lenet-digits", "gru16-digits"])
def test_hybrid_programs_compute_with_the_nearest_of_255_weights(name: str, tmp_path: Path) -> None:
    """The C of 8-bit weights against the float evaluator on them, which are others than the model's: on these the results differ."""
    bundle = load_bundle(MODELS / name)
    assert bundle.train is not None
    program = real_program(bundle.program)
    features = bundle.train.features[:100]
    source = emit_float_c(program, bundle.parameters, byte_weights=True)
    expected = run_float(program, eight_bit_weights(bundle.parameters), features).outputs
    found = run_compiled(source, features, tmp_path)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)
    assert np.abs(found - run_float(program, bundle.parameters, features).outputs).max() > 1e-3
    plain = emit_float_c(program, bundle.parameters)
    assert source.flash_bytes < 0.5 * plain.flash_bytes


def real_program(program: ir.Program) -> ir.Program:
    """The program of a classifier without its last operation, which chooses the class: it returns the scores."""
    *body, last = program.body
    assert isinstance(last, ir.ArgMax)
    kept = tuple(v for v in program.variables if v.name != program.result.variable)
    return dataclasses.replace(program, variables=kept, body=tuple(body), result=last.a, result_kind=ir.ResultKind.REAL)


@needs_compiler
@given(model=random_models(), byte_weights=booleans())
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
def test_random_programs(model: RandomModel, byte_weights: bool) -> None:
    """Programs of any shape, of whole weights and of 8 bits. Where a jump lies between (a sign, a selection, the direction of nothing) or
    values are huge, a rounding error decides, so those only must compile and run.
    """
    parameters = eight_bit_weights(model.parameters) if byte_weights else model.parameters
    tame = True

    def observe(step: OperationInstance, written: FloatArray, read: Sequence[FloatArray]) -> None:
        nonlocal tame
        jumps = isinstance(step.operation, ir.Select | ir.Sign | ir.ArgMax | ir.NormaliseL2)
        tame = tame and not jumps and bool(np.all(np.abs(written) < 1e3))

    expected = run_float(model.program, parameters, model.features, observe).outputs
    with tempfile.TemporaryDirectory() as folder:
        found = run_compiled(
            emit_float_c(model.program, model.parameters, byte_weights=byte_weights), model.features, Path(folder)
        )
    if tame:
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-2)


def test_parameters_are_floats_in_flash() -> None:
    model, _ = classifier()
    source = emit_float_c(model.program, model.parameters)
    values = sum(array.size for array in model.parameters.values())
    assert source.flash_bytes >= 4 * values - 4 * values // 2
    assert "KT_FLASH" in source.source
    assert "int predict(const float *x);" in source.header
