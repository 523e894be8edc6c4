"""From the store to the outcome of a comparison."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from kilotune.experiments.comparison.outcome import CaseOutcome, ComparisonOutcome, PaperResult
from kilotune.experiments.comparison.plan import Case, ComparisonPlan, RunKey
from kilotune.experiments.comparison.verdict import verdict
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.problems.problem_entry import procedure_name
from kilotune.search.anytime import Curve, best_so_far
from kilotune.search.budget import Budget
from kilotune.search.comparison import Comparison, RunRecord, compare
from kilotune.search.comparison_store import ComparisonRow, comparison, save_curve, saved_curves
from kilotune.search.front import Ranking
from kilotune.search.hypervolume import compared_objective, hypervolume_so_far
from kilotune.search.result import Status
from kilotune.search.space import reference_point
from kilotune.search.store import Store, StoreError
from kilotune.search.stored_rows import StudyRow


class RecordReader:
    """Reads runs, each again only when it has changed: for callers that ask while a comparison goes on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._problems: dict[str, Problem] = {}  # by what is asked
        self._curves = saved_curves(store)
        self._compared: dict[str, tuple[tuple[Any, ...], Comparison]] = {}  # what was compared, by case

    def load(self, name: str) -> ComparisonOutcome:
        """StoreError: no such comparison. ValueError: proofs contradict each other, or an input is gone."""
        row = comparison(self._store, name)
        plan = stored_plan(row)
        stored = {study.name: study for study in self._store.studies() if study.request.get("comparison") == name}
        cases = []
        for number, case in enumerate(plan.cases):
            studies = {
                (run.strategy, run.seed): plan.study_name(name, run) for run in plan.runs() if run.case == number
            }
            there = {key: stored[study] for key, study in studies.items() if study in stored}
            if any(_begun(study, plan.limits) for study in there.values()):
                findings = row.findings.get(case.title)
                cases.append(self._case(case, plan.limits, there, findings, len(studies)))
        return ComparisonOutcome(name, plan, tuple(cases))

    def _case(
        self,
        case: Case,
        limits: Budget,
        studies: Mapping[tuple[str, int], StudyRow],
        findings: Mapping[str, Any] | None,
        wanted: int,
    ) -> CaseOutcome:
        problem = self.problem(case)
        runs = [self._record(case, problem, study, limits) for study in studies.values() if _begun(study, limits)]
        paper = None if findings is None else _paper(findings)
        seconds = limits.seconds if math.isfinite(limits.seconds) else None
        asked = (tuple(runs), None if paper is None else paper.loss, seconds)
        if case.title not in self._compared or self._compared[case.title][0] != asked:
            self._compared[case.title] = (
                asked,
                compare(*asked),
            )  # exact tests take a second where there are many pairs
        compared = self._compared[case.title][1]
        names = {key: study.name for key, study in studies.items()}
        return CaseOutcome(
            case,
            problem,
            compared,
            paper,
            names,
            wanted,
            verdict(compared_objective(problem.space), compared, procedure_name(problem)),
        )

    def problem(self, case: Case) -> Problem:
        """The problem of a case, built once."""
        key = json.dumps([case.space, case.input, case.options], sort_keys=True)
        if key not in self._problems:
            self._problems[key] = build_problem(case.request())
        return self._problems[key]

    def keep(self, plan: ComparisonPlan, comparison: str, run: RunKey) -> None:
        """Save the curve of a run, so that nobody has to read its trials again."""
        for study in self._store.studies(plan.study_name(comparison, run)):
            save_curve(self._store, study.name, self._curve(plan.cases[run.case], study))

    def _curve(self, case: Case, study: StudyRow) -> Curve:
        known = self._curves.get(study.name)
        if known is None or (known.evaluations, known.seconds) != (study.trials, study.elapsed_s):
            rows = self._store.trials(study.name)
            measured = ((row.elapsed_s, row.measurement) for row in rows)
            space = self.problem(case).space
            ranking, reference = Ranking.of(space), reference_point(space)
            if reference is None:
                known = best_so_far(measured, ranking, study.elapsed_s)
            else:
                known = hypervolume_so_far(measured, ranking, study.elapsed_s, reference)
            self._curves[study.name] = known
        return known

    def _record(self, case: Case, problem: Problem, study: StudyRow, limits: Budget) -> RunRecord:
        curve = self._curve(case, study)
        bound = max(problem.space.start().bound(), -math.inf if study.bound is None else study.bound)
        ended = study.outcome in ("proved", "exhausted")
        proved = ended or curve.loss <= bound
        complete = _complete(study, limits)
        return RunRecord(study.strategy, study.seed, curve, curve.loss if ended else bound, proved, complete)


def stored_plan(row: ComparisonRow) -> ComparisonPlan:
    """The plan of a stored comparison. ValueError, which names the comparison, for one that is damaged."""
    try:
        plan = ComparisonPlan.from_json(row.plan)
        plan.limits  # noqa: B018 - a budget that cannot be read
    except ValueError as error:
        raise ValueError(f"Comparison {row.name!r}: {error}") from None
    return plan


def load(store: Store, name: str) -> ComparisonOutcome:
    """See `RecordReader.load`."""
    return RecordReader(store).load(name)


def missing_runs(store: Store, name: str, plan: ComparisonPlan) -> list[RunKey]:
    """Those that are not there, or that have some of their budget left. StoreError: another study has the name of a run."""
    stored, missing = {study.name: study for study in store.studies()}, []
    for run in plan.runs():
        study = stored.get(plan.study_name(name, run))
        if study is not None and study.request.get("comparison") != name:
            raise StoreError(
                f"{store.place} already holds a study {study.name!r}, which is no run of the comparison {name!r}: choose another "
                "--name."
            )
        if study is None or not _complete(study, plan.limits):
            missing.append(run)
    return missing


def _complete(study: StudyRow, limits: Budget) -> bool:
    """Whether there is nothing left to do."""
    return study.status == Status.FINISHED.value or study.elapsed_s >= limits.seconds or study.trials >= limits.trials


def _begun(study: StudyRow, limits: Budget) -> bool:
    """Whether it says something: a run that used its budget without a single trial does."""
    return study.trials > 0 or study.status == Status.BUDGET_SPENT.value or _complete(study, limits)


def _paper(findings: Any) -> PaperResult:
    """ValueError, a sentence, for findings that are damaged. A loss of null is +inf."""
    loss, evaluations = (findings.get("loss"), findings.get("evaluations")) if isinstance(findings, dict) else ("", 0)
    if not isinstance(loss, (int, float, type(None))) or not isinstance(evaluations, int):
        expected = "a loss and a number of evaluations"
        raise ValueError(f"the stored findings are damaged: expected {expected}, found {repr(findings)[:60]}")
    return PaperResult(math.inf if loss is None else loss, evaluations)
