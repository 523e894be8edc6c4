"""What training the codes of weights with the labels is worth on test samples, of the same widths and scales.

    python -m kilotune.experiments.benchmarks.trained_codes [--share SHARE] [--trials N] [--seed N] [--generated] [MODEL ...]

For each bundled classifier, or generated model of `small_models` (2000 test samples and more): the most precise program that a search of N
trials finds within a share of the flash that the best of 8 and 16 bits takes, parameters stored in every way, then the same candidate with
fitted and with trained codes. *Delivered* is the trained or the rounded one, as `tune --trained` chooses. Accuracies are in points beside
the float model's: of training samples, of test samples, and how many of these differ from the float model.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from kilotune.codegen.fixed.table import FixedBatch
from kilotune.evaluators.fixed_point.fresh_inputs import Finalist, paired_errors
from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator
from kilotune.experiments.benchmarks.small_models import places_of
from kilotune.experiments.benchmarks.stored_parameters import ALL, BUNDLED, flash_of_8_and_16, searched
from kilotune.experiments.problems.fixed_point.model import ANY, task_of
from kilotune.spaces.shiftry.fitted_space import CODES, FITTED, TRAINED, FittedSpace
from kilotune.spaces.shiftry.space import ShiftrySpace


def row(name: str, place: str, share: float, trials: int, seed: int) -> tuple[str, list[float]]:
    """A line of the table; test accuracies rounded, fitted, trained and delivered, less the float model's, none without a program."""
    limit = int(share * flash_of_8_and_16(place, trials))
    problem, best = searched(place, {"flash_limit_bytes": limit, "rounding": ANY, **ALL}, trials, seed)
    if best is None:
        return f"| {name} | {limit} | no program within it | | | | | |", []
    assert isinstance(problem.space, ShiftrySpace)
    own = FittedSpace(problem.space, (FITTED, TRAINED))
    samples = problem.space.evaluator
    test = samples.on(task_of(problem.bundle, problem.bundle.test))
    batches, took = [problem.space.lower([best.assignment])], []
    for way in (FITTED, TRAINED):
        began = time.process_time()
        batches.append(own.lower([{**best.assignment, CODES: way}]))
        took.append(f"{time.process_time() - began:.0f}")
    rounded, _, trained = batches
    errors = paired_errors(Finalist(samples, rounded), Finalist(samples, trained))
    delivered = 2 if errors is not None and errors.only_second < errors.only_first else 0
    accuracy = problem.float_metrics()
    found = [losses(samples, test, batch, accuracy) for batch in batches]
    cells = " | ".join(f"{train:+.2f}, {tested:+.2f}, {differ:.0f}" for train, tested, differ in found)
    said = f"{accuracy['train']['accuracy_percent']:.2f}, {accuracy['test']['accuracy_percent']:.2f}"
    line = f"| {name} | {limit} | {said} | {cells} | {('rounded', '', 'trained')[delivered]} | {', '.join(took)} |"
    return line, [tested for _, tested, _ in (*found, found[delivered])]


def losses(
    train: FixedPointEvaluator, test: FixedPointEvaluator, batch: FixedBatch, of_float: dict[str, dict[str, float]]
) -> tuple[float, float, float]:
    """Points of training and test accuracy beside the float model's, and test samples that differ from it."""
    seen, unseen = train.measure(batch)[0], test.measure(batch)[0]
    return (
        seen["accuracy_percent"] - of_float["train"]["accuracy_percent"],
        unseen["accuracy_percent"] - of_float["test"]["accuracy_percent"],
        unseen["disagreements"],
    )


def main() -> None:
    """Print a row a model, and the means."""
    arguments = argparse.ArgumentParser(description="What training the codes of weights is worth on test samples.")
    arguments.add_argument("models", nargs="*")
    arguments.add_argument("--share", type=float, default=0.6)
    arguments.add_argument("--trials", type=int, default=3000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--generated", action="store_true")
    given = arguments.parse_args()
    print(
        "| model | flash | float: train, test | rounded: train, test, differ | fitted | trained | delivered | CPU-s |"
    )
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="kilotune-trained-") as folder:
        found = []
        names = given.models or (() if given.generated else BUNDLED)
        for name, place in places_of(names, given.generated, Path(folder)):
            line, tested = row(name, place, given.share, given.trials, given.seed)
            print(line, flush=True)
            found += [tested] if tested else []
    means = zip(("rounded", "fitted", "trained", "delivered"), np.mean(found, axis=0), strict=True)
    print("mean test accuracy beside the float model: " + ", ".join(f"{name} {mean:+.2f}" for name, mean in means))


if __name__ == "__main__":
    main()
