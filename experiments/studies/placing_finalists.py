"""Finalists placed on a board after a search, and what was found kept with the study: for its report, its export, and its next run."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

from kilotune.experiments.problems.placing import PLACED, FinalistPlacing, kept_placing
from kilotune.experiments.problems.problem import PlacesFinalists, Problem
from kilotune.experiments.studies.command_time import AFTER_INTERRUPT_S, made_in_time, unheard
from kilotune.experiments.studies.measured_finalists import kept_finalist
from kilotune.search.front import Ranking
from kilotune.search.result import Result
from kilotune.search.space import Trial
from kilotune.search.study import Study


def place_finalists(
    problem: Problem, study: Study, result: Result, is_over: Callable[[], bool], tell: Callable[[str], None] = unheard
) -> FinalistPlacing | None:
    """The front from its first candidate, then all others from the best, as hardware, and kept; what was kept before where none is tried
    now. None for problems whose candidates are no hardware. `tell` hears of each that is tried."""
    if not isinstance(problem, PlacesFinalists):
        return None
    if not (result.feasible and problem.most_placed):
        return kept_placing(study)
    found = _placed(problem, study, result, is_over, tell)
    if found.tried:
        _record_new(study, found)
        study.keep_in_request(PLACED, found.as_json())
        return found
    kept = kept_placing(study)
    return found if kept is None else replace(kept, interrupted=found.interrupted)


def _placed(
    problem: PlacesFinalists, study: Study, result: Result, is_over: Callable[[], bool], tell: Callable[[str], None]
) -> FinalistPlacing:
    ranking = Ranking.of(study.space)
    in_front = {trial.number: trial for trial in result.front if not ranking.violation(trial.measurement)}
    others = (trial for trial in study.book.best_first(ranking) if trial.number not in in_front)
    finalists = itertools.chain(in_front.values(), others)

    def interrupted() -> bool:
        return study.stopped_for_s() >= AFTER_INTERRUPT_S

    over = interrupted if problem.places_beyond_budget else is_over
    attempts = problem.place(finalists, study.book.next_number)
    found = [next(attempts)]
    tell(f"trying candidates on {found[0].board}")

    def to_the_end() -> bool:
        for attempt in attempts:
            found.append(attempt)
            tell(f"trying candidates on {attempt.board}, {len(attempt.tried)} so far")
        return True

    if made_in_time(over, to_the_end) or found[-1].held:
        return found[-1]
    stopped = interrupted()
    end = "Placing was interrupted" if stopped else "The budget ended"
    whose = f"`{resuming_placing(problem, study.name)}` goes on"
    said = f"{end} before a candidate was found that can be used on {found[-1].board}: {whose}."
    return replace(found[-1], unplaced=said, interrupted=stopped)


def _record_new(study: Study, found: FinalistPlacing) -> None:
    """Trials that were made for the board become the study's, so that they can be shown and exported."""
    known = study.book.numbers()
    for trial in (placed.trial for placed in found.tried if placed.trial.number not in known):
        study.record(
            study.book.encoding.key(trial.assignment), trial.number, trial.assignment, trial.measurement, run_s=0.0
        )
    study.save(0.0)


def knowing_placing(problem: Problem, placing: FinalistPlacing | None) -> Problem:
    """The problem, which knows what was found on the board, where its candidates are hardware and some were placed."""
    return problem.knowing(placing) if placing is not None and isinstance(problem, PlacesFinalists) else problem


def resuming_placing(problem: PlacesFinalists, study: str) -> str:
    """The command that goes on placing a study's candidates."""
    return f"tune resume {study} --place {problem.most_placed}"


def exported_trial(problem: Problem, study: Study, point: int | None) -> Trial:
    """The candidate that is written: that point of the front, from 1; without a number the one that held when it was placed or was fastest
    on the device, else the best. ValueError, a sentence, where there is none."""
    placing = kept_placing(study) if point is None else None
    held = None if placing is None else placing.held
    if held is not None:
        return held.trial
    result = study.result()
    return (kept_finalist(problem, study, result) if point is None else result).point(point)
