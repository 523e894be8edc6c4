"""What is delivered, trained with the labels once it is chosen.

Training needs formats, and changes none, nor any byte or cycle. So it comes last. A search and its finalists are ranked by how nearly they
do what the float model does. What is trained may do otherwise and be right more often, so the two are told apart by labels: on made-up
inputs that are training samples with noise, who gives fewer of them another class than the sample's label, beyond chance (the exact
sign test of those that only one of the two gets wrong). What is trained has learnt these labels, so that alone would not do: it must not be
wrong more often on the samples themselves, where noise asks for another thing than they do, nor, where it is right on more of them than
a float model that has not been trained with them, on halves of the samples that it is not trained with either. Of 300 samples which its
float model had never met a program learnt 90 % by heart and was right on 72 % of others, where that model is on 82 %.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from kilotune.evaluators.fixed_point.fresh_inputs import PairedFlips
from kilotune.experiments.problems.problem import LimitsLinkedFlash, Problem, TrainsDelivered
from kilotune.experiments.studies.command_time import endless, made_in_time, unheard
from kilotune.experiments.studies.finished_finalists import NEW, is_whole, record_new
from kilotune.experiments.studies.linked_programs import bytes_linked, without_estimate
from kilotune.experiments.studies.measured_finalists import (
    FINALIST,
    PRECISION,
    MeasuredFinalists,
    keep_finalist,
    with_best,
)
from kilotune.search.front import Ranking
from kilotune.search.space import Assignment, Trial, asks_for_front
from kilotune.search.statistics import SIGNIFICANCE, sign_test_p
from kilotune.search.study import Study

LEFT_SHARE = 0.75
"""The share of the time that is left in which a training is to end, by steps that are timed before: some take longer."""


PESSIMISM = 0.02
"""The share of the samples that a training with half of them may lose beside what a program loses that knows them all, before that tells of
samples learnt by heart: protonn-digits loses 0.75 points so, and gains 0.67 on test samples; 300 samples that a float model had not met
cost 10 points."""


def trains_delivered(problem: Problem) -> bool:
    """Whether what is delivered is trained: where that is asked for, and one candidate is."""
    return isinstance(problem, TrainsDelivered) and problem.trains_delivered and not asks_for_front(problem.space)


def delivered_before(problem: Problem, study: Study) -> Trial | None:
    """The trained candidate that an earlier run has kept, within all limits."""
    kept = study.stored_request().get(FINALIST)
    trial = study.book.numbered(kept["trial"]) if isinstance(kept, dict) else None
    if trial is None or not trains_delivered(problem) or not is_whole(trial.measurement):
        return None
    assert isinstance(problem, TrainsDelivered)
    within = not _limits_of(problem, study).violation(trial.measurement)
    return trial if within and problem.is_trained(trial.assignment) else None


def trained_finalist(
    problem: Problem,
    study: Study,
    chosen: MeasuredFinalists,
    is_over: Callable[[], bool],
    tell: Callable[[str], None] = unheard,
    left_s: Callable[[], float] = endless,
    earlier: Trial | None = None,
) -> MeasuredFinalists | None:
    """The trained candidate of what was chosen, kept with the study, of which it becomes a trial. None where none is asked for, and where
    it cannot be compared. Where it breaks a limit or, if what was chosen breaks none, is not surely right more often, where it cannot be
    trained, and where `is_over` before it is: what was chosen, and a sentence that says so.

    `left_s`: seconds until then, by which a training may be a shorter one. `earlier`: see `delivered_before`; it is what was chosen as long
    as it is right more often, and where there is no time to ask."""
    best = chosen.result.best
    if best is None or not trains_delivered(problem):
        return None
    assert isinstance(problem, TrainsDelivered)
    stays = None if earlier is None else _staying(problem, study, chosen, earlier, is_over)
    chosen = stays or chosen
    return _trained(problem, study, chosen, best, is_over, tell, left_s) or stays


def _staying(
    problem: TrainsDelivered, study: Study, chosen: MeasuredFinalists, earlier: Trial, is_over: Callable[[], bool]
) -> MeasuredFinalists | None:
    """The trained candidate of an earlier run as what was chosen, unless that is better in what comes before precision, or as right."""
    best, objective = chosen.result.best, study.space.objectives[0]
    if best is None or best.number == earlier.number or not _is_as_good_before(study, earlier, best):
        return None
    found = made_in_time(is_over, partial(problem.paired_errors, best, earlier)) if chosen.result.feasible else None
    if found is not None and found.only_second >= found.only_first:
        return None
    if found is None and not is_over():
        return None
    keep_finalist(study, earlier, study.result().best or best, also_if_proved=True)
    said = f"Trial {earlier.number}, which an earlier run has trained and delivered, stays"
    said += (
        f": there was no time to compare trial {best.number} with it."
        if found is None
        else f": of {_words(found, best)}, and it {found.both + found.only_second}."
    )
    return MeasuredFinalists(with_best(chosen.result, earlier, objective), _after(chosen, said))


def _trained(
    problem: Problem,
    study: Study,
    chosen: MeasuredFinalists,
    untrained: Trial,
    is_over: Callable[[], bool],
    tell: Callable[[str], None],
    left_s: Callable[[], float],
) -> MeasuredFinalists | None:
    """The trained candidate of `untrained`, beside what was chosen: that, or what stays of an earlier run."""
    assert isinstance(problem, TrainsDelivered)
    best, reason = chosen.result.best or untrained, problem.why_untrained(untrained.assignment)
    known = study.book.trial_of(problem.trained(untrained.assignment))
    if known is not None and known.number in (best.number, untrained.number):
        return None
    if reason is not None:
        return saying(chosen, f"Trial {untrained.number} was not trained: {reason}.")
    tell("training the weights of what was found with the labels")
    trained = made_in_time(is_over, partial(trained_trial, problem, study, untrained.assignment, left_s))
    if trained is None:
        return _not_in_time(study, chosen, untrained)
    if trained.number in (best.number, untrained.number):
        return None
    if trained.number == NEW:
        record_new(study, [trained])
        trained = study.book.trial_of(trained.assignment) or trained
    said = f"Trial {trained.number} is trial {untrained.number} trained with the labels"
    if not _is_within(problem, study, trained):
        return saying(chosen, f"{said}, and breaks a limit.")
    if chosen.result.feasible and chosen.kept:
        _keep_though_ranked_after(study, best)
        verdict = made_in_time(is_over, partial(_verdict, problem, best, trained))
        if verdict is None and is_over():
            return _not_in_time(study, chosen, untrained)
        if verdict is None or not verdict.is_better:
            return None if verdict is None else saying(chosen, f"{said}: {verdict.said}")
        said += f": {verdict.said}"
    else:
        said += ", which breaks a limit that the trained one keeps."
    keep_finalist(study, trained, study.result().best or best, also_if_proved=True)
    return MeasuredFinalists(with_best(chosen.result, trained, study.space.objectives[0]), _after(chosen, said))


@dataclass(frozen=True)
class _Verdict:
    """Whether a trained candidate is surely right more often than another one, and a clause that says so, or why not."""

    is_better: bool
    said: str


def _verdict(problem: TrainsDelivered, best: Trial, trained: Trial) -> _Verdict | None:
    """None where nothing can be compared."""
    found = problem.paired_errors(best, trained)
    if found is None:
        return None
    counted = (
        f"of {found.inputs} made-up inputs, which are training samples with noise, it gives {found.both + found.only_second} "
        f"another class than the sample's label, and that one {found.both + found.only_first}"
    )
    if not _is_surely_right_more_often(found):
        return _Verdict(False, f"{counted}, which stays.")
    if _is_surely_right_more_often(_swapped(problem.sample_errors(best, trained))):
        return _Verdict(False, f"it is wrong on more of the training samples than trial {best.number}, which stays.")
    unseen = learnt_by_heart(problem, best, trained)
    if unseen is not None:
        return _Verdict(
            False,
            f"trained with either half of the training samples it gives {unseen.both + unseen.only_second} of the others another class "
            f"than their label, and trial {best.number}, which stays, {unseen.both + unseen.only_first}: they are too few, or none "
            "that the model was trained with.",
        )
    return _Verdict(True, f"{counted}.")


def learnt_by_heart(problem: TrainsDelivered, best: Trial, trained: Trial) -> PairedFlips | None:
    """How often the best and a trained candidate are wrong on samples that this is not trained with, where it is surely, and by more than
    PESSIMISM; None where it is not, or that is no question."""
    unseen = problem.unseen_errors(best, trained)
    if unseen is None or unseen.only_second - unseen.only_first <= PESSIMISM * unseen.inputs:
        return None
    return unseen if _is_surely_right_more_often(_swapped(unseen)) else None


def _words(found: PairedFlips, first: Trial) -> str:
    """What the first of two programs gets wrong."""
    wrong = found.both + found.only_first
    return (
        f"{found.inputs} made-up inputs, which are training samples with noise, trial {first.number} gives {wrong} another class than the "
        "sample's label"
    )


def _swapped(found: PairedFlips) -> PairedFlips:
    return found._replace(only_first=found.only_second, only_second=found.only_first)


def _is_surely_right_more_often(found: PairedFlips) -> bool:
    """Whether the second of two programs is wrong less often beyond chance."""
    fewer = found.only_second < found.only_first
    return fewer and sign_test_p(found.only_second, found.only_first) < SIGNIFICANCE


def _is_as_good_before(study: Study, earlier: Trial, best: Trial) -> bool:
    """Whether an earlier candidate is no worse in all that comes before precision."""
    ranking = Ranking.of(study.space)
    names = [objective.metric for objective in ranking.objectives]
    at = names.index(PRECISION) if PRECISION in names else len(names)
    return ranking.losses(earlier.measurement)[:at] <= ranking.losses(best.measurement)[:at]


def _after(chosen: MeasuredFinalists, said: str) -> str:
    """A sentence after what is said of what was chosen."""
    return said if chosen.said is None else f"{chosen.said} {said}"


def _not_in_time(study: Study, chosen: MeasuredFinalists, best: Trial) -> MeasuredFinalists:
    """What was chosen, where training has not ended: of a budget in seconds it has what the search and other finalists leave of
    nine tenths."""
    if study.stopped:
        return saying(
            chosen,
            f"Training the weights of trial {best.number} was interrupted: `tune resume {study.name}` does it.",
        )
    said = f"There was no time to train the weights of trial {best.number}: a larger --budget of `tune resume {study.name}` leaves more."
    return saying(chosen, said)


def saying(chosen: MeasuredFinalists, said: str) -> MeasuredFinalists:
    """What was chosen, and a sentence after what is said of it."""
    return replace(chosen, said=_after(chosen, said))


def _keep_though_ranked_after(study: Study, chosen: Trial) -> None:
    """Keep with the study what was chosen, where the trained one, a trial from now on, is ranked before it: it may be refused."""
    now = study.result().best
    if now is not None and now.number != chosen.number:
        keep_finalist(study, chosen, now, also_if_proved=True)


def _is_within(problem: Problem, study: Study, trained: Trial) -> bool:
    """Whether a trained candidate keeps all limits. Other codes hardly change what a whole program takes, but where that is limited, it is
    linked."""
    if not trained.metrics or _limits_of(problem, study).violation(trained.measurement):
        return False
    if not isinstance(problem, LimitsLinkedFlash) or problem.linked_limit_bytes is None:
        return True
    return bytes_linked(problem, trained) <= problem.linked_limit_bytes


def _limits_of(problem: Problem, study: Study) -> Ranking:
    """The limits, less that on an estimate of linked bytes: what is linked may well be within them where its estimate is not."""
    ranking = Ranking.of(study.space)
    limited = isinstance(problem, LimitsLinkedFlash) and problem.linked_limit_bytes is not None
    return without_estimate(ranking) if limited else ranking


def trained_trial(
    problem: TrainsDelivered,
    study: Study,
    assignment: Assignment,
    left_s: Callable[[], float],
    share: float = LEFT_SHARE,
) -> Trial:
    """The trained candidate of a candidate, measured, in as many steps as likely end in that share of the time that is left; one that is
    known takes none."""
    whole = problem.trained(assignment)
    known = study.book.trial_of(whole)
    if known is None:
        candidate = problem.trained_within(assignment, share * left_s())
        known = study.book.trial_of(candidate)
    if known is not None:
        return known
    (measurement,) = study.space.evaluate([candidate])
    return Trial(NEW, candidate, measurement)
