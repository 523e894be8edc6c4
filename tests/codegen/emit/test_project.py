"""Exported folders build and check themselves."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from kilotune.codegen import ir
from kilotune.codegen.emit.c import CSource, emit_c
from kilotune.codegen.emit.targets.recording import Recording
from kilotune.codegen.fixed.arithmetic import quantise_features
from kilotune.evaluators.fixed_point.reference import run_reference
from tests.codegen.emit.compiled import needs_compiler
from tests.codegen.emit.small_network import classifier
from tests.codegen.emit.written import write_project

pytestmark = pytest.mark.slow

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def recorded(kind: ir.ResultKind) -> tuple[CSource, Recording]:
    model, batch = classifier(result_kind=kind)
    source = emit_c(batch, model.parameters)
    inputs = quantise_features(model.features, source.interface.input_bits, source.interface.input_scale)
    return source, Recording(inputs, run_reference(batch, model.parameters, model.features)[0])


def make_check(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "-C", str(folder), "check"], capture_output=True, text=True, check=False)


@needs_compiler
@needs_make
@pytest.mark.parametrize("kind", list(ir.ResultKind))
def test_project_checks_itself(kind: ir.ResultKind, tmp_path: Path) -> None:
    source, recording = recorded(kind)
    write_project(tmp_path / "out", source, recording, {"variables": {"W": {"bits": 16, "scale": 13}}})
    done = make_check(tmp_path / "out")
    assert "20 of 20 outputs equal" in done.stdout
    assert done.returncode == 0
    assert json.loads((tmp_path / "out" / "decisions.json").read_text())["variables"]["W"]["bits"] == 16


@needs_compiler
@needs_make
def test_a_wrong_output_is_seen(tmp_path: Path) -> None:
    source, recording = recorded(ir.ResultKind.REAL)
    outputs = recording.outputs.copy()
    outputs[3, 1] += 1
    write_project(tmp_path / "out", source, Recording(recording.inputs, outputs), {})
    done = make_check(tmp_path / "out")
    assert "19 of 20 outputs equal" in done.stdout
    assert done.returncode != 0


def test_a_recording_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    source, recording = recorded(ir.ResultKind.CLASS)
    with pytest.raises(ValueError, match="recorded inputs have shape"):
        write_project(tmp_path / "out", source, Recording(recording.inputs[:, :3], recording.outputs), {})
    with pytest.raises(ValueError, match="do not fit 16 bits"):
        write_project(tmp_path / "out", source, Recording(recording.inputs + 100000, recording.outputs), {})
    assert not (tmp_path / "out").exists()
