"""A comparison as JSON (everything) and as CSV (one row a run), for other programs."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from typing import Any

from kilotune.experiments.comparison.outcome import CaseOutcome, ComparisonOutcome
from kilotune.search.anytime import RESOLUTION_S
from kilotune.search.comparison import Reached, ReferenceKind, RunRecord, Standing
from kilotune.search.result import as_metric

COMPARISON_SCHEMA = 1
COLUMNS = (
    *(
        "comparison",
        "case",
        "space",
        "input",
        "strategy",
        "seed",
        "metric",
        "direction",
        "best",
        "feasible",
        "proved",
        "bound",
    ),
    *("evaluations", "cpu_s", "evaluations_to_paper", "cpu_s_to_paper", "evaluations_to_optimum", "cpu_s_to_optimum"),
    *("complete", "study"),
)


def as_json(outcome: ComparisonOutcome) -> dict[str, Any]:
    """All of it, best-so-far curves included; losses as metrics, null for infinite ones."""
    return {
        "schema": COMPARISON_SCHEMA,
        "comparison": outcome.name,
        "complete": outcome.complete,
        "plan": outcome.plan.as_json(),
        "cases": [_case(case) for case in outcome.cases],
    }


def as_csv(outcome: ComparisonOutcome) -> str:
    """With a header; an empty cell for what did not happen."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for case in outcome.cases:
        for standing in case.comparison.standings:
            writer.writerows(_row(outcome.name, case, run) for run in standing.runs)
    return text.getvalue()


def _case(case: CaseOutcome) -> dict[str, Any]:
    compared, objective = case.comparison, case.objective

    def metric(loss: float) -> float | None:
        return as_metric(loss, objective)

    return {
        "title": case.title,
        "space": case.case.space,
        "input": case.case.input,
        "objective": {"metric": objective.metric, "direction": objective.direction.value},
        "reference_point": case.reference_point,
        "reference": {
            "kind": compared.reference.kind.value,
            "value": metric(compared.reference.loss),
            "proved_by": list(compared.reference.proved_by),
        },
        "paper": None
        if case.paper is None
        else {"value": metric(case.paper.loss), "evaluations": case.paper.evaluations},
        "horizon_s": compared.horizon_s,
        "time_resolution_s": RESOLUTION_S,
        "complete": case.complete,
        "verdict": case.verdict,
        "standings": [_standing(case, standing) for standing in compared.standings],
        "duels": [
            {
                "first": pairwise.first,
                "second": pairwise.second,
                "final": {
                    **dataclasses.asdict(pairwise.final),
                    "adjusted_p": pairwise.adjusted_final,
                    "needs_seeds": pairwise.needs_final,
                },
                "area": {
                    **dataclasses.asdict(pairwise.area),
                    "adjusted_p": pairwise.adjusted_area,
                    "needs_seeds": pairwise.needs_area,
                },
            }
            for pairwise in compared.pairwise_tests
        ],
    }


def _standing(case: CaseOutcome, standing: Standing) -> dict[str, Any]:
    objective = case.objective
    return {
        "strategy": standing.strategy,
        "best": as_metric(standing.best, objective),
        "median": as_metric(standing.median, objective),
        "quartiles": [as_metric(loss, objective) for loss in standing.quartiles],
        "gap": standing.gap,
        "proved": standing.proved,
        "to_paper": _reached(standing.paper),
        "to_optimum": _reached(standing.optimum),
        "regret_area": standing.regret_area,
        "runs": [_run(case, run) for run in standing.runs],
    }


def _run(case: CaseOutcome, run: RunRecord) -> dict[str, Any]:
    objective = case.objective
    steps = run.curve.steps
    return {
        "seed": run.seed,
        "study": case.studies[run.strategy, run.seed],
        "evaluations": run.curve.evaluations,
        "cpu_s": run.curve.seconds,
        "bound": as_metric(run.bound, objective),
        "proved": run.proved,
        "complete": run.complete,
        "curve": {
            "evaluations": [step.evaluations for step in steps],
            "cpu_s": [step.seconds for step in steps],
            "value": [as_metric(step.loss, objective) for step in steps],
        },
    }


def _reached(found: Reached | None) -> dict[str, Any] | None:
    return None if found is None else {"runs": found.runs, "evaluations": found.evaluations, "cpu_s": found.seconds}


def _row(name: str, case: CaseOutcome, run: RunRecord) -> dict[str, Any]:
    objective, reference, curve = case.objective, case.comparison.reference, run.curve
    paper = None if case.paper is None else curve.first(case.paper.loss)
    optimum = curve.first(reference.loss) if reference.kind is ReferenceKind.OPTIMUM else None
    return {
        "comparison": name,
        "case": case.title,
        "space": case.case.space,
        "input": case.case.input,
        "strategy": run.strategy,
        "seed": run.seed,
        "metric": objective.metric,
        "direction": objective.direction.value,
        "best": as_metric(curve.loss, objective),
        "feasible": math.isfinite(curve.loss),
        "proved": run.proved,
        "bound": as_metric(run.bound, objective),
        "evaluations": curve.evaluations,
        "cpu_s": curve.seconds,
        "evaluations_to_paper": None if paper is None else paper.evaluations,
        "cpu_s_to_paper": None if paper is None else paper.seconds,
        "evaluations_to_optimum": None if optimum is None else optimum.evaluations,
        "cpu_s_to_optimum": None if optimum is None else optimum.seconds,
        "complete": run.complete,
        "study": case.studies[run.strategy, run.seed],
    }
