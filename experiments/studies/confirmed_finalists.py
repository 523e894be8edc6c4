"""The best of a search beside the answer of the paper's procedure, on inputs that neither was chosen by.

The best of thousands of candidates is partly lucky on the samples that it was chosen by. Where all that matters more than precision is the
same of both, the procedure's answer is delivered unless the best is surely more precise, which two things say together on many made-up
inputs like the samples. It changes the class of fewer of them beyond chance (the exact sign test of those that only one of the two
changes: McNemar, Psychometrika 1947), and it is unlikely to change the class of more of as many new inputs as there are training samples.
The test alone does not do: who flips 20 where the other flips 40 is better beyond doubt, and yet on few new inputs often the worse one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kilotune.evaluators.fixed_point.fresh_inputs import PairedFlips
from kilotune.experiments.problems.problem import ComparesFlips, Problem
from kilotune.experiments.studies.command_time import endless, made_in_time, never, unheard
from kilotune.experiments.studies.finished_finalists import finished_finalist
from kilotune.experiments.studies.linked_finalists import linked_finalist
from kilotune.experiments.studies.measured_finalists import (
    MeasuredFinalists,
    keep_finalist,
    measured_finalists,
    with_best,
)
from kilotune.experiments.studies.ranked_finalists import keep_ranked, losses_in_common, ranked_finalist
from kilotune.experiments.studies.trained_bisection import smaller_trained
from kilotune.experiments.studies.trained_finalists import delivered_before, trained_finalist, trains_delivered
from kilotune.search.front import Ranking
from kilotune.search.result import Result
from kilotune.search.space import Trial
from kilotune.search.statistics import SIGNIFICANCE, chance_of_more, sign_test_p
from kilotune.search.study import Study

MOST_RISK = 0.05
"""How likely what replaces the procedure's answer may change the class of more of as many new inputs as there are training samples. On
models that are none of the measured ones (generated, the papers', other splits of digits and cancer) none of 383 was worse on test data up
to 0.07, and 6 at 0.1 (docs/results-precision.md)."""


def chosen_finalist(
    problem: Problem,
    study: Study,
    result: Result,
    paper: Trial | None,
    is_over: Callable[[], bool],
    tell: Callable[[str], None] = unheard,
    untrained_over: Callable[[], bool] = never,
    left_s: Callable[[], float] = endless,
) -> MeasuredFinalists:
    """The finalist to be delivered: by what is linked where that is limited; else the best once some are finished, or the procedure's
    answer, `paper`, where that best is as expensive and not surely more precise; else by its time on the device (`measured_finalists`).
    Where that is asked for, it is then trained (`trained_finalist`), for which time is left from `untrained_over` on: `left_s` seconds
    until `is_over`; and where memory is what is to be least, smaller ones are (`smaller_trained`). None are compared then. `tell` hears
    what is being done."""
    trains = trains_delivered(problem)
    over = (lambda: is_over() or untrained_over()) if trains else is_over
    earlier = delivered_before(problem, study)
    chosen = _untrained_finalist(problem, study, result, paper, over, tell)
    trained = trained_finalist(problem, study, chosen, is_over, tell, left_s, earlier) or chosen
    return smaller_trained(problem, study, trained, is_over, tell, left_s) or trained


def _untrained_finalist(
    problem: Problem,
    study: Study,
    result: Result,
    paper: Trial | None,
    is_over: Callable[[], bool],
    tell: Callable[[str], None],
) -> MeasuredFinalists:
    linked = linked_finalist(problem, study, result, is_over, tell)
    if linked is not None:
        return linked
    finished = finished_finalist(problem, study, result, is_over, tell)
    ranked = None if finished else ranked_finalist(problem, study, result, paper, is_over, tell)
    best = (finished or ranked or MeasuredFinalists(result)).result
    compared = confirmed_finalist(problem, study, best, paper, is_over, tell) or finished
    if compared is not None:
        return compared
    if ranked is not None and keep_ranked(study, ranked, result, is_over):
        return ranked
    return measured_finalists(problem, study, result, paper, is_over, tell)


def confirmed_finalist(
    problem: Problem,
    study: Study,
    result: Result,
    paper: Trial | None,
    is_over: Callable[[], bool],
    tell: Callable[[str], None] = unheard,
) -> MeasuredFinalists | None:
    """The procedure's answer, kept with the study, where the best has the same losses as it in all that comes before precision and is not
    surely more precise. None where it is, and where the two cannot be compared."""
    best = result.best
    answer = None if paper is None else study.book.trial_of(paper.assignment)
    if not isinstance(problem, ComparesFlips) or best is None or answer is None or best.number == answer.number:
        return None
    if not _differ_in_precision(study, result, best, answer):
        return None
    tell("running the best and the procedure's answer on made-up inputs")
    found = made_in_time(is_over, partial(problem.paired_flips, best, answer))
    if found is None or not (found.only_first or found.only_second) or _is_surely_better(found):
        return None
    keep_finalist(study, answer, study.result().best or best, also_if_proved=True)
    said = (
        f"Trial {answer.number}, the answer of the paper's procedure, is kept: of {found.inputs} made-up inputs like the training samples "
        f"{found.both + found.only_second} change their class by it, and {found.both + found.only_first} by trial {best.number}, which is "
        f"the best found: that one is not surely better on as many new inputs as there are samples."
    )
    return MeasuredFinalists(with_best(result, answer, problem.space.objectives[0]), said)


def _is_surely_better(found: PairedFlips) -> bool:
    """Whether the first of two flips fewer beyond chance, and is unlikely to flip more of as many new inputs as there are samples. Half an
    input is added to those that it alone flips, since none among so many is not never (Jeffreys' prior)."""
    if found.only_first >= found.only_second or sign_test_p(found.only_first, found.only_second) >= SIGNIFICANCE:
        return False
    share = found.samples / found.inputs
    return chance_of_more((found.only_first + 0.5) * share, found.only_second * share) <= MOST_RISK


def _differ_in_precision(study: Study, result: Result, best: Trial, answer: Trial) -> bool:
    """Whether both keep all limits, and flips on new inputs are the first in which they may differ."""
    ranking, common = Ranking.of(study.space), losses_in_common(study, result)
    if common is None or ranking.violation(answer.measurement):
        return False
    return ranking.losses(best.measurement)[:common] == ranking.losses(answer.measurement)[:common]
