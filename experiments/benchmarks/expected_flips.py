"""How many flips are expected of programs beside how many happen on samples that neither training nor the search has seen.

    python -m kilotune.experiments.benchmarks.expected_flips [--generated] [--trials N] [MODEL ...]

A row a model: the candidates that local search (`refine`) met within half a point of the float model's training accuracy and within 1.4
times the least flash, of these the ones that change the class of at most 1 % of the training samples. Means over them, for as many
samples as there are for training: what did flip of these, what is expected by their own margins, what is expected by the margins of
inputs like them (`kilotune.evaluators.fixed_point.similar_inputs`), as the search has it, and what did flip of the test samples.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from kilotune.codegen.bundle import Bundle, load_bundle
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator
from kilotune.experiments.benchmarks.precision import BUNDLED, RankedBy, settings
from kilotune.experiments.benchmarks.small_models import generated_models, public_models, write_small_model
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.problems.fixed_point.model import task_of
from kilotune.search.budget import Budget
from kilotune.search.study import Study

MORE = ("mlp-digits", "gru16-digits", "cnn-exercises", "gru16-activities")
SETTINGS = ("--drop 0.5", "--limit flash: 1.4 x the least")
CANDIDATES = 120
"""How many of a search are looked at, evenly spread over it."""

CLOSE = 0.01
"""Share of the training samples that may change class."""

LEAST = 0.1
"""Flips that are added before logarithms are taken."""


def flips_of(bundle: Bundle, trials: int) -> list[float] | None:
    """Means [4] of the columns; None where too few candidates are close to the float model."""
    task, test_task = task_of(bundle, bundle.train), task_of(bundle, bundle.test)
    own = FixedPointEvaluator(task, trained_on=False)
    rows = list[list[float]]()
    for words, options in settings(task):
        if words not in SETTINGS:
            continue
        space = RankedBy(task, options, "expected_flips")
        study = Study(space, "refine", 0)
        study.run(InProcessExecutor(space), Budget(trials=trials))
        met = [trial for trial in study.trials() if "disagreements" in trial.metrics]
        most = CLOSE * len(task.features)
        close = [t.assignment for t in met[:: max(1, len(met) // CANDIDATES)] if t.metrics["disagreements"] <= most]
        if not close:
            continue
        batch, test = space.lower(close), space.evaluator.on(test_task)
        share = len(task.features) / len(test_task.features)
        for by_own, by_similar, unseen in zip(
            own.measure(batch), space.evaluator.measure(batch), test.measure(batch), strict=True
        ):
            expected = (by_own["expected_flips"], by_similar["expected_flips"])
            rows.append([by_own["disagreements"], *expected, share * unseen["disagreements"]])
    return [float(mean) for mean in np.mean(rows, axis=0)] if rows else None


def bundles(names: Sequence[str], generated: bool, folder: Path) -> Iterator[tuple[str, Bundle]]:
    """Those of the names; without names the generated ones, or the public and the bundled ones."""
    small = {model.name: model for model in (generated_models() if generated else public_models())}
    for name in names or [*small, *(() if generated else (*BUNDLED, *MORE))]:
        place = write_small_model(small[name], folder) if name in small else resolve_model(name)
        yield name, load_bundle(place)


def in_words(title: str, expected: Sequence[float], happened: Sequence[float]) -> str:
    """How many times as many happen, in the geometric mean, and how far off a model is."""
    logs = [math.log((x + LEAST) / (y + LEAST)) for x, y in zip(happened, expected, strict=True)]
    off = math.exp(math.sqrt(sum(log * log for log in logs) / len(logs)))
    return (
        f"{title}: {math.exp(sum(logs) / len(logs)):.2f} times as many happen, {off:.2f} times off (root mean square)"
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--generated", action="store_true")
    parser.add_argument("--trials", type=int, default=400)
    given = parser.parse_args()
    rows = list[list[float]]()
    print("| model | training samples | expected by their own margins | by those of inputs like them | test samples |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="kilotune-flips-") as folder:
        for name, bundle in bundles(given.models, given.generated, Path(folder)):
            means = flips_of(bundle, given.trials)
            if means is not None:
                rows.append(means)
                print(f"| {name} | {' | '.join(f'{mean:.2f}' for mean in means)} |", flush=True)
    if rows:
        _, own, similar, happened = zip(*rows, strict=True)
        print(in_words("by their own margins", own, happened))
        print(in_words("by those of inputs like them", similar, happened))


if __name__ == "__main__":
    main()
