"""The facade of the simulator: which execution runs, where the kernel is kept, what data shapes it takes."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.evaluators.fixed_point.reference import run_reference
from kilotune.evaluators.fixed_point.simulator import Backend, Simulator

from ..spaces.small_network import small_network

needs_compiler = pytest.mark.skipif(
    not any(shutil.which(c) for c in ("cc", "gcc", "clang")), reason="no C compiler on this machine"
)

PROBE = """
import sys
from kilotune.evaluators.fixed_point.simulator import Simulator
from tests.spaces.small_network import small_network
from tests.evaluators.test_simulator import outputs_of
task = small_network()
simulator = Simulator(task.program, task.parameters, task.features)
print(simulator.description, int(outputs_of(simulator).sum()))
"""


def outputs_of(simulator: Simulator, count: int = 3) -> np.ndarray:
    rng = np.random.default_rng(0)
    variables = len(simulator.program.variables)
    lowering = ShiftryLowering(simulator.program, {})
    batch = lowering.lower(rng.choice([8, 16], (count, variables)), rng.integers(3, 9, (count, variables)))
    outputs = simulator.run(batch)
    assert np.array_equal(outputs, run_reference(batch, simulator.parameters, simulator.features))
    return outputs


def probe(folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "KILOTUNE_CACHE": str(folder), **environment},
    )
    return done.stdout.strip()


def test_without_a_compiler_numpy_computes_the_same(tmp_path: Path) -> None:
    task = small_network()
    here = int(outputs_of(Simulator(task.program, task.parameters, task.features)).sum())
    assert probe(tmp_path, PATH="/nonexistent", CC="") == f"NumPy {here}"
    assert list(tmp_path.iterdir()) == []


def test_a_compiler_on_the_path_that_fails_is_no_compiler(tmp_path: Path) -> None:
    """One that was chosen with $CC is refused instead: see test_compiled_library.py."""
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    assert probe(tmp_path / "cache", PATH=str(tmp_path), CC="").startswith("NumPy ")


@pytest.mark.slow
@needs_compiler
def test_the_kernel_is_built_once_and_kept(tmp_path: Path) -> None:
    first = probe(tmp_path, CC="cc -O0")  # as it would be at any level, at a fraction of what -O3 takes
    built = sorted(tmp_path.iterdir())
    assert 1 <= len(built) <= 2  # blocks of 64 samples, and of 128 where the vector unit is wide enough
    written = [library.stat().st_mtime_ns for library in built]
    assert probe(tmp_path, CC="cc -O0") == first
    assert first.startswith("C kernel")
    assert sorted(tmp_path.iterdir()) == built
    assert [library.stat().st_mtime_ns for library in built] == written


@needs_compiler
@pytest.mark.parametrize("samples", [1, 63, 64, 65, 90])
def test_any_number_of_samples(samples: int) -> None:
    task = small_network()
    outputs = outputs_of(Simulator(task.program, task.parameters, task.features[:samples], Backend.NATIVE))
    assert outputs.shape == (3, samples, 1)


@needs_compiler
def test_a_candidate_is_the_same_in_any_batch() -> None:
    task = small_network()
    simulator = Simulator(task.program, task.parameters, task.features, Backend.NATIVE)
    lowering = ShiftryLowering(task.program, {})
    rng = np.random.default_rng(3)
    batch = lowering.lower(rng.choice([8, 16], (40, 13)), rng.integers(3, 9, (40, 13)))
    together = simulator.run(batch)
    for index in (0, 17, 39):
        assert np.array_equal(simulator.run(batch.one(index))[0], together[index])


def test_simulators_travel_without_their_caches() -> None:
    task = small_network()
    simulator = Simulator(task.program, task.parameters, task.features)
    outputs = outputs_of(simulator)
    assert np.array_equal(outputs_of(pickle.loads(pickle.dumps(simulator))), outputs)


@pytest.mark.parametrize("name", ["W", "X"])
def test_a_program_may_return_what_it_was_given(name: str) -> None:
    """The kernel holds no parameters in its storage; a result that is one comes from NumPy."""
    here = ir.Location("test", 1, 1)
    x = ir.Variable("X", (2, 1), ir.Role.INPUT, here)
    w = ir.Variable("W", (2, 1), ir.Role.PARAMETER, here)
    program = ir.Program("echo", (x, w), (), ir.whole({"X": x, "W": w}[name]), ir.ResultKind.REAL)
    features = np.array([[0.5, -0.25], [0.125, 0.75]])
    parameters = {"W": np.array([[0.5], [-1.0]])}
    batch = ShiftryLowering(program, {}).lower([[16, 16]], [[8, 8]])
    outputs = Simulator(program, parameters, features).run(batch)
    assert np.array_equal(outputs, run_reference(batch, parameters, features))
    assert outputs[0].tolist() == ([[128, -64], [32, 192]] if name == "X" else [[128, -256]] * 2)
