"""One search from start to finish: study, budget, procedure for comparison, result."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kilotune.evaluators.on_device import DeviceMeasurement
from kilotune.experiments.problems.device_check import DeviceCheck
from kilotune.experiments.problems.placing import FinalistPlacing
from kilotune.experiments.problems.problem import (
    ApproximatesInput,
    ComparesFlips,
    LimitsProcedure,
    PlacesFinalists,
    Problem,
    RunsOnDevice,
    device_of,
    float_metrics_of,
)
from kilotune.experiments.problems.procedure_measurements import remembered
from kilotune.experiments.studies.command_time import (
    DEVICE_SHARE,
    TRAINING_SHARE,
    CommandTime,
    endless,
    made_in_time,
    never,
    unheard,
)
from kilotune.experiments.studies.confirmed_finalists import chosen_finalist
from kilotune.experiments.studies.delivery import Delivery, kept_delivery
from kilotune.experiments.studies.device_checks import checked_programs
from kilotune.experiments.studies.finished_finalists import finishes_finalists
from kilotune.experiments.studies.linked_finalists import linked_as_built
from kilotune.experiments.studies.placing_finalists import knowing_placing, place_finalists, resuming_placing
from kilotune.experiments.studies.procedure_outcome import ProcedureOutcome, procedure_in_time
from kilotune.experiments.studies.trained_finalists import trains_delivered
from kilotune.experiments.studies.unseen_data import on_unseen_data, unmeasured_sentence
from kilotune.experiments.studies.validation import NOTHING_HELD_OUT, Validation, validated
from kilotune.experiments.studies.workplace import Workplace
from kilotune.search.budget import Budget
from kilotune.search.interrupts import stops_on_interrupt
from kilotune.search.procedure import run_procedure
from kilotune.search.result import Progress, Result, Status
from kilotune.search.space import Assignment, Measurement, Metrics, Trial
from kilotune.search.stopping import SETTLED, StopRule
from kilotune.search.study import Study

MOST_CHECKED = 8
"""Candidates of the front that are compiled for the device."""

NOT_COMPARED = (
    "What the integers lose against the floats is not known: no time was left to run both (`tune report` does)"
)

NOT_ALL_COMPARED = "The budget left no time for more of that (`tune report` tells all)"


@dataclass(frozen=True)
class TuneOutcome:
    """A finished run with everything that a report needs."""

    problem: Problem
    result: Result
    paper: ProcedureOutcome  # what the paper's own heuristic reaches on the same input
    test: Metrics | None  # the best candidate on data that the search did not see
    float_metrics: dict[str, Metrics]
    procedure_test: Metrics | None = None  # the procedure's
    device_check: DeviceCheck | None = None  # the best candidate on the device
    procedure_device_check: DeviceCheck | None = None
    front_device_checks: tuple[DeviceCheck | None, ...] = ()
    float_on_device: DeviceMeasurement | None = None
    validation: Validation = NOTHING_HELD_OUT
    asked: Budget | None = None  # the command's budget; None without a run
    used_s: float = 0.0  # of it, until the search ended, without what a resumed study has replayed
    approximation: dict[str, Any] | None = None  # what all candidates lose against the input
    test_not_measured: str | None = None  # why `test` is not there, where that is for want of time
    placing: FinalistPlacing | None = None  # finalists on the board
    said_of_finalists: str | None = None  # which was chosen after the search, where that is not its best
    finalists_kept: bool = True  # whether a limit that only the device can tell of is kept

    @property
    def procedure(self) -> Trial | None:
        """The paper's answer."""
        return self.paper.answer

    @property
    def exported(self) -> Trial | None:
        """The candidate to be used: the best, or the one that a board has turned out to have room for."""
        held = None if self.placing is None else self.placing.held
        return self.result.best if held is None else held.trial

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C has ended the search, or the placing of its candidates."""
        placing = self.placing
        return self.result.status is Status.INTERRUPTED or (placing is not None and placing.interrupted)

    @property
    def resuming(self) -> str:
        """The command that goes on where Ctrl-C has ended the search, or the placing of its candidates."""
        placing, problem, study = self.placing, self.problem, self.result.study
        if placing is not None and placing.interrupted and isinstance(problem, PlacesFinalists):
            return resuming_placing(problem, study)
        return f"tune resume {study}"

    @property
    def usable(self) -> bool:
        """Whether a candidate keeps all limits, and where some were, or should have been, tried on a board, one of these does there."""
        placing, problem = self.placing, self.problem
        if not (self.result.feasible and self.finalists_kept):
            return False
        if isinstance(problem, PlacesFinalists):
            asked_for = problem.places_beyond_budget and problem.most_placed > 0
            if asked_for or problem.only_placing_tells:
                return placing is not None and placing.held is not None
        return placing is None or not placing.tried or placing.held is not None


@dataclass(frozen=True)
class Searched:
    """A search that has ended. `replay_s`: what a resumed study has replayed, which costs no budget; `used_s`: of the command's budget."""

    result: Result
    replay_s: float
    used_s: float


def run(
    problem: Problem,
    study: Study,
    time: CommandTime,
    workplace: Workplace,
    on_progress: Callable[[Progress], None] | None,
    stop: StopRule = SETTLED,
    on_conclusion: Callable[[str], None] = unheard,
) -> TuneOutcome:
    """Search until the budget is spent, the strategy ends, `stop` says so, or Ctrl-C; then what the time still allows of the rest, of whose
    longer parts `on_conclusion` hears."""
    with stops_on_interrupt(study):
        searched = search(problem, study, time, workplace, on_progress, stop)
        outcome = conclude(
            problem,
            study,
            searched.result,
            is_over=time.concluded(study, searched.replay_s),
            finalists_over=lambda: time.finalists_over(searched.replay_s),
            untrained_over=lambda: time.untrained_over(searched.replay_s),
            training_left_s=lambda: time.training_left_s(searched.replay_s),
            tell=on_conclusion,
        )
        return dataclasses.replace(outcome, asked=time.budget, used_s=searched.used_s)


