"""Finalists of a search that are finished: what costs too much to be decided for every candidate, such as codes that are fitted, is decided
for the best ones, and the most precise of all is delivered.

A search ranks a finished candidate by its flips on the samples and on others besides, since it is fitted to the samples, and one that is
not finished by those on the samples alone, of which the best of thousands has few by luck. So what a finished one gains is seen only
where both are executed on the same made-up inputs, which neither was chosen by: that is how they are compared here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.problem import ComparesFlips, FinishesFinalists, Problem
from kilotune.experiments.studies.command_time import made_in_time, unheard
from kilotune.experiments.studies.measured_finalists import (
    FINALIST,
    PRECISION,
    TIMED,
    MeasuredFinalists,
    keep_finalist,
    kept_finalist,
    with_best,
)
from kilotune.search.front import Rank, Ranking
from kilotune.search.result import Result
from kilotune.search.space import (
    Assignment,
    FlatSpace,
    HasFinish,
    HasFlatView,
    HasFlatViews,
    Measurement,
    Space,
    Trial,
    asks_for_front,
)
from kilotune.search.study import Study

MOST_FINISHED = 6
"""Candidates that are finished: a fit takes from one to thirty seconds. What one comes to hardly tells what the next will, however alike
they are before: on test samples of five generated perceptrons the best of six flips 11 % less than the best of two, that of eight 9 %."""

NEW = -1
"""The number of a trial that is not the study's."""


def is_whole(measurement: Measurement) -> bool:
    """Whether a candidate was measured to the end."""
    return bool(measurement.metrics) and not measurement.censored


def independent_view(space: Space, trial: Trial) -> Space:
    """The candidates that differ from a trial's by independent decisions."""
    if isinstance(space, HasFlatViews):
        return space.flat_view_of(trial.assignment)
    return space.flat_view() if isinstance(space, HasFlatView) else space


def of_view(flat: FlatSpace, trials: Iterable[Trial]) -> Iterator[Trial]:
    """Those of the flat view."""
    for trial in trials:
        if len(trial.assignment) == len(flat.decisions) and _answers(flat, trial.assignment):
            yield trial


def _answers(flat: FlatSpace, candidate: Assignment) -> bool:
    """Whether a candidate has answers to all that the flat view asks."""
    return all(candidate.get(decision.name) in decision.options for decision in flat.decisions)


@dataclass(frozen=True)
class Finishing:
    """The best candidates of a space, finished one after the other and compared with the best.

    `within`: the measurement of a trial that is to be finished, with metrics as well as they are known, or None for one that breaks a
    limit. `measured`: the trial of a finished candidate, or None likewise. `tell` hears of each before it is finished. `ranks_finished`:
    two finished candidates are told apart by what is measured of them, which costs no further execution, and not as others are.
    """

    problem: object
    space: HasFinish
    ranking: Ranking
    within: Callable[[Trial], Measurement | None]
    measured: Callable[[Assignment], Trial | None]
    tell: Callable[[str], None]
    ranks_finished: bool = False

    def better(self, best: Trial, best_first: Iterable[Trial]) -> Iterator[Trial]:
        """What is finished and better than the best, and than those before. What is measured as exactly as precise computes the same, and
        is finished once."""
        begun = set[Rank]()
        for trial in best_first:
            precise = self.ranking.losses(trial.measurement)[:2]
            known = None if precise in begun else self.within(trial)
            if known is None:
                continue
            self.tell(f"finishing candidates, {len(begun) + 1} of at most {MOST_FINISHED}")
            whole = self.space.finished(trial.assignment, known)
            if whole is None:
                continue
            found = self.measured(whole)
            if found is not None and self.is_surer(best, found):
                best = found
                yield best
            begun.add(precise)
            if len(begun) == MOST_FINISHED:
                return

    def is_surer(self, best: Trial, whole: Trial) -> bool:
        """Whether a finished candidate is better than the best. Where both are as good in all that comes before precision, it is by fewer
        flips on inputs that neither was chosen by: what is measured of finished candidates counts other such inputs, and what is measured
        of the others does not; and of two finished ones these few tell less than the many that two are compared on."""
        rank, before = self.ranking.rank(whole.measurement), self.ranking.rank(best.measurement)
        names = [objective.metric for objective in self.ranking.objectives]
        at = names.index(PRECISION) + 1 if PRECISION in names else 0
        precise = at > 0 and rank[0] <= before[0] and rank[1:at] == before[1:at]
        unlike = not self.ranks_finished or len(whole.assignment) > len(best.assignment)
        if precise and unlike and isinstance(self.problem, ComparesFlips):
            flips = self.problem.paired_flips(best, whole)
            if flips is not None:
                return flips.only_second < flips.only_first
        return rank < before


def record_new(study: Study, trials: Iterable[Trial]) -> None:
    """Make those of number NEW trials of the study."""
    for trial in trials:
        if trial.number == NEW:
            key = study.book.encoding.key(trial.assignment)
            study.record(key, study.book.free_number(), trial.assignment, trial.measurement, 0.0)
    study.save(0.0)


