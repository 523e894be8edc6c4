"""How soon a search for the least memory within a permitted loss comes to what it ends at.

    python -m kilotune.experiments.benchmarks.least_memory [--drop POINTS] [--seeds N] [--generated] [MODEL ...]

For each bundled classifier (`--generated`: the models of `small_models` that are generated), parameters stored in every way: memory
bytes of the best that `refine` has found after so many candidates, and points of test accuracy of the last one beside the float model's.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.benchmarks.small_models import places_of
from kilotune.experiments.benchmarks.stored_parameters import ALL, BUNDLED, test_loss
from kilotune.experiments.problems.fixed_point.model import ANY
from kilotune.experiments.problems.fixed_point.problem import build_problem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.budget import Budget
from kilotune.search.study import Study

TRIALS = (250, 500, 1000, 2000, 4000)


def row(name: str, place: str, drop: float, seed: int) -> str:
    """A line of a Markdown table."""
    options = {"accuracy_drop": drop, "rounding": ANY, **ALL}
    problem = build_problem(TuneRequest("shiftry", place, "refine", options=options))
    study, found, last = Study(problem.space, "refine", seed), list[str](), None
    for trials in TRIALS:
        result = study.run(InProcessExecutor(problem.space), Budget(trials=trials - len(study.trials())))
        last = result.best if result.feasible else None
        found.append("" if last is None else f"{last.metrics['memory_bytes']:.0f}")
    tested = "" if last is None else f"{-test_loss(problem, last):+.2f}"
    return f"| {name} | {seed} | {' | '.join(found)} | {tested} |"


def rows(given: argparse.Namespace) -> Iterator[str]:
    """A line a model and seed."""
    with tempfile.TemporaryDirectory(prefix="kilotune-least-") as folder:
        names = given.models or (() if given.generated else BUNDLED)
        for name, place in places_of(names, given.generated, Path(folder)):
            for seed in range(1, given.seeds + 1):
                yield row(name, place, given.drop, seed)


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description="How soon the least memory within a permitted loss is found.")
    arguments.add_argument("models", nargs="*")
    arguments.add_argument("--drop", type=float, default=0.0)
    arguments.add_argument("--seeds", type=int, default=1)
    arguments.add_argument("--generated", action="store_true")
    given = arguments.parse_args()
    print(f"| model | seed | {' | '.join(map(str, TRIALS))} | test |")
    for line in rows(given):
        print(line, flush=True)


if __name__ == "__main__":
    main()
