"""A TensorFlow Lite file that is one step of a stream, with its states in variables: over all frames of a sample it is TensorFlow's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.bundle import Bundle
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.tflite.model_file import TfliteOperator, read_subgraphs
from kilotune.codegen.trained import tflite_models
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.importing import import_bundle

DATA = Path(__file__).parent / "data"
KNOWN = np.load(DATA / "stream.npz")


def _imported(features: np.ndarray, folder: Path) -> Bundle:
    np.savez(folder / "d.npz", X=features)
    return import_bundle(DATA / "stream.tflite", folder / "d.npz", returns=Returns.VALUE)


def test_the_program_is_the_file_called_with_every_frame(tmp_path: Path) -> None:
    bundle = _imported(KNOWN["X"], tmp_path)
    found = run_float(bundle.program, bundle.parameters, np.asarray(KNOWN["X"], dtype=np.float64)).outputs
    np.testing.assert_allclose(found, KNOWN["results"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("frames", [1, 7])
def test_what_no_state_hangs_on_is_done_once(frames: int, tmp_path: Path) -> None:
    program = _imported(KNOWN["X"][:, : 4 * frames], tmp_path).program
    (loop,) = (statement for statement in program.body if isinstance(statement, ir.Loop))
    assert loop.count == frames
    assert sum(isinstance(operation, ir.MatMul) for operation in ir.operations(loop.body)) == 3
    assert (
        sum(isinstance(statement, ir.MatMul) for statement in program.body) == 2
    )  # the scores, and the mean of a frame


def test_frames_that_are_not_whole_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"array X: expected whole frames of 4 features \(1x1x4\), .*, found 27"):
        _imported(KNOWN["X"][:, :27], tmp_path)


def _with(monkeypatch: pytest.MonkeyPatch, graph: int, kind: str, change: Any) -> None:
    """The file with some operators of a subgraph changed."""
    graphs = list(read_subgraphs(DATA / "stream.tflite"))
    operators = tuple(change(one) if one.kind == kind else one for one in graphs[graph].operators)
    graphs[graph] = replace(graphs[graph], operators=operators)
    monkeypatch.setattr(tflite_models, "read_subgraphs", lambda path: tuple(graphs))


def test_a_variable_without_a_first_value_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _with(monkeypatch, 0, "CALL_ONCE", lambda one: TfliteOperator(0, "VAR_HANDLE", (), (0,), {"SharedName": "other"}))
    with pytest.raises(
        InputError, match=r"READ_VARIABLE .*: expected a variable with a first value \(CALL_ONCE\), found none"
    ):
        _imported(KNOWN["X"], tmp_path)


def test_first_values_that_are_computed_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _with(monkeypatch, 1, "ASSIGN_VARIABLE", lambda one: replace(one, kind="ADD"))
    with pytest.raises(InputError, match="expected constants as first values of variables, found ADD"):
        _imported(KNOWN["X"], tmp_path)
