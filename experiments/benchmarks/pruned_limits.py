"""The most precise program within a limit on flash, of the whole model and where units may be left out: flips of test samples.

    python -m kilotune.experiments.benchmarks.pruned_limits [--share S] [--trials N] [--seeds N] [--each] [MODEL ...]

For each generated model (`small_models`; 2000 test samples and more) or bundled one: `refine` with parameters stored in every way and
rounded codes, within a share of the flash that the best program of 8 and 16 bits takes. `--each`: instead, of the whole model and of each
smaller one alone, whether or not a search would have looked at it: what training data say of each, and test data.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kilotune.codegen.bundle import load_bundle
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.experiments.benchmarks.fronts import on_test_samples
from kilotune.experiments.benchmarks.small_models import generated_models, write_small_model
from kilotune.experiments.benchmarks.stored_parameters import ALL as STORED
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.problems.fixed_point.model import task_of
from kilotune.search.budget import Budget
from kilotune.search.space import Trial
from kilotune.search.study import Study
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.pruned_space import ALL, UNITS, PrunedSpace
from kilotune.spaces.shiftry.space import ShiftrySpace

REFERENCE_TRIALS = 300
"""Candidates of 8 and 16 bits that are measured for the limit."""


def formats_within(limit: int, task: Task) -> ShiftrySpace:
    """The space of a task's formats, within a limit on flash."""
    stored: Mapping[str, Any] = STORED
    return ShiftrySpace(task, ShiftryOptions(**stored, flash_limit_bytes=limit))


def reference_bytes(task: Task) -> float:
    """Flash that the best program of 8 and 16 bits takes."""
    reference = ShiftrySpace(task)
    found = Study(reference, "refine", 1).run(InProcessExecutor(reference), Budget(trials=REFERENCE_TRIALS))
    assert found.best is not None
    return found.best.metrics["flash_bytes"]


def found_within(task: Task, limit: int, trials: int, seed: int) -> Iterator[tuple[PrunedSpace | ShiftrySpace, Trial]]:
    """The best of the whole model, and where units may be left out, with their spaces."""
    formats_of = partial(formats_within, limit)
    for space in (formats_of(task), PrunedSpace(formats_of(task), formats_of)):
        best = Study(space, "refine", seed).run(InProcessExecutor(space), Budget(trials=trials)).best
        assert best is not None
        yield space, best


def found_of_each(task: Task, limit: int, trials: int, seed: int) -> Iterator[tuple[PrunedSpace | ShiftrySpace, Trial]]:
    """The best of the whole model and of each smaller one, of those that have any within the limit."""
    formats_of = partial(formats_within, limit)
    space = PrunedSpace(formats_of(task), formats_of)
    for option in space.units.options:
        own = space.of_units(option)
        result = Study(own, "refine", seed).run(InProcessExecutor(own), Budget(trials=trials))
        if result.best is not None and result.feasible:
            yield space, replace(result.best, assignment={UNITS: option, **result.best.assignment})


def lines(name: str, place: Path, given: argparse.Namespace, seed: int) -> Iterator[str]:
    """Rows of the table, as they are found."""
    bundle = load_bundle(place)
    task = task_of(bundle, bundle.train)
    limit = int(given.share * reference_bytes(task))
    began_s = time.process_time()
    for space, best in (found_of_each if given.each else found_within)(task, limit, given.trials, seed):
        seconds = time.process_time() - began_s
        test = on_test_samples(space, bundle, best)
        cells = [
            name,
            str(limit),
            str(seed),
            str(best.assignment.get(UNITS, ALL)),
            f"{best.metrics['expected_flips']:.2f}",
        ]
        cells += [f"{test['expected_flips']:.1f}", f"{test['disagreements']:.0f}", f"{seconds:.1f}"]
        yield "| " + " | ".join(cells) + " |"
        began_s = time.process_time()


def main() -> None:
    """Print the table, as its rows are found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument(
        "--share", type=float, default=0.5, help="of the flash that the best program of 8 and 16 bits takes"
    )
    parser.add_argument("--trials", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--each", action="store_true", help="each smaller model alone")
    given = parser.parse_args()
    small = {model.name: model for model in generated_models()}
    print("| model | limit | seed | units left | training, expected | test, expected | test, counted | CPU-s |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="kilotune-pruned-") as folder:
        for name in given.models or [name for name in small if name.startswith("mlp")]:
            place = write_small_model(small[name], Path(folder)) if name in small else resolve_model(name)
            for seed in range(1, given.seeds + 1):
                for line in lines(name, place, given, seed):
                    print(line, flush=True)


if __name__ == "__main__":
    main()
