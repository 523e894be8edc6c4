"""How little flash holds a model's parameters, by what the search may decide about them.

    python -m kilotune.experiments.benchmarks.stored_parameters [--seconds N] [MODEL ...]

For each bundled classifier and each setting, at the float model's training accuracy (`--drop 0`): the least memory that a search of N
seconds finds, its test accuracy beside the float model's, and what the program takes on a simulated Uno: linked flash and cycles.
Then, with all settings together, the most precise program within 60 % of the flash that 8 and 16 bits need (`--limit flash=`).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from kilotune.codegen import ir
from kilotune.codegen.emit.c import emit_c
from kilotune.evaluators.architectures.avr.run import AvrTarget
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.simulated import of_emitted, quantised
from kilotune.experiments.problems.fixed_point.problem import ModelProblem, build_problem, resolve_input
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.budget import Budget
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Trial
from kilotune.search.study import Study

BEST_BEFORE = {
    "bonsai-digits": 2198,
    "fastgrnn16-digits": 714,
    "fastgrnn32-digits": 1802,
    "lenet-digits": 1210,
    "protonn-digits": 1368,
}
"""Flash bytes of the best of 8 and 16 bits, by model (docs/results.md)."""

SHARE = 0.6
SETTINGS: Mapping[str, Mapping[str, bool]] = {
    "8/16": {},
    "narrower": {"narrow": True},
    "truer": {"truer": True},
    "both": {"narrow": True, "truer": True},
}
SAMPLES = 5


def row(problem: ModelProblem, what: str, trial: Trial | None) -> str:
    """A line of a Markdown table."""
    if trial is None:
        return f"| {problem.name} | {what} | nothing feasible |"
    metrics = trial.measurement.metrics
    test = problem.test_metrics(trial.assignment) or {}
    lost = problem.float_metrics()["test"]["accuracy_percent"] - test["accuracy_percent"]
    batch, task = problem.lower(trial.assignment), problem.space.task
    assert batch.program.result_kind is ir.ResultKind.CLASS
    source = emit_c(batch, task.parameters, problem.space.evaluator.footprint.placed(batch.bits[0]).offsets)
    sizes, run = AvrTarget("atmega328p").run(of_emitted(source), quantised(source, task.features[:SAMPLES]))
    share = 100 * metrics["flash_bytes"] / BEST_BEFORE[problem.name]
    return (
        f"| {problem.name} | {what} | {metrics['flash_bytes']:.0f} ({share:.0f} %) | {metrics['ram_bytes']:.0f} "
        f"| {metrics['accuracy_percent']:.2f} | {metrics['expected_flips']:.2f} | {test['accuracy_percent']:.2f} ({-lost:+.2f}) "
        f"| {sizes.flash_bytes} | {run.cycles.mean():.0f} |"
    )


def main() -> None:
    """Print a row a model and setting."""
    arguments = argparse.ArgumentParser(description="How little flash holds a model's parameters.")
    arguments.add_argument("models", nargs="*", default=tuple(BEST_BEFORE))
    arguments.add_argument("--seconds", type=float, default=30.0)
    given = arguments.parse_args()
    print("| model | setting | flash | RAM | train | expected flips | test (to float) | linked | cycles |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in given.models:
        limit = int(SHARE * BEST_BEFORE[name])
        searched = [(what, {"accuracy_drop": 0.0, **chosen}) for what, chosen in SETTINGS.items()]
        searched.append((f"both, flash={limit}", {"flash_limit_bytes": limit, **SETTINGS["both"]}))
        for what, options in searched:
            problem = build_problem(TuneRequest("shiftry", str(resolve_input(name)), "refine", options=options))
            if what == "8/16":
                print(row(problem, "procedure", run_procedure(problem.space)), flush=True)
            result = Study(problem.space, "refine", seed=1).run(
                InProcessExecutor(problem.space), Budget(seconds=given.seconds)
            )
            print(row(problem, what, result.best if result.feasible else None), flush=True)


if __name__ == "__main__":
    main()
