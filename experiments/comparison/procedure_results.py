"""What the papers' procedures reach on the cases: measured once, and kept with the comparison."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from kilotune.experiments.comparison.plan import Case, ComparisonPlan
from kilotune.experiments.problems.building import build_problem
from kilotune.search.comparison_store import comparison, save_findings
from kilotune.search.front import Ranking
from kilotune.search.hypervolume import hypervolume_so_far
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Assignment, Measurement, reference_point
from kilotune.search.store import Store


def measure_procedures(store: Store, name: str, plan: ComparisonPlan, on_case: Callable[[str], None]) -> None:
    """Measure the paper's procedure on each case of which no measurement is stored, and store each at once. `on_case` is called
    with a case's title before it is measured."""
    findings = dict(comparison(store, name).findings)
    for case in plan.cases:
        if case.title not in findings:
            on_case(case.title)
            findings[case.title] = _procedure(case)
            save_findings(store, name, findings)


def _procedure(case: Case) -> dict[str, float | int | None] | None:
    space = build_problem(case.request()).space
    measured: list[Measurement] = []

    def evaluate(batch: Sequence[Assignment]) -> list[Measurement]:
        found = space.evaluate(batch)
        measured.extend(found)
        return found

    answer = run_procedure(space, evaluate)
    if answer is None:
        return None
    ranking, reference, count = Ranking.of(space), reference_point(space), len(measured)
    if reference is not None:
        curve = hypervolume_so_far(((0.0, one) for one in measured), ranking, 0.0, reference)
        return {"loss": curve.loss if curve.steps else None, "evaluations": count}
    rank = ranking.rank(answer.measurement)
    feasible = rank[0] == 0.0 and math.isfinite(rank[1])
    return {"loss": rank[1] if feasible else None, "evaluations": count}
