"""Every operator of trained models: the float program against onnxruntime, and the C against the simulators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.profile import profile
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.evaluators.fixed_point.simulator import Backend, Simulator
from tests.codegen.emit.compiled import SANITISED, compile_sources, needs_compiler
from tests.codegen.trained.cases import CASES, FOLDS
from tests.codegen.trained.onnx_files import Case, converted, float_results, reference


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_float_program_is_the_file(case: Case, tmp_path: Path) -> None:
    path = case.write(tmp_path)
    expected = reference(path, case.features)
    found = float_results(converted(path), case.features)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def _lowered(case: Case, folder: Path, bits: int) -> tuple[FixedBatch, dict[str, np.ndarray]]:
    """The program with every variable at so many bits and the scale that its range asks for."""
    made = converted(case.write(folder))
    seen, _ = profile(made.program, made.parameters, case.features)
    lowering = ShiftryLowering(made.program, made.parameters)
    magnitudes = [
        max(abs(seen.minimum.get(v.name, 0)), abs(seen.maximum.get(v.name, 0))) for v in made.program.variables
    ]
    scales = [bits - 2 - int(np.ceil(np.log2(max(m, 2.0**-8)))) for m in magnitudes]
    columns = np.full((1, len(scales)), bits)
    return lowering.lower(columns, np.array([scales])), made.parameters


@pytest.mark.parametrize("end", [-100, -(2**31), -(2**63)])
def test_a_slice_that_goes_forward_to_before_the_first_place_has_none(end: int, tmp_path: Path) -> None:
    """However far before it the end is (found by a reader: from -2**31 on all places were taken)."""
    spans = {name: np.array([value]) for name, value in (("s", -5), ("e", end), ("a", 1), ("t", 1))}
    case = Case("nothing", (1, 8, 3), [("Slice", ["x", "s", "e", "a", "t"], ["y"], {})], spans)
    with pytest.raises(InputError, match="expected at least one place of an axis of 8"):
        converted(case.write(tmp_path))


@needs_compiler
def test_c_and_both_simulators_agree_on_every_operator(tmp_path: Path) -> None:
    """What converters make of layouts (images with channels last, broadcasts, slices) no other front end makes."""
    made = [_lowered(case, tmp_path, 16 if number % 3 else 8) for number, case in enumerate(CASES)]
    sources = [
        emit_c(batch, parameters, name=f"m{number}", function=f"predict{number}")
        for number, (batch, parameters) in enumerate(made)
    ]
    compiled = compile_sources(sources, tmp_path, SANITISED)
    for number, (case, (batch, parameters)) in enumerate(zip(CASES, made, strict=True)):
        expected = run_reference(batch, parameters, case.features)
        np.testing.assert_array_equal(compiled.run(number, case.features), expected[0], err_msg=case.name)
        found = Simulator(batch.program, parameters, case.features, Backend.NATIVE).run(batch)
        np.testing.assert_array_equal(found, expected, err_msg=case.name)


def test_a_state_of_which_only_the_last_is_read_is_not_kept_for_every_step(tmp_path: Path) -> None:
    kept = {case.name: converted(case.write(tmp_path)).program for case in CASES if case.name.startswith("gru-")}
    sizes = {name: max(v.size for v in made.variables if v.role is ir.Role.TEMPORARY) for name, made in kept.items()}
    assert sizes["gru-last"] == sizes["gru-linear"] == 8
    assert sizes["gru-steps"] == 20


@pytest.mark.parametrize("case", FOLDS, ids=lambda case: case.name)
def test_factors_and_offsets_become_part_of_the_weights(case: Case, tmp_path: Path) -> None:
    body = converted(case.write(tmp_path)).program.body
    assert sum(isinstance(operation, ir.MatMul | ir.Conv2D) for operation in body) == 1
    assert all(isinstance(operation, ir.MatMul | ir.Conv2D | ir.Add) for operation in body)
    assert len(body) == 2  # the product and its bias
