"""How far Shiftry's procedure is from the best widths and scales: memory at equal permitted accuracy.

    python -m kilotune.experiments.benchmarks.procedure_gap [--trials N] [MODEL ...]

For each model and permitted drop of training accuracy: what Algorithms 10-14 reach, what local search from there reaches
within N trials, and the bound that no candidate can beat. Test accuracy is measured once for each.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from kilotune.codegen import ir
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.presentation.wording import gap_text
from kilotune.experiments.problems.fixed_point.problem import ModelProblem, build_problem, resolve_input
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.budget import Budget
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Trial
from kilotune.search.study import Study

MODELS = ("protonn-digits", "bonsai-digits", "fastgrnn16-digits", "fastgrnn32-digits", "lenet-digits", "protonn-cancer")
DROPS = (2.0, 0.5, 0.0)


def row(problem: ModelProblem, what: str, trial: Trial | None, cpu_s: float) -> str:
    """One line: bytes, accuracies, demoted variables."""
    if trial is None:
        return f"  {what:<12}nothing feasible"
    decided = ir.used_variables(problem.bundle.program) - ir.label_variables(problem.bundle.program)
    metrics, test = trial.measurement.metrics, problem.test_metrics(trial.assignment) or {}
    return (
        f"  {what:<12}{metrics['flash_bytes']:>7.0f} B flash{metrics['ram_bytes']:>6.0f} B RAM"
        f"   train {metrics['accuracy_percent']:6.2f} %   test {test.get('accuracy_percent', float('nan')):6.2f} %"
        f"   {metrics['demoted']:.0f} of {len(decided)} variables in 8 bits   {cpu_s:.1f} CPU-s"
    )


def main() -> None:
    """Print three lines a model and drop."""
    arguments = argparse.ArgumentParser(description="How far Shiftry's procedure is from the best widths.")
    arguments.add_argument("models", nargs="*", default=MODELS)
    arguments.add_argument("--trials", type=int, default=3000)
    given = arguments.parse_args()
    for name in given.models:
        for drop in DROPS:
            request = TuneRequest("shiftry", str(resolve_input(name)), "refine", options={"accuracy_drop": drop})
            problem = build_problem(request)
            floats = problem.float_metrics()
            print(
                f"{Path(name).name}, at most {drop} points of training accuracy lost"
                f" (float: train {floats['train']['accuracy_percent']:.2f} %, test {floats['test']['accuracy_percent']:.2f} %)"
            )
            start = time.process_time()
            answer = run_procedure(problem.space)
            print(row(problem, "procedure", answer, time.process_time() - start))
            start = time.process_time()
            study = Study(problem.space, "refine")
            result = study.run(InProcessExecutor(problem.space), Budget(trials=given.trials))
            print(row(problem, "best", result.best if result.feasible else None, time.process_time() - start))
            proof = "proved optimal" if result.proved else f"gap {gap_text(result.gap or 0)}"
            print(f"  {'bound':<12}{result.bound:.0f} bytes in all: {proof}\n", flush=True)


if __name__ == "__main__":
    main()
