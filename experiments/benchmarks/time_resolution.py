"""How well a run's CPU times repeat: the same study, again and again, and when it had made its n-th trial.

What is reported is the distance of the quartiles of that time, for the first, the tenth and the hundredth trial of a study; the least
of them is what no comparison can resolve (`search/anytime.py`, RESOLUTION_S). Run it on a machine that does nothing else.
"""

from __future__ import annotations

import statistics
import time

import click

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.budget import Budget
from kilotune.search.study import Study

STUDIED = (
    ("memory", None, "random"),
    ("memory", "minimalloc-a", "random"),
    ("seedot", "protonn-cancer", "exhaustive"),
    ("shiftry", "worked-example", "local"),
    ("shiftry", "protonn-digits", "local"),
    ("reverse-split", "sobel", "random"),
)
TRIALS = (1, 10, 100)


@click.command()
@click.option("--repeats", default=20, show_default=True, type=click.IntRange(4), help="How often each study is made.")
def main(repeats: int) -> None:
    """Print, for each study and trial, the median time in ms, and how far apart its quartiles and its extremes are."""
    click.echo("study; trial; median ms; quartiles apart ms; extremes apart ms")
    for space, input_name, strategy in STUDIED:
        times = [_times(space, input_name, strategy) for _ in range(repeats + 1)][1:]  # the first one loads libraries
        for trial in TRIALS:
            reached = [1000 * run[trial - 1] for run in times if len(run) >= trial]
            if len(reached) == repeats:
                low, middle, high = statistics.quantiles(reached)
                spread = max(reached) - min(reached)
                click.echo(
                    f"{space} {input_name or ''} {strategy}; {trial}; {middle:.2f}; {high - low:.2f}; {spread:.2f}"
                )


def _times(space: str, input_name: str | None, strategy: str) -> list[float]:
    """CPU seconds from the beginning of a new study to each of its trials."""
    problem = build_problem(request_from(space, input=input_name, strategy=strategy))
    study, reached = Study(problem.space, strategy, 0, clock=time.process_time), list[float]()
    remember = study.record

    def record(key: object, number: int, candidate: object, measurement: object, run_s: float) -> None:
        reached.append(run_s)
        remember(key, number, candidate, measurement, run_s)  # type: ignore[arg-type]

    study.record = record  # type: ignore[method-assign]
    study.run(InProcessExecutor(problem.space), Budget(trials=max(TRIALS), seconds=5.0), handle_interrupts=False)
    return reached


if __name__ == "__main__":
    main()
