"""What numerical programs are compared with: targets, where there is one for what is returned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kilotune.codegen.language.elaborate import elaborate
from kilotune.codegen.language.parser import parse
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.space import ShiftrySpace

FEATURES = np.array([[0.3], [0.7], [-0.9]])


def task(results: int, targets: np.ndarray) -> Task:
    """A program that returns its one feature times 1, or times 1 and 2."""
    weights = np.array([[1.0, 2.0]])[:, :results]
    program = elaborate(
        parse(f"let X = (1, 1) in [-1.0, 1.0] in let W = (1, {results}) in [1.0, 2.0] in X * W"), "test"
    )
    return Task(program, {"W": weights}, FEATURES, targets)


def test_the_mean_absolute_error_is_against_the_targets_of_the_one_result() -> None:
    space = ShiftrySpace(task(1, np.array([1.0, 0.5, -1.0])), ShiftryOptions())
    assert space.evaluator.float_metrics["mean_absolute_error"] == pytest.approx((0.7 + 0.2 + 0.1) / 3)
    found = space.evaluate([{decision.name: decision.options[0] for decision in space.decisions}])[0].metrics
    assert found["mean_absolute_error"] == pytest.approx((0.7 + 0.2 + 0.1) / 3, abs=found["precision_loss"])


def test_one_target_is_none_of_several_results() -> None:
    asked = task(2, np.array([1.0, 0.5, -1.0]))
    space = ShiftrySpace(asked, ShiftryOptions())
    assert space.evaluator.float_metrics == {}
    found = space.evaluate([{decision.name: decision.options[0] for decision in space.decisions}])[0].metrics
    assert "mean_absolute_error" not in found
    assert found["expected_error"] > 0
    assert asked.fingerprint == replace(asked, targets=None).fingerprint  # so older measurements are of another task
    one = task(1, np.array([1.0, 0.5, -1.0]))
    assert one.fingerprint != replace(one, targets=None).fingerprint
