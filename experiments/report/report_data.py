"""What a report of a study is made of, computed once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.studies import tuning
from kilotune.search.front import Ranking
from kilotune.search.result import as_metric
from kilotune.search.space import Trial
from kilotune.search.stored_rows import StudyRow
from kilotune.search.study import Study
from kilotune.search.telling_trials import MOST_TOLD, telling_trials

ThingT = TypeVar("ThingT")

BEST_SHOWN = 1000


@dataclass(frozen=True, eq=False)
class ReportData:
    """A study with at least one trial; trials by number, of a long one those of `shown_trials`. `places`: among all of the study, from 0;
    none where these are all."""

    problem: Problem
    study: Study
    row: StudyRow
    trials: Sequence[Trial]
    outcome: tuning.TuneOutcome
    places: Sequence[int] = ()

    @property
    def placed(self) -> Iterable[tuple[int, Trial]]:
        """Trials with their places among all of the study, from 1."""
        places = self.places or range(len(self.trials))
        return ((place + 1, trial) for place, trial in zip(places, self.trials, strict=True))

    @property
    def counted_trials(self) -> str:
        """How many candidates are looked at."""
        count = len(self.study.book)
        if len(self.trials) == count:
            return counted(count, "candidate")
        return f"{len(self.trials)} of {counted(count, 'candidate')} (the best, every improvement, and others evenly over the search)"

    @property
    def ranking(self) -> Ranking:
        """The order of trials."""
        return self.study.front.ranking

    @property
    def seconds(self) -> float:
        """How long the study has run."""
        return max(self.outcome.result.elapsed_s, max(trial.elapsed_s for trial in self.trials))

    @property
    def paper_metric(self) -> float | None:
        """The paper's procedure in the first objective; None where it has nothing feasible."""
        procedure = self.outcome.procedure
        return None if procedure is None else self.feasible_metric(procedure)

    def feasible_metric(self, trial: Trial) -> float | None:
        """The first objective's metric; None for an infeasible trial."""
        violation, loss, *_ = self.ranking.rank(trial.measurement)
        return None if violation else as_metric(loss, self.problem.space.objectives[0])


def shown_trials(study: Study, told: Iterable[Trial | None] = ()) -> tuple[list[Trial], list[int]]:
    """The trials of a study and their places among all, from 0: of a long one some `MOST_TOLD`, its best among them, and those that are
    `told` of, which may have been chosen after the search and be none of the best in it."""
    count = len(study.book)
    found = dict(telling_trials(study, study.each_trial(), count, MOST_TOLD))
    if len(found) < count:
        best = {trial.number for trial in told if trial is not None} | {
            trial.number
            for trial in islice(study.book.best_first(study.front.ranking, within_limits=False), BEST_SHOWN)
        }
        found |= {place: trial for place, trial in enumerate(study.each_trial()) if trial.number in best}
    places = sorted(found)
    return [found[place] for place in places], places


def thinned(things: Sequence[ThingT], most: int, kept: Iterable[int] = ()) -> list[ThingT]:
    """About `most` of them, evenly, in order; those at the places `kept` in any case."""
    if len(things) <= most:
        return list(things)
    step = len(things) / most
    places = {int(step * n) for n in range(most)} | set(kept)
    return [things[place] for place in sorted(places)]
