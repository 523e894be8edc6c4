"""One search from start to finish: study, budget, procedure for comparison, result."""

from __future__ import annotations

import dataclasses
import datetime
import math
import os
import pickle
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.on_device import LEVELS, DeviceMeasurement
from kilotune.experiments.finalists import Finalist, measure_finalist, measure_float
from kilotune.experiments.model_problem import ModelProblem
from kilotune.experiments.problem import Explains, Metrics, Problem, build_problem
from kilotune.experiments.procedure_measurements import remembered
from kilotune.experiments.request import TuneRequest
from kilotune.search.budget import Budget
from kilotune.search.executor import Executor
from kilotune.search.procedure import run_procedure
from kilotune.search.result import Progress, Result
from kilotune.search.space import Assignment, Measurement, Space, Trial
from kilotune.search.store import Store, StoreError, StudyRow
from kilotune.search.study import Study

RESULT_SCHEMA = 1
MOST_FINALISTS = 8
"""Candidates of the front that are compiled for the device."""


@dataclass(frozen=True)
class TuneOutcome:
    """A finished run with everything that a report needs."""

    problem: Problem
    result: Result
    procedure: Trial | None  # what the paper's own heuristic reaches on the same input
    test: Metrics | None  # the best candidate on data that the search did not see
    float_metrics: dict[str, Metrics]
    finalist: Finalist | None = None  # the best candidate on the device
    procedure_finalist: Finalist | None = None
    front_finalists: tuple[Finalist | None, ...] = ()
    float_on_device: DeviceMeasurement | None = None


def default_storage() -> str:
    """Where studies are kept without --storage: $KILOTUNE_STORAGE, else the user's data folder."""
    chosen = os.environ.get("KILOTUNE_STORAGE")
    folder = Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share"))
    return chosen or str(folder / "kilotune" / "studies.db")


def free_study_name(store: Store, space: str) -> str:
    """space-date-time, with a number behind it when that is taken."""
    stem = f"{space}-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    taken = {row.name for row in store.studies()}
    return next(name for name in (stem, *(f"{stem}-{n}" for n in range(2, 10_000))) if name not in taken)


def check_study_name(name: str) -> str:
    """The name itself. ValueError for one that is no file name: results are written under it."""
    if not re.fullmatch(r"[\w-][\w.-]*", name):
        raise ValueError(f"--study {name!r}: expected letters, digits, '_', '-' and '.', not beginning with '.'.")
    return name


def start_or_resume(store: Store, name: str | None, request: TuneRequest, budget: Budget) -> tuple[Problem, Study]:
    """A new study, or the stored one of that name when the same was asked of it. StoreError when something else was."""
    problem = build_problem(request)
    return problem, join(store, name, problem, budget)


def join(store: Store, name: str | None, problem: Problem, budget: Budget) -> Study:
    """A new study of a problem, or the stored one of that name; see `start_or_resume`."""
    request = problem.request
    existing = None if name is None else next(iter(store.studies(check_study_name(name))), None)
    if existing is None:
        study_name = name or free_study_name(store, request.space)
        return Study.create(
            store, study_name, problem.space, request.strategy, request.seed, budget=budget, request=request.as_json()
        )
    if (existing.strategy, existing.seed) != (request.strategy, request.seed):
        raise StoreError(
            f"Study {name!r} was started with strategy {existing.strategy} and seed {existing.seed}: "
            f"ask for these, or choose another name."
        )
    return Study.resume(store, existing.name, problem.space)


def resume(store: Store, name: str) -> tuple[Problem, Study, StudyRow]:
    """A stored study as it was asked for."""
    row = store.study(name)
    problem = build_problem(TuneRequest.from_json(row.request))
    return problem, Study.resume(store, name, problem.space), row


@dataclass(frozen=True)
class Workplace:
    """Where evaluations run: in this process, in `jobs` worker processes, or on the Ray cluster at `ray`.

    `limit_s`: how long one may take. Only a worker can be stopped, so with a limit even one job is a process of its own.
    `cached`: measurements of earlier studies are used again.
    """

    jobs: int | None = None
    ray: str | None = None
    limit_s: float | None = None
    cached: bool = True

    def with_jobs(self, jobs: int) -> Workplace:
        """The same with so many worker processes."""
        return dataclasses.replace(self, jobs=jobs)

    def executor(self, space: Space) -> Executor:
        """ValueError, a sentence, when the cluster cannot be used."""
        from kilotune.evaluators.executors.cache import CachingExecutor, EvaluationCache, has_sources

        executor = self._workers(space)
        if not self.cached or not has_sources(space):
            return executor
        return CachingExecutor(executor, space, EvaluationCache())

    def _workers(self, space: Space) -> Executor:
        if self.ray is not None:
            from kilotune.evaluators.executors.ray_cluster import RayExecutor

            return RayExecutor(space, self.ray, self.jobs, self.limit_s)
        if (self.jobs or 1) > 1 or self.limit_s is not None:
            from kilotune.evaluators.executors.pool import PoolExecutor

            require_picklable(space)
            return PoolExecutor(space, self.jobs or 1, self.limit_s)
        return InProcessExecutor(space)