class FinishedFinalists:
    """`first`: the best that is not finished; `best`: the best of that and of what is finished; `compared`: what is finished.

    `run` may be abandoned at any time: what it has come to stays.
    """

    def __init__(self, problem: Problem, study: Study, best: Trial, tell: Callable[[str], None]) -> None:
        """`best`: of the search."""
        assert isinstance(study.space, HasFinish)
        self._study, self._ranking = study, Ranking.of(study.space)
        self._at = [objective.metric for objective in self._ranking.objectives].index(PRECISION)
        self._finishing = Finishing(
            problem, study.space, self._ranking, lambda trial: trial.measurement, self._finished, tell
        )
        view = independent_view(study.space, best)
        assert isinstance(view, FlatSpace)
        self._view, self._searched = view, best
        self.first = self.best = next(self._as_good_before(), best)
        kept = study.stored_request().get(FINALIST)
        self._chosen_before = study.book.numbered(kept["trial"]) if isinstance(kept, dict) else None
        self.compared = list[Trial]()

    def run(self) -> bool:
        """Compare what an earlier run has chosen, what the search has finished and then what is finished here; True when that has come to
        its end."""
        for trial in itertools.chain(self._chosen(), list(itertools.islice(self._finished_by_search(), MOST_FINISHED))):
            if trial in self.compared:
                continue
            self.compared.append(trial)
            if self._finishing.is_surer(self.best, trial):
                self.best = trial
        for trial in self._finishing.better(self.best, self._as_good_before()):
            self.best = trial
        return True

    def _as_good_before(self) -> Iterator[Trial]:
        """Trials that are not finished, within the limits and as good as the best of the search in all that comes before precision: the
        most precise first."""
        return of_view(self._view, self._within())

    def _finished_by_search(self) -> Iterator[Trial]:
        """Likewise those that the search has finished."""
        return filter(self._is_finished, self._within())

    def _chosen(self) -> Iterator[Trial]:
        """Likewise what an earlier run has chosen, however much is ranked before it now."""
        trial = self._chosen_before
        if trial is None or not is_whole(trial.measurement) or self._ranking.violation(trial.measurement):
            return
        if self._is_finished(trial) and self._is_as_good_before(trial):
            yield trial

    def _is_finished(self, trial: Trial) -> bool:
        return len(trial.assignment) > len(self._view.decisions) and _answers(self._view, trial.assignment)

    def _is_as_good_before(self, trial: Trial) -> bool:
        before = self._ranking.losses(self._searched.measurement)[: self._at]
        return self._ranking.losses(trial.measurement)[: self._at] == before

    def _within(self) -> Iterator[Trial]:
        return itertools.takewhile(self._is_as_good_before, self._study.book.best_first(self._ranking, is_whole))

    def _finished(self, candidate: Assignment) -> Trial | None:
        """A finished candidate that has not been compared yet."""
        known = self._study.book.trial_of(candidate)
        if known is not None and known.metrics:
            if known in self.compared:
                return None
            self.compared.append(known)
            return known
        (measurement,) = self._study.space.evaluate([candidate])
        self.compared.append(Trial(NEW, candidate, measurement))
        return self.compared[-1]


def finishes_finalists(problem: Problem) -> bool:
    """Whether finalists of a search of the problem are finished: where that is asked for, and precision is what matters, perhaps after
    memory. Of a front the search finishes some itself, and of the fastest ones the device tells which is."""
    space = problem.space
    if not isinstance(problem, FinishesFinalists) or not problem.finishes_finalists:
        return False
    names = [objective.metric for objective in space.objectives]
    whole = asks_for_front(space)
    return isinstance(space, HasFinish) and PRECISION in names and names[0] not in TIMED and not whole


def finished_finalist(
    problem: Problem, study: Study, result: Result, is_over: Callable[[], bool], tell: Callable[[str], None] = unheard
) -> MeasuredFinalists | None:
    """Finish the best of a search and keep with the study which candidate is the most precise then, at no more of what matters more. None
    where none are finished, where that is the best of the search, and where an earlier run had more time for it. What is finished becomes a
    trial of the study."""
    best = result.best
    if best is None or not result.feasible or result.proved or not finishes_finalists(problem):
        return None
    finalists = FinishedFinalists(problem, study, best, tell)
    ended, earlier = made_in_time(is_over, finalists.run), study.result().best
    if not ended and kept_finalist(problem, study, study.result()).best != earlier:
        return None
    record_new(study, finalists.compared)
    chosen = study.book.trial_of(finalists.best.assignment) or finalists.best
    now = study.result().best
    if now is not None and now.number != chosen.number:
        keep_finalist(study, chosen, now)
    if chosen.number == best.number:
        return None
    said = f"Of {counted(len(finalists.compared), 'finished candidate')} and trial {finalists.first.number}, the best of the others, trial "
    said += f"{chosen.number} changes the class of the fewest made-up inputs like the training samples."
    return MeasuredFinalists(with_best(result, chosen, problem.space.objectives[0]), said)
