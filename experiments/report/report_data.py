"""What a report of a study is made of, computed once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.studies import tuning
from kilotune.search.front import Ranking
from kilotune.search.result import as_metric
from kilotune.search.space import Trial
from kilotune.search.stored_rows import StudyRow
from kilotune.search.study import Study

ThingT = TypeVar("ThingT")


@dataclass(frozen=True, eq=False)
class ReportData:
    """A study with at least one trial; trials by number."""

    problem: Problem
    study: Study
    row: StudyRow
    trials: Sequence[Trial]
    outcome: tuning.TuneOutcome

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


def thinned(things: Sequence[ThingT], most: int, kept: Iterable[int] = ()) -> list[ThingT]:
    """About `most` of them, evenly, in order; those at the places `kept` in any case."""
    if len(things) <= most:
        return list(things)
    step = len(things) / most
    places = {int(step * n) for n in range(most)} | set(kept)
    return [things[place] for place in sorted(places)]
