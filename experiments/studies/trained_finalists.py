"""What is delivered, trained with the labels once it is chosen.

Training needs formats, and changes none, nor any byte or cycle. So it comes last. A search and its finalists are ranked by how nearly they
do what the float model does. What is trained may do otherwise and be right more often, so the two are told apart by labels: on made-up
inputs that are training samples with noise, who gives fewer of them another class than the sample's label, beyond chance (the exact
sign test of those that only one of the two gets wrong).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from kilotune.evaluators.fixed_point.fresh_inputs import PairedFlips
from kilotune.evaluators.simulated import DeviceError
from kilotune.experiments.problems.problem import LimitsLinkedFlash, Problem, TrainsDelivered
from kilotune.experiments.studies.command_time import made_in_time, unheard
from kilotune.experiments.studies.finished_finalists import NEW, record_new
from kilotune.experiments.studies.measured_finalists import MeasuredFinalists, keep_finalist, with_best
from kilotune.search.front import Ranking
from kilotune.search.space import Trial, asks_for_front
from kilotune.search.statistics import SIGNIFICANCE, sign_test_p
from kilotune.search.study import Study


def trains_delivered(problem: Problem) -> bool:
    """Whether what is delivered is trained: where that is asked for, and one candidate is."""
    return isinstance(problem, TrainsDelivered) and problem.trains_delivered and not asks_for_front(problem.space)


def trained_finalist(
    problem: Problem,
    study: Study,
    chosen: MeasuredFinalists,
    is_over: Callable[[], bool],
    tell: Callable[[str], None] = unheard,
) -> MeasuredFinalists | None:
    """The trained candidate of what was chosen, kept with the study, of which it becomes a trial. None where none is asked for, where the
    trained one breaks a limit or, if what was chosen breaks none, is not right more often, and where that is not known. Where `is_over`
    before it is, what was chosen, and a sentence that says so."""
    best = chosen.result.best
    if not isinstance(problem, TrainsDelivered) or not trains_delivered(problem):
        return None
    if best is None or problem.trained(best.assignment) == best.assignment:
        return None
    tell("training the weights of what was found with the labels")
    trained = made_in_time(is_over, partial(_measured, problem, study, best))
    if trained is None:
        return _not_in_time(study, chosen, best)
    if trained.number == NEW:
        record_new(study, [trained])
        trained = study.book.trial_of(trained.assignment) or trained
    if not _is_within(problem, study, trained):
        return None
    said = f"Trial {trained.number} is trial {best.number} trained with the labels"
    if chosen.result.feasible and chosen.kept:
        _keep_though_ranked_after(study, best)
        found = made_in_time(is_over, partial(problem.paired_errors, best, trained))
        if found is None and is_over():
            return _not_in_time(study, chosen, best)
        if found is None or not _is_surely_right_more_often(found):
            return None
        said += (
            f": of {found.inputs} made-up inputs, which are training samples with noise, it gives {found.both + found.only_second} "
            f"another class than the sample's label, and that one {found.both + found.only_first}."
        )
    else:
        said += ", which breaks a limit that the trained one keeps."
    keep_finalist(study, trained, study.result().best or best, also_if_proved=True)
    return MeasuredFinalists(with_best(chosen.result, trained, problem.space.objectives[0]), _after(chosen, said))


def _is_surely_right_more_often(found: PairedFlips) -> bool:
    """Whether the second of two programs is wrong less often beyond chance."""
    fewer = found.only_second < found.only_first
    return fewer and sign_test_p(found.only_second, found.only_first) < SIGNIFICANCE


def _after(chosen: MeasuredFinalists, said: str) -> str:
    """A sentence after what is said of what was chosen."""
    return said if chosen.said is None else f"{chosen.said} {said}"


def _not_in_time(study: Study, chosen: MeasuredFinalists, best: Trial) -> MeasuredFinalists:
    """What was chosen, where training has not ended: of a budget in seconds it has what the search and other finalists leave of
    nine tenths."""
    said = f"There was no time to train the weights of trial {best.number}: a larger --budget of `tune resume {study.name}` leaves more."
    return replace(chosen, said=_after(chosen, said))


def _keep_though_ranked_after(study: Study, chosen: Trial) -> None:
    """Keep with the study what was chosen, where the trained one, a trial from now on, is ranked before it: it may be refused."""
    now = study.result().best
    if now is not None and now.number != chosen.number:
        keep_finalist(study, chosen, now, also_if_proved=True)


def _is_within(problem: Problem, study: Study, trained: Trial) -> bool:
    """Whether a trained candidate keeps all limits. Other codes hardly change what a whole program takes, but where that is limited, it is
    linked."""
    if not trained.metrics or Ranking.of(study.space).violation(trained.measurement):
        return False
    if not isinstance(problem, LimitsLinkedFlash) or problem.linked_limit_bytes is None:
        return True
    try:
        return problem.linked_bytes(trained) <= problem.linked_limit_bytes
    except DeviceError:
        return False


def _measured(problem: TrainsDelivered, study: Study, best: Trial) -> Trial:
    """The trained candidate of a trial."""
    candidate = problem.trained(best.assignment)
    known = study.book.trial_of(candidate)
    if known is not None:
        return known
    (measurement,) = study.space.evaluate([candidate])
    return Trial(NEW, candidate, measurement)