def run_to_delivery(
    problem: Problem,
    study: Study,
    time: CommandTime,
    workplace: Workplace,
    on_progress: Callable[[Progress], None] | None,
    stop: StopRule = SETTLED,
    on_conclusion: Callable[[str], None] = unheard,
) -> Delivery:
    """As `run`, but for what is only measured to be shown: what is to be used of the study, which `run` comes to as well."""
    with stops_on_interrupt(study):
        searched = search(problem, study, time, workplace, on_progress, stop)
        result, is_over = searched.result, time.concluded(study, searched.replay_s)
        answer = None
        if isinstance(problem, ComparesFlips | RunsOnDevice):  # which choose between it and the best
            answer = procedure_in_time(study, result, lambda: procedure_of(problem, study), is_over).answer

        def finalists_over() -> bool:
            return is_over() or time.finalists_over(searched.replay_s)

        def untrained_over() -> bool:
            return time.untrained_over(searched.replay_s)

        def left_s() -> float:
            return time.training_left_s(searched.replay_s)

        over = finalists_over, on_conclusion, untrained_over, left_s
        finalists = chosen_finalist(problem, study, result, answer, *over)
        return Delivery(finalists, place_finalists(problem, study, finalists.result, is_over, on_conclusion))


def search(
    problem: Problem,
    study: Study,
    time: CommandTime,
    workplace: Workplace,
    on_progress: Callable[[Progress], None] | None,
    stop: StopRule,
) -> Searched:
    """The search alone, in what the budget leaves it. Ctrl-C is the caller's."""
    executor = workplace.executor(problem.space)
    try:
        chooses = device_of(problem) is not None or finishes_finalists(problem)
        share = DEVICE_SHARE if chooses else 0.0
        budget = time.for_search(TRAINING_SHARE if trains_delivered(problem) else share)
        result = study.run(
            executor,
            budget,
            stop=stop,
            on_progress=on_progress,
            handle_interrupts=False,
            first_answer_s=time.for_first_answer(budget, problem.space),
        )
        replay_s = 0.0 if result.course is None else result.course.replay_s
        return Searched(result, replay_s, time.spent_s() - replay_s)
    finally:
        executor.close()


def conclude(
    problem: Problem,
    study: Study,
    result: Result,
    most_checked: int = MOST_CHECKED,
    is_over: Callable[[], bool] = never,
    finalists_over: Callable[[], bool] = never,
    untrained_over: Callable[[], bool] = never,
    training_left_s: Callable[[], float] = endless,
    tell: Callable[[str], None] = unheard,
    delivery: Delivery | None = None,
) -> TuneOutcome:
    """Add what is measured once: the paper's procedure, the test data, the float model, programs on the device, of the
    front no more than `most_checked`. What is not there when `is_over` says so is left out, and finalists earlier: those that
    are not run when `finalists_over` says so, since test data and the best one on the device matter more, and where one is to be trained
    when `untrained_over` does: `training_left_s` seconds are left to that then. `delivery`: what has been chosen
    already; where nothing is checked it is what an earlier run has kept."""

    paper = procedure_in_time(study, result, lambda: procedure_of(problem, study), is_over)
    if isinstance(problem, LimitsProcedure):
        paper = dataclasses.replace(paper, limits=problem.procedure_limits())
    if delivery is None and not most_checked:
        delivery = kept_delivery(problem, study, result)
    if delivery is None:
        over = (lambda: is_over() or finalists_over()), tell, untrained_over, training_left_s
        finalists = chosen_finalist(problem, study, result, paper.answer, *over)
    else:
        finalists = delivery.finalists
    result = finalists.result
    test = on_unseen_data(problem, study, result.best, is_over)
    float_metrics = made_in_time(is_over, lambda: float_metrics_of(problem)) or {}
    procedure_test = on_unseen_data(problem, study, paper.answer, is_over).metrics
    checks = checked_programs(problem, study, finalists, paper.answer, most_checked, is_over)
    finalists = linked_as_built(problem, finalists, checks.best)
    problem = checks.problem
    placing = place_finalists(problem, study, result, is_over, tell) if delivery is None else delivery.placing
    return TuneOutcome(
        knowing_placing(problem, placing),
        result,
        paper,
        test.metrics,
        float_metrics,
        procedure_test,
        checks.best,
        checks.procedure,
        checks.front,
        made_in_time(is_over, problem.float_on_device) if isinstance(problem, RunsOnDevice) else None,
        made_in_time(is_over, lambda: validated(problem, result, paper.answer)) or NOTHING_HELD_OUT,
        approximation=_approximation(problem, is_over),
        test_not_measured=unmeasured_sentence(problem, study, result.best, test),
        placing=placing,
        said_of_finalists=finalists.said,
        finalists_kept=finalists.kept,
    )


def _approximation(problem: Problem, is_over: Callable[[], bool]) -> dict[str, Any] | None:
    """What the candidates' common approximation of the input costs, as JSON, by as much of the data as there is time for; without any a
    sentence that says so, since silence would look like no loss."""
    if not isinstance(problem, ApproximatesInput) or not problem.can_be_compared:
        return None
    found: list[dict[str, Any]] = []

    def compare() -> bool:
        for one in problem.approximations():
            found.append(one)
        return True

    ended = made_in_time(is_over, compare)
    if found and not ended:
        return {**found[-1], "sentence": f"{found[-1]['sentence']}. {NOT_ALL_COMPARED}"}
    return found[-1] if found else None if ended else {"sentence": NOT_COMPARED}


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
