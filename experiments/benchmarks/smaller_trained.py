"""How much smaller programs get that are trained for formats which rounding does not make good.

    python -m kilotune.experiments.benchmarks.smaller_trained [--drop POINTS] [--trials N] [--seed N] [--generated] [MODEL ...]

For each bundled classifier, or generated model of `small_models` (2000 test samples and more): what `tune --trained` delivers where the
least memory is asked for, parameters stored in every way, beside the smallest program of the same search with rounded codes. Accuracies are
in points beside the float model's, of training and of test samples; memory is flash and RAM together.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from kilotune.experiments.benchmarks.small_models import places_of
from kilotune.experiments.benchmarks.stored_parameters import ALL, BUNDLED
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.fixed_point.model import ANY
from kilotune.experiments.problems.fixed_point.problem import ModelProblem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.experiments.studies.command_time import CommandTime
from kilotune.experiments.studies.tuning import run
from kilotune.experiments.studies.workplace import Workplace
from kilotune.search.budget import Budget
from kilotune.search.front import Ranking
from kilotune.search.space import Trial
from kilotune.search.study import Study


def row(name: str, place: str, drop: float, trials: int, seed: int) -> tuple[str, list[float]]:
    """A line of the table; memory of what is delivered as a share of the rounded one's, and test accuracies of both; none without them."""
    began = time.process_time()
    options = {"accuracy_drop": drop, "rounding": ANY, "trained": True, **ALL}
    problem = build_problem(TuneRequest("shiftry", place, "refine", options=options))
    assert isinstance(problem, ModelProblem)
    study = Study(problem.space, "refine", seed)
    best = run(problem, study, CommandTime(Budget(trials=trials)), Workplace(cached=False), None).result.best
    in_order = study.book.best_first(Ranking.of(problem.space))
    rounded = next((trial for trial in in_order if not problem.is_trained(trial.assignment)), None)
    if best is None or rounded is None:
        return f"| {name} | no program within {drop:g} points | | | |", []
    before, after = (trial.metrics["memory_bytes"] for trial in (rounded, best))
    losses = [_losses(problem, trial) for trial in (rounded, best)]
    cells = " | ".join(
        f"{size:.0f} | {train:+.2f}, {test:+.2f}" for size, (train, test) in zip((before, after), losses, strict=True)
    )
    line = f"| {name} | {cells} | {after / before:.2f} | {time.process_time() - began:.0f} |"
    return line, [after / before, losses[0][1], losses[1][1]]


def _losses(problem: ModelProblem, trial: Trial) -> tuple[float, float]:
    """Points of training and test accuracy beside the float model's."""
    test, accuracy = problem.test_metrics(trial.assignment), problem.float_metrics()
    assert test is not None
    return (
        trial.metrics["accuracy_percent"] - accuracy["train"]["accuracy_percent"],
        test["accuracy_percent"] - accuracy["test"]["accuracy_percent"],
    )


def main() -> None:
    """Print a row a model, and the means."""
    arguments = argparse.ArgumentParser(description="How much smaller trained programs get.")
    arguments.add_argument("models", nargs="*")
    arguments.add_argument("--drop", type=float, default=0.0)
    arguments.add_argument("--trials", type=int, default=2000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--generated", action="store_true")
    given = arguments.parse_args()
    print("| model | rounded | train, test | delivered | train, test | share | CPU-s |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="kilotune-smaller-") as folder:
        found = []
        names = given.models or (() if given.generated else BUNDLED)
        for name, place in places_of(names, given.generated, Path(folder)):
            line, figures = row(name, place, given.drop, given.trials, given.seed)
            print(line, flush=True)
            found += [figures] if figures else []
    share, rounded, delivered = np.mean(found, axis=0)
    print(f"means: {share:.2f} of the memory; test accuracy rounded {rounded:+.2f}, delivered {delivered:+.2f}")


if __name__ == "__main__":
    main()
