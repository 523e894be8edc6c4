"""Studies and comparisons to report on, in stores of the tests' own."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.comparison.outcome import CaseOutcome, ComparisonOutcome, PaperResult
from kilotune.experiments.comparison.plan import Case, ComparisonPlan
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.requests.request import TuneRequest
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.anytime import Curve, Improvement
from kilotune.search.budget import Budget
from kilotune.search.comparison import RunRecord, compare
from kilotune.search.store import Store
from kilotune.search.study import Study

SCRIPT = "<script>alert(1)</script>"
IMAGE = "<img src=x onerror=alert(1)>"


def make_study(store: Store, name: str, request: TuneRequest, trials: int) -> tuple[Problem, Study]:
    """A study with that many trials at most; 0: one that has only been created."""
    problem = build_problem(request)
    study = Study.create(
        store,
        name,
        problem.space,
        request.strategy,
        request.seed,
        budget=Budget(trials=max(1, trials)),
        request=request.as_json(),
    )
    if trials:
        study.run(InProcessExecutor(problem.space), Budget(trials=trials))
    return problem, study


def shiftry_request(**changes: object) -> TuneRequest:
    """A real model of nine variables, whose objectives are two and more."""
    return request_from("shiftry", input="worked-example", strategy="random", **changes)  # type: ignore[arg-type]


def hostile_request(folder: Path) -> TuneRequest:
    """Buffers, and a file, whose names are markup."""
    rng = random.Random(1)
    rows = ["id,lower,upper,size"]
    for number in range(10):
        first = rng.randrange(8)
        name = SCRIPT if number == 0 else f"<b>b{number}</b>"
        rows.append(f"{name},{first},{first + rng.randrange(1, 6)},{rng.randrange(1, 60)}")
    path = folder / f"{IMAGE}.csv"
    path.write_text("\n".join(rows) + "\n")
    return request_from("memory", input=str(path), strategy="random")


def run_record(
    strategy: str, seed: int, losses: Sequence[float], *, proved: bool = False, step_s: float = 0.1
) -> RunRecord:
    """A run whose improvements come every `step_s` seconds and every second evaluation."""
    steps = tuple(Improvement(1 + 2 * n, (n + 1) * step_s, loss) for n, loss in enumerate(losses))
    return RunRecord(strategy, seed, Curve(steps, 50, 2.0), 40.0, proved, True)


def comparison_outcome(name: str = "five", strategies: Sequence[str] = ("greedy", "exhaustive")) -> ComparisonOutcome:
    """Of one memory case: the paper's procedure reaches 60, the optimum is 40, the strategies are ever better."""
    case = Case("memory-case", "memory", _memory_input(), tuple(strategies))
    plan = ComparisonPlan((case,), 4, "2s")
    rng = random.Random(3)
    runs = [
        run_record(
            strategy,
            seed,
            [90.0 - 6 * place, 70.0 - 6 * place - rng.randrange(3)] + ([40.0] if place == len(strategies) - 1 else []),
            proved=place == len(strategies) - 1,
            step_s=0.05 * (1 + rng.random()),
        )
        for place, strategy in enumerate(strategies)
        for seed in plan.seeds
    ]
    problem = build_problem(case.request())
    compared = compare(runs, 60.0, 2.0)
    studies = {(run.strategy, run.seed): f"{name}.{run.strategy}.{run.seed}" for run in runs}
    outcome = CaseOutcome(case, problem, compared, PaperResult(60.0, 3), studies, len(runs), "A verdict.")
    return ComparisonOutcome(name, plan, (outcome,))


def _memory_input() -> str:
    return request_from("memory").input
