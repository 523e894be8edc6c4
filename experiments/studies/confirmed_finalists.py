"""The best of a search beside the answer of the paper's procedure, on inputs that neither was chosen by.

The best of thousands of candidates is partly lucky on the samples that it was chosen by. Where all that matters more than precision is the
same of both, it is delivered if it changes the class of fewer of many made-up inputs than the procedure's answer does, beyond chance (the
exact sign test of those that only one of them changes: McNemar, Psychometrika 1947). Else the procedure's answer is. On generated
models that gives up a few of the candidates that are better on test data, and nearly all of those that are worse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kilotune.experiments.problems.problem import ComparesFlips, Problem
from kilotune.experiments.studies.command_time import made_in_time
from kilotune.experiments.studies.linked_finalists import linked_finalist
from kilotune.experiments.studies.measured_finalists import (
    TIMED,
    MeasuredFinalists,
    keep_finalist,
    measured_finalists,
    with_best,
)
from kilotune.search.front import Ranking
from kilotune.search.result import Result
from kilotune.search.space import HasReferencePoint, Trial
from kilotune.search.statistics import SIGNIFICANCE, sign_test_p
from kilotune.search.study import Study

PRECISION = "expected_flips"
"""The metric of what changes of classes are expected by."""


def chosen_finalist(
    problem: Problem, study: Study, result: Result, paper: Trial | None, is_over: Callable[[], bool]
) -> MeasuredFinalists:
    """The finalist to be delivered: by what is linked where that is limited; the procedure's answer, `paper`, where the best is as
    expensive and not surely more precise; else by its time on the device (`measured_finalists`). None are compared once `is_over`."""
    return (
        linked_finalist(problem, study, result, is_over)
        or confirmed_finalist(problem, study, result, paper, is_over)
        or measured_finalists(problem, study, result, paper, is_over)
    )


def confirmed_finalist(
    problem: Problem, study: Study, result: Result, paper: Trial | None, is_over: Callable[[], bool]
) -> MeasuredFinalists | None:
    """The procedure's answer, kept with the study, where the best has the same losses as it in all that comes before precision and is not
    surely more precise. None where it is, and where the two cannot be compared."""
    best = result.best
    answer = None if paper is None else next((t for t in study.trials() if t.assignment == paper.assignment), None)
    if not isinstance(problem, ComparesFlips) or best is None or answer is None or best.number == answer.number:
        return None
    if not _differ_in_precision(study, result, best, answer):
        return None
    found = made_in_time(is_over, partial(problem.paired_flips, best, answer))
    if found is None or not (found.only_first or found.only_second):
        return None
    if found.only_first < found.only_second and sign_test_p(found.only_first, found.only_second) < SIGNIFICANCE:
        return None
    keep_finalist(study, answer, best, also_if_proved=True)
    said = (
        f"Trial {answer.number}, the answer of the paper's procedure, is kept: of {found.inputs} made-up inputs like the training samples "
        f"{found.both + found.only_second} change their class by it, and {found.both + found.only_first} by trial {best.number}, which is "
        f"the best on the samples and as expensive, so that one is not better beyond chance."
    )
    return MeasuredFinalists(with_best(result, answer, problem.space.objectives[0]), said)


def _differ_in_precision(study: Study, result: Result, best: Trial, answer: Trial) -> bool:
    """Whether both keep all limits, no front is asked for and no time, which the device tells, and of the objectives precision is the first
    in which they may differ."""
    space, ranking = study.space, Ranking.of(study.space)
    whole = isinstance(space, HasReferencePoint) and space.reference_point is not None
    names: Sequence[str] = [objective.metric for objective in ranking.objectives]
    if (
        whole
        or names[0] in TIMED
        or not result.feasible
        or ranking.violation(answer.measurement)
        or PRECISION not in names
    ):
        return False
    before = names.index(PRECISION)
    if before == 0 and result.proved:
        return False
    return ranking.losses(best.measurement)[:before] == ranking.losses(answer.measurement)[:before]
