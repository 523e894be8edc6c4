"""How much of the curve of precision against flash strategies find, on the training data and on test data.

    python -m kilotune.experiments.benchmarks.fronts [--seconds S] [--seeds N] [--generated] [--strategies A,B]
        [--truer | --all | --fitted] [MODEL ...]

Each run is a study on its own CPU clock. Its hypervolume (`kilotune.search.hypervolume`) is shown after a tenth of the time, a third, and
all of it. On test data nobody chooses: at every number of bytes stands the program that the training data choose, and what it is expected
to flip there, or does flip, cuts the same rectangle. `limits`: what somebody without a search for fronts would do, `refine` under ten
limits on flash with a tenth of the time each. `greedy`: the paper's procedure. `--fitted`: `front` may have codes fitted to the whole
program, with parameters stored in every way (`--all`).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kilotune.codegen.bundle import Bundle, load_bundle
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.benchmarks.small_models import generated_models, write_small_model
from kilotune.experiments.benchmarks.stored_parameters import ALL
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.problems.fixed_point.model import task_of
from kilotune.search.budget import Budget
from kilotune.search.front import Front, Ranking
from kilotune.search.hypervolume import hypervolume_so_far
from kilotune.search.space import Metrics, Trial
from kilotune.search.study import Study
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.fitted_space import FittedSpace
from kilotune.spaces.shiftry.space import ShiftrySpace

STRATEGIES = ("front", "limits", "refine", "local", "tpe", "cp", "random", "greedy")
LIMITS = 10
SHARES = (0.1, 0.3, 1.0)


def trials_of_run(
    space: ShiftrySpace | FittedSpace, strategy: str, seconds: float, seed: int, stored: Mapping[str, Any]
) -> Iterator[Trial]:
    """All trials of a run; their times are CPU-seconds from its beginning."""
    if strategy != "limits":
        study = Study(space, strategy, seed, clock=time.process_time)
        study.run(InProcessExecutor(space), Budget(seconds=seconds))
        yield from study.trials()
        return
    reference, formats = space.reference_point, space.formats if isinstance(space, FittedSpace) else space
    assert reference is not None
    smallest = formats.evaluator.footprint.flash_bytes(formats.smallest_bits({}))[0] + formats.least_table_bytes
    for k in range(LIMITS):
        limit = int(smallest + (reference[0] - smallest) * ((k + 1) / LIMITS) ** 2)
        limited = ShiftrySpace(space.task, ShiftryOptions(**stored, flash_limit_bytes=limit))
        study = Study(limited, "refine", seed, clock=time.process_time)
        study.run(InProcessExecutor(limited), Budget(seconds=seconds / LIMITS))
        for trial in study.trials():
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


def line(
    name: str, bundle: Bundle, strategy: str, seconds: float, seed: int, stored: Mapping[str, Any], fitted: bool
) -> str:
    """A row of the table."""
    formats = ShiftrySpace(task_of(bundle, bundle.train), ShiftryOptions(**stored, front=("flash",)))
    space = FittedSpace(formats) if fitted else formats
    reference, ranking = space.reference_point, Ranking.of(space)
    assert reference is not None
    trials = list(trials_of_run(space, strategy, seconds, seed, stored))
    curve = hypervolume_so_far(((t.elapsed_s, t.measurement) for t in trials), ranking, seconds, reference)
    reached = [
        next((-step.loss for step in reversed(curve.steps) if step.seconds <= share * seconds), 0.0) for share in SHARES
    ]
    front = Front(ranking)
    front.update(trials)
    test = space.evaluator.on(task_of(bundle, bundle.test))
    measured = [test.measure(space.lower([trial.assignment]))[0] for trial in front.trials]
    share = len(test.task.features) / len(space.task.features)
    unseen = [on_test_data(front.trials, measured, reference, share, of) for of in ("expected_flips", "disagreements")]
    cells = [name, f"{strategy}, fitted" if fitted else strategy, str(seed), str(len(trials)), str(len(front.trials))]
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
    given = parser.parse_args()
    stored: Mapping[str, Any] = ALL if given.all or given.fitted else {"narrow": True, "truer": given.truer}
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
                    print(line(name, bundle, strategy, given.seconds, seed, stored, given.fitted), flush=True)


if __name__ == "__main__":
    main()
