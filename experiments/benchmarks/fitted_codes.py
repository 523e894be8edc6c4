"""What fitting the codes of weights to the whole program is worth on test samples, of the same widths and scales.

    python -m kilotune.experiments.benchmarks.fitted_codes [--trials N] [--generated] [MODEL ...]

For each bundled classifier, or generated model of `small_models` (2000 test samples and more): the least memory at the float model's
training accuracy that a search of N trials finds with narrow, finer and truer parameters and codebooks, then the same candidate with
fitted codes. The inputs that codes are fitted to, and how long, were chosen on the generated models.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator
from kilotune.experiments.benchmarks.small_models import places_of
from kilotune.experiments.benchmarks.stored_parameters import ALL, BUNDLED, searched
from kilotune.experiments.problems.fixed_point.model import task_of
from kilotune.spaces.shiftry.fitted_space import CODES, FITTED, FittedSpace
from kilotune.spaces.shiftry.space import ShiftrySpace


def row(name: str, place: str, trials: int) -> tuple[str, float, float, float]:
    """A line of the table; the test accuracy rounded and fitted, less the float model's, and the ratio of test disagreements."""
    problem, best = searched(place, {"accuracy_drop": 0.0, **ALL}, trials, 1)
    assert best is not None
    assert isinstance(problem.space, ShiftrySpace)
    space, test = FittedSpace(problem.space), problem.space.evaluator.on(task_of(problem.bundle, problem.bundle.test))
    began = time.process_time()
    batches = [problem.space.lower([best.assignment]), space.lower([{**best.assignment, CODES: FITTED}])]
    took = time.process_time() - began
    accuracy = problem.float_metrics()["test"]["accuracy_percent"]
    (rounded, rounded_cells), (fitted, fitted_cells) = (
        cells(problem.space.evaluator, test, batch, accuracy) for batch in batches
    )
    ratio = fitted["disagreements"] / max(rounded["disagreements"], 1.0)
    line = f"| {name} | {best.metrics['flash_bytes']:.0f} | {rounded_cells} | {fitted_cells} | {took:.1f} |"
    return line, rounded["accuracy_percent"] - accuracy, fitted["accuracy_percent"] - accuracy, ratio


def cells(
    train: FixedPointEvaluator, test: FixedPointEvaluator, batch: FixedBatch, accuracy: float
) -> tuple[dict[str, float], str]:
    """Test metrics, and expected flips in training, disagreements and accuracy on test samples in words."""
    seen, unseen = train.measure(batch)[0]["expected_flips"], test.measure(batch)[0]
    return unseen, f"{seen:.2f} | {unseen['disagreements']:.0f} | {unseen['accuracy_percent'] - accuracy:+.2f}"


def main() -> None:
    """Print a row a model, and the means."""
    arguments = argparse.ArgumentParser(description="What fitting the codes of weights is worth on test samples.")
    arguments.add_argument("models", nargs="*")
    arguments.add_argument("--trials", type=int, default=6000)
    arguments.add_argument("--generated", action="store_true")
    given = arguments.parse_args()
    print("| model | flash | rounded: flips | test differs | test | fitted: flips | test differs | test | CPU-s |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="kilotune-fitted-") as folder:
        changes = []
        names = given.models or (() if given.generated else BUNDLED)
        for name, place in places_of(names, given.generated, Path(folder)):
            line, *change = row(name, place, given.trials)
            print(line, flush=True)
            changes.append(change)
    rounded, fitted, ratio = np.mean(changes, axis=0)
    print(f"mean: test accuracy {rounded:+.2f} rounded, {fitted:+.2f} fitted; {100 * (ratio - 1):+.0f} % disagreements")


if __name__ == "__main__":
    main()
