"""What a search has come to, as the result file of `--json` has it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from kilotune.experiments.problems.device_check import DeviceCheck
from kilotune.experiments.problems.problem import (
    AnswersCapacity,
    CapacityAnswer,
    Explains,
    Problem,
    ProfilesPrograms,
    bound_reason_of,
)
from kilotune.experiments.studies.tuning import TuneOutcome
from kilotune.search.candidates import count_candidates
from kilotune.search.result import Result
from kilotune.search.space import Metrics, Trial

RESULT_SCHEMA = 1


def _best_as_json(outcome: TuneOutcome, best: Trial, artefacts: dict[str, str]) -> dict[str, Any]:
    problem = outcome.problem
    return {
        "feasible": outcome.result.feasible,
        "assignment": dict(best.assignment),
        "metrics": _finite(best.measurement.metrics),
        "test_metrics": _finite(outcome.test),
        **_validated(outcome.validation.best),
        "artifacts": artefacts,
        **({"details": problem.details(best)} if isinstance(problem, Explains) else {}),
        **_on_device(outcome.device_check),
        **_predicted_by_layer(problem, best),
        **({} if outcome.placing is None else {"placed": outcome.placing.as_json()}),
    }


def _predicted_by_layer(problem: Problem, best: Trial) -> dict[str, Any]:
    """What each layer of the program takes, without a run on a device, which `tune profile` makes."""
    if not isinstance(problem, ProfilesPrograms) or best.measurement.failure is not None:
        return {}
    return {"profile": problem.layer_profile(best, None, measured=False).layers.as_json()}


def _front_as_json(outcome: TuneOutcome) -> list[dict[str, Any]]:
    measured = zip_longest(outcome.result.front, outcome.front_device_checks, outcome.validation.front)
    return [
        {
            "assignment": dict(trial.assignment),
            "metrics": _finite(trial.measurement.metrics),
            **_validated(held_out),
            **_on_device(device_check),
        }
        for trial, device_check, held_out in measured
    ]


def as_json(outcome: TuneOutcome, artefacts: dict[str, str]) -> dict[str, Any]:
    """The result file: `result_schema` says what stands in it."""
    problem, result = outcome.problem, outcome.result
    best = result.best
    return {
        "schema": RESULT_SCHEMA,
        "space": problem.request.space,
        "input": problem.request.input,
        "strategy": problem.request.strategy,
        "seed": problem.request.seed,
        "objectives": [{"metric": o.metric, "direction": o.direction.value} for o in problem.space.objectives],
        "constraints": [
            {"metric": c.metric, "at_least" if c.at_least else "at_most": c.limit} for c in problem.space.constraints
        ],
        "best": None if best is None else _best_as_json(outcome, best, artefacts),
        "front": _front_as_json(outcome),
        "procedure": None
        if outcome.procedure is None
        else {
            "assignment": dict(outcome.procedure.assignment),
            "metrics": _finite(outcome.procedure.measurement.metrics),
            "test_metrics": _finite(outcome.procedure_test),
            **_validated(outcome.validation.procedure),
            **_on_device(outcome.procedure_device_check),
        },
        "procedure_state": outcome.paper.as_json(),
        "float": {
            **outcome.float_metrics,
            **({} if outcome.float_on_device is None else {"on_device": outcome.float_on_device.metrics()}),
        },
        "bound": result.bound,
        "gap": result.gap,
        "proved": result.proved,
        "size": count_candidates(problem.space),
        "bound_reason": bound_reason_of(problem),
        **({} if outcome.approximation is None else {"approximation": outcome.approximation}),
        **({} if outcome.test_not_measured is None else {"test_not_measured": outcome.test_not_measured}),
        **({} if outcome.said_of_finalists is None else {"chosen_after_search": outcome.said_of_finalists}),
        **({"capacity": answer.as_json()} if (answer := answer_of(outcome)) else {}),
        "evaluations": result.evaluations,
        "elapsed_s": round(result.elapsed_s, 3),
        "simulator": problem.measured_by,
        "usage": _usage(result),
        "status": result.status.value,
        "outcome": result.outcome.value if result.outcome else None,
        "study": result.study,
    }


def answer_of(outcome: TuneOutcome) -> CapacityAnswer | None:
    """Whether everything fits the capacity that was asked about; None where none was."""
    problem = outcome.problem
    return problem.capacity_answer(outcome.result) if isinstance(problem, AnswersCapacity) else None


def _usage(result: Result) -> dict[str, Any] | None:
    """How the run went: what it used of what it might have, and the seconds of its proof and of its last improvement."""
    course = result.course
    if course is None:
        return None
    return {
        "budget": str(course.budget),
        "seconds": round(course.seconds, 3),
        "trials": course.trials,
        "proved_after_s": None if course.proved_s is None else round(course.proved_s, 3),
        "best_after_s": round(course.improvements[-1][0], 3) if course.improvements else None,
    }


def _validated(metrics: Metrics | None) -> dict[str, Any]:
    return {} if metrics is None else {"validation_metrics": _finite(metrics)}


def _on_device(device_check: DeviceCheck | None) -> dict[str, Any]:
    return {} if device_check is None else {"on_device": device_check.as_json()}


def _finite(metrics: Mapping[str, float] | None) -> dict[str, float | None] | None:
    """Metrics as JSON can hold them: infinity and NaN become null."""
    if metrics is None:
        return None
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}
