"""How much of the curve of precision against flash strategies find, on the training data and on test data.

    python -m kilotune.experiments.benchmarks.fronts [--seconds S] [--seeds N] [--generated] [--strategies A,B]
        [--truer | --all | --fitted] [--pruned] [MODEL ...]

Each run is a study on its own CPU clock. Its hypervolume (`kilotune.search.hypervolume`) is shown after a tenth of the time, a third, and
all of it. On test data nobody chooses: at every number of bytes stands the program that the training data choose, and what it is expected
to flip there, or does flip, cuts the same rectangle. `limits`: what somebody without a search for fronts would do, `refine` under ten
limits on flash with a tenth of the time each. `greedy`: the paper's procedure. `--fitted`: `front` may have codes fitted to the whole
program, with parameters stored in every way (`--all`). `--pruned`: units and choices of the model may be left out.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kilotune.codegen.bundle import Bundle, load_bundle
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.experiments.benchmarks.small_models import generated_models, write_small_model
from kilotune.experiments.benchmarks.stored_parameters import ALL
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.problems.fixed_point.model import task_of
from kilotune.search.budget import Budget
from kilotune.search.front import Front, Ranking
from kilotune.search.hypervolume import hypervolume_so_far
from kilotune.search.space import Measurement, Metrics, Trial
from kilotune.search.study import Study
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.fitted_space import FittedSpace
from kilotune.spaces.shiftry.pruned_space import PrunedSpace
from kilotune.spaces.shiftry.space import ShiftrySpace

STRATEGIES = ("front", "limits", "refine", "local", "tpe", "cp", "random", "greedy")
LIMITS = 10
SHARES = (0.1, 0.3, 1.0)


def trials_of_run(
    space: ShiftrySpace | FittedSpace | PrunedSpace, strategy: str, seconds: float, seed: int, stored: Mapping[str, Any]
) -> Iterator[Trial]:
    """All trials of a run; their times are CPU-seconds from its beginning."""
    if strategy != "limits":
        study = Study(space, strategy, seed, clock=time.process_time)
        study.run(InProcessExecutor(space), Budget(seconds=seconds))
        yield from study.each_trial()
        return
    whole = space.whole if isinstance(space, PrunedSpace) else space
    reference, formats = space.reference_point, whole.formats if isinstance(whole, FittedSpace) else whole
    assert reference is not None
    smallest = formats.evaluator.footprint.flash_bytes(formats.smallest_bits({}))[0] + formats.least_table_bytes
    for k in range(LIMITS):
        limit = int(smallest + (reference[0] - smallest) * ((k + 1) / LIMITS) ** 2)
        limited = ShiftrySpace(space.task, ShiftryOptions(**stored, flash_limit_bytes=limit))
        study = Study(limited, "refine", seed, clock=time.process_time)
        study.run(InProcessExecutor(limited), Budget(seconds=seconds / LIMITS))
        for trial in study.each_trial():
            yield Trial(trial.number, trial.assignment, trial.measurement, trial.elapsed_s + k * seconds / LIMITS)


def on_test_data(
    front: Sequence[Trial], test: Sequence[Metrics], reference: Sequence[float], share: float, metric: str
) -> float:
    """What the chosen programs leave on test data, in per cent of the rectangle below the reference point; there are as many samples as
    `share` times the training data's."""
    area = 0.0
    for i, (trial, metrics) in enumerate(zip(front, test, strict=True)):
        ends = front[i + 1].metrics["flash_bytes"] if i + 1 < len(front) else reference[0]
        bytes_long = min(ends, reference[0]) - min(trial.metrics["flash_bytes"], reference[0])
        area += bytes_long * max(0.0, reference[1] - metrics[metric] / share)
    return 100.0 * area / (reference[0] * reference[1])


@dataclass(frozen=True)
class Asked:
    """What parameters may be stored in, whether codes may be fitted and whether units and choices may be left out."""

    stored: Mapping[str, Any]
    fitted: bool
    pruned: bool

    def formats_of(self, task: Task) -> ShiftrySpace | FittedSpace:
        """The problem of a task."""
        formats = ShiftrySpace(task, ShiftryOptions(**self.stored, front=("flash",)))
        return FittedSpace(formats) if self.fitted else formats


def on_test_samples(space: ShiftrySpace | FittedSpace | PrunedSpace, bundle: Bundle, trial: Trial) -> Metrics:
    """A candidate on the test data."""
    own = space.of_candidate(trial.assignment) if isinstance(space, PrunedSpace) else space
    task = replace(task_of(bundle, bundle.test), program=own.task.program, parameters=own.task.parameters)
    return own.evaluator.on(task).measure(own.lower([trial.assignment]))[0]


def line(name: str, bundle: Bundle, strategy: str, seconds: float, seed: int, asked: Asked) -> str:
    """A row of the table."""
    task = task_of(bundle, bundle.train)
    whole = asked.formats_of(task)
    space = PrunedSpace(whole, asked.formats_of) if asked.pruned else whole
    reference, ranking = space.reference_point, Ranking.of(space)
    assert reference is not None
    front = Front(ranking)

    def measured_one_by_one() -> Iterator[
        tuple[float, Measurement]
    ]:  # of tens of millions a list would not fit into memory
        for trial in trials_of_run(space, strategy, seconds, seed, asked.stored):
            front.add(trial)
            yield trial.elapsed_s, trial.measurement

    curve = hypervolume_so_far(measured_one_by_one(), ranking, seconds, reference)
    reached = [
        next((-step.loss for step in reversed(curve.steps) if step.seconds <= share * seconds), 0.0) for share in SHARES
    ]
    measured = [on_test_samples(space, bundle, trial) for trial in front.trials]
    share = len(task_of(bundle, bundle.test).features) / len(task.features)
    unseen = [on_test_data(front.trials, measured, reference, share, of) for of in ("expected_flips", "disagreements")]
    how = ", ".join([strategy, *(["fitted"] if asked.fitted else []), *(["pruned"] if asked.pruned else [])])
    cells = [name, how, str(seed), str(curve.evaluations), str(len(front.trials))]
    return "| " + " | ".join([*cells, *(f"{value:.2f}" for value in (*reached, *unseen))]) + " |"


def main() -> None:
    """Print the table, a row a run, as they end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--generated", action="store_true", help="models of generated data instead of bundled ones")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--truer", action="store_true", help="sequential rounding, too")
    parser.add_argument("--all", action="store_true", help="parameters stored in every way, rounded sequentially")
    parser.add_argument("--fitted", action="store_true", help="as --all, and codes may be fitted")
    parser.add_argument("--pruned", action="store_true", help="units and choices of the model may be left out")
    given = parser.parse_args()
    stored: Mapping[str, Any] = ALL if given.all or given.fitted else {"narrow": True, "truer": given.truer}
    asked = Asked(stored, given.fitted, given.pruned)
    small = {model.name: model for model in generated_models()} if given.generated else {}
    print(
        "| model | strategy | seed | trials | points | " + " | ".join(f"{given.seconds * s:g} s" for s in SHARES),
        end="",
    )
    print(" | test, expected | test, counted |\n|" + "---|" * (7 + len(SHARES)), flush=True)
    with tempfile.TemporaryDirectory(prefix="kilotune-fronts-") as folder:
        for name in given.models or [*small] or ["bonsai-digits"]:
            place = write_small_model(small[name], Path(folder)) if name in small else resolve_model(name)
            bundle = load_bundle(place)
            for strategy in given.strategies.split(","):
                for seed in range(given.seeds):
                    print(line(name, bundle, strategy, given.seconds, seed, asked), flush=True)


if __name__ == "__main__":
    main()