def require_picklable(space: Space) -> None:
    """ValueError, a sentence, for a space that cannot be sent to worker processes."""
    try:
        pickle.dumps(space)
    except Exception as error:
        raise ValueError(
            f"The space {space.name} cannot be sent to worker processes: {type(error).__name__}: {error}; give it a class at "
            f"the top of a module and fields that can be pickled, or use one job."
        ) from error


def run(
    problem: Problem,
    study: Study,
    budget: Budget,
    workplace: Workplace,
    on_progress: Callable[[Progress], None] | None,
) -> TuneOutcome:
    """Search until the budget is spent, the strategy ends, or Ctrl-C."""
    executor = workplace.executor(problem.space)
    try:
        result = study.run(executor, budget, on_progress=on_progress)
    finally:
        executor.close()
    return conclude(problem, study, result)


def conclude(problem: Problem, study: Study, result: Result, finalists: int = MOST_FINALISTS) -> TuneOutcome:
    """Add what is measured once: the paper's procedure, the test data, the float model, programs on the device, of the
    front no more than `finalists`."""
    test = None if result.best is None else problem.test_metrics(result.best.assignment)
    procedure = procedure_of(problem, study)
    return TuneOutcome(
        problem,
        result,
        procedure,
        test,
        problem.float_metrics(),
        None if result.best is None else measure_finalist(problem, result.best, LEVELS),
        None if procedure is None else measure_finalist(problem, procedure),
        tuple(measure_finalist(problem, trial) for trial in result.front[:finalists]),
        measure_float(problem) if isinstance(problem, ModelProblem) else None,
    )


def procedure_of(problem: Problem, study: Study) -> Trial | None:
    """What the space's own heuristic reaches; candidates that the study has measured are not measured again. None where the
    space has none."""
    return run_procedure(problem.space, lambda batch: _evaluate(problem, study, batch))


def _evaluate(problem: Problem, study: Study, batch: Sequence[Assignment]) -> list[Measurement]:
    """Measurements of a batch, those that the study holds from there. The others are remembered for the figures."""
    known = [study.book.measurement(candidate) for candidate in batch]
    missing = [c for c, measured in zip(batch, known, strict=True) if measured is None]
    fresh, kept = problem.space.evaluate(missing), remembered(problem.space)
    for candidate, measured in zip(missing, fresh, strict=True):
        kept.put(candidate, measured)
    following = iter(fresh)
    return [measured if measured is not None else next(following) for measured in known]


def as_json(outcome: TuneOutcome, artifacts: dict[str, str]) -> dict[str, Any]:
    """The result file (DESIGN: schema 1)."""
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
        "best": None
        if best is None
        else {
            "feasible": result.feasible,
            "assignment": dict(best.assignment),
            "metrics": _finite(best.measurement.metrics),
            "test_metrics": _finite(outcome.test),
            "artifacts": artifacts,
            **({"details": problem.details(best)} if isinstance(problem, Explains) else {}),
            **_on_device(outcome.finalist),
        },
        "front": [
            {"assignment": dict(t.assignment), "metrics": _finite(t.measurement.metrics), **_on_device(finalist)}
            for t, finalist in zip_longest(result.front, outcome.front_finalists)
        ],
        "procedure": None
        if outcome.procedure is None
        else {
            "assignment": dict(outcome.procedure.assignment),
            "metrics": _finite(outcome.procedure.measurement.metrics),
            "test_metrics": _finite(problem.test_metrics(outcome.procedure.assignment)),
            **_on_device(outcome.procedure_finalist),
        },
        "float": {
            **outcome.float_metrics,
            **({} if outcome.float_on_device is None else {"on_device": outcome.float_on_device.metrics()}),
        },
        "bound": result.bound,
        "gap": result.gap,
        "proved": result.proved,
        "size": problem.size,
        "certificate": problem.certificate(),
        "evaluations": result.evaluations,
        "elapsed_s": round(result.elapsed_s, 3),
        "simulator": problem.measured_by,
        "status": result.status.value,
        "outcome": result.outcome.value if result.outcome else None,
        "study": result.study,
    }


def _on_device(finalist: Finalist | None) -> dict[str, Any]:
    return {} if finalist is None else {"on_device": finalist.as_json()}


def _finite(metrics: Mapping[str, float] | None) -> dict[str, float | None] | None:
    """Metrics as JSON can hold them: infinity and NaN become null."""
    if metrics is None:
        return None
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}
