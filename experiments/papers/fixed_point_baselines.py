"""Fixed-point programs as they were made before Shiftry, and what any program reaches on test samples and on a board.

Hybrid: 8-bit weights and arithmetic in floats, as TensorFlow Lite's hybrid kernels have it. Wide: 32-bit integers with the scales that
SeeDot's brute force finds. `ap_fixed`: one width and one scale for all variables, truncated and wrapped around (SeeDot's Figure 12).
Accuracies are in percent of the test samples.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.bundle import Bundle
from kilotune.codegen.byte_weights import eight_bit_weights
from kilotune.codegen.dataset import Dataset
from kilotune.codegen.emit.floats import emit_float_c
from kilotune.codegen.fixed.arithmetic import Rounding, quantise
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.float_evaluator import run_float
from kilotune.evaluators.divergence import DivergenceError
from kilotune.evaluators.fixed_point.simulator import Simulator
from kilotune.evaluators.on_device import measure_artefact, measure_checked
from kilotune.evaluators.simulated import DeviceError, of_emitted
from kilotune.experiments.problems.fixed_point.export import emit_program
from kilotune.experiments.problems.fixed_point.model import TunedModel
from kilotune.experiments.problems.fixed_point.problem import build_problem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.space import Assignment
from kilotune.spaces.seedot.space import COVERAGES, TABLE_INDEX_BITS, SeeDotSpace
from kilotune.spaces.shiftry.candidates import ShiftryCandidates

SEARCHED = 600
"""Training samples of a search."""

COMPARED = 300
"""Test samples whose outputs on the device are compared with the search's."""

COMPARED_FLOATS = 60
"""Test samples of programs in floats, which take long."""

WIDE_SAMPLES = 100
"""Training samples that decide about the maxscale of 32-bit programs, which run in the slow simulator."""

WIDE_SCALES = range(10, 30, 2)


def with_fewer_samples(bundle: Bundle, most: int = SEARCHED) -> Bundle:
    """The bundle with at most so many training samples, the first ones."""
    assert bundle.train is not None
    if len(bundle.train.features) <= most:
        return bundle
    train = dataclasses.replace(
        bundle.train, features=bundle.train.features[:most], targets=bundle.train.targets[:most]
    )
    return dataclasses.replace(bundle, train=train)


def on_board(problem: TunedModel, assignment: Assignment, test: Dataset) -> dict[str, Any]:
    """A program's accuracy on all test samples, and its bytes and cycles on the board; DivergenceError when an output differs there."""
    board, batch = problem.options.board, problem.lower(assignment)
    assert board is not None
    outputs = Simulator(batch.program, problem.bundle.parameters, test.features).run(batch)[0]
    accuracy = _percent(outputs, test)
    source, count = emit_program(problem, batch), min(COMPARED, len(outputs))
    try:
        found = measure_checked(board, source, batch, problem.bundle.parameters, test.features[:count], outputs[:count])
    except DivergenceError:
        raise
    except DeviceError as error:
        return {"accuracy": accuracy, "does_not_run": str(error)[:200]}
    if not found.fits:
        return {"accuracy": accuracy, "does_not_run": f"{found.sizes.flash_bytes} B of flash, {found.ram_bytes} of RAM"}
    return {
        "accuracy": accuracy,
        "flash": found.sizes.flash_bytes,
        "ram": found.ram_bytes,
        "cycles": found.cycles,
        "equal": count,
    }


def hybrid_on_board(problem: TunedModel, test: Dataset) -> dict[str, Any]:
    """The accuracy of 8-bit weights with arithmetic in floats on all test samples, and what that program takes on the board; `equal`: how
    many of its first test samples have the class there that the float evaluator gives them."""
    board, bundle = problem.options.board, problem.bundle
    assert board is not None
    outputs = run_float(bundle.program, eight_bit_weights(bundle.parameters), test.features).outputs
    artefact = of_emitted(emit_float_c(bundle.program, bundle.parameters, byte_weights=True))
    features = test.features[:COMPARED_FLOATS].astype(np.float32)
    try:
        found = measure_artefact(board, artefact, features, f"-{problem.level}")
    except DeviceError as error:
        return {"accuracy": _percent(outputs, test), "does_not_run": str(error)[:200]}
    same = found.run.outputs.reshape(-1) == outputs[: len(features), 0]
    return {
        "accuracy": _percent(outputs, test),
        "flash": found.sizes.flash_bytes,
        "ram": found.ram_bytes,
        "cycles": found.cycles,
        "equal": int(same.sum()),
        "compared": len(features),
    }


def float_accuracy(bundle: Bundle, parameters: Mapping[str, FloatArray], test: Dataset) -> float:
    """The test accuracy of a bundle's float model with these parameters."""
    return _percent(run_float(bundle.program, parameters, test.features).outputs, test)


def uniform(space: ShiftryCandidates, test: Dataset, bits: int) -> float:
    """The accuracy of the best `ap_fixed<bits, I>` over I, on the test samples: one scale for all variables, floor and wraparound."""
    lowering = dataclasses.replace(space.lowering, rounding=Rounding.FLOOR)
    assert isinstance(lowering, ShiftryLowering)
    count = len(space.task.program.variables)
    scales = np.repeat(np.arange(bits)[:, None], count, axis=1)
    batch = lowering.lower(np.full((bits, count), bits), scales)
    return max(
        program_accuracy(batch.one(scale), _wrapped(space.task.parameters, bits, scale), test) for scale in range(bits)
    )


def _wrapped(parameters: Mapping[str, FloatArray], bits: int, scale: int) -> dict[str, FloatArray]:
    """What numbers beyond the range of a format become in it without saturation."""
    return {name: np.ldexp(quantise(values, bits, scale), -scale) for name, values in parameters.items()}


def wide(path: Path, test: Dataset) -> float:
    """The test accuracy of 32-bit programs, of which the maxscale is chosen on some training samples."""
    found = build_problem(TuneRequest("seedot", str(path), "exhaustive"))
    assert found.bundle.train is not None
    assert isinstance(found.space, SeeDotSpace)
    task = dataclasses.replace(
        found.space.task,
        features=found.bundle.train.features[:WIDE_SAMPLES],
        targets=found.bundle.train.targets[:WIDE_SAMPLES].astype(np.float64),
    )
    space = SeeDotSpace(task, found.space.options)
    tables = {"table_index_bits": TABLE_INDEX_BITS[0], "coverage": COVERAGES[-1]} if space.exponentials else {}
    candidates: list[Assignment] = [{"bitwidth": 32, "maxscale": scale, **tables} for scale in WIDE_SCALES]
    reached = [float(m.metrics["accuracy_percent"]) for m in space.evaluate(candidates)]
    return program_accuracy(space.lower(candidates[int(np.argmax(reached))]), task.parameters, test)


def program_accuracy(batch: FixedBatch, parameters: Mapping[str, FloatArray], test: Dataset) -> float:
    """The test accuracy of the only program of `batch`."""
    return _percent(Simulator(batch.program, parameters, test.features).run(batch)[0], test)


def _percent(outputs: IntArray | FloatArray, test: Dataset) -> float:
    """How many samples are of the class in the first column."""
    return 100.0 * float((outputs[:, 0] == test.targets).mean())
