"""What a run tells its caller: progress while it lasts, a result at its end."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from kilotune.search.budget import Budget
from kilotune.search.space import Direction, Objective, Trial
from kilotune.search.strategy import Outcome


class Status(enum.Enum):
    """Where a study stands. All but FINISHED can be resumed."""

    RUNNING = "running"  # or killed while it was: `status_words` tells the two apart
    FINISHED = "finished"  # the strategy came to its end, or the best trial is proved
    BUDGET_SPENT = "budget spent"
    SETTLED = "settled"  # nothing better was to be expected: see search.stopping
    INTERRUPTED = "interrupted"


def status_words(stored: str, processes: int) -> str:
    """Where a stored study stands, by its status and how many living processes work on it (`search.work_sharing.working`). One that
    was killed could not write that it stopped."""
    if processes:
        return "running" if processes == 1 else f"running in {processes} processes"
    return "stopped" if stored == Status.RUNNING.value else stored


@dataclass(frozen=True)
class Progress:
    """A look at a running study. `bound` is in the unit of the first objective's metric, None while unknown."""

    trials: int  # in the study
    new_trials: int  # of this run
    incumbent: Trial | None
    feasible: bool
    bound: float | None
    gap: float | None
    trials_per_s: float
    elapsed_s: float  # of this run
    seconds_left: float  # +inf without a limit
    trials_left: float  # +inf without a limit
    proved_s: float | None = None  # of this run, until the best was proved in the first objective


@dataclass(frozen=True)
class Course:
    """How a run went: what it might have used and did use (`seconds` after the replay, `trials` that it measured itself), when its
    best was proved in the first objective, and the seconds at which each better candidate came, in order. `replay_s`: what going
    through the trials of earlier runs took before, which costs no budget."""

    budget: Budget
    seconds: float
    trials: int
    proved_s: float | None
    improvements: tuple[tuple[float, Trial], ...]
    replay_s: float = 0.0


@dataclass(frozen=True)
class Result:
    """A study at the end of a run. `best` is feasible, or the nearest to it that was found; `front` only ever holds
    feasible trials. `elapsed_s` and `evaluations` are the study's, over all of its runs."""

    study: str
    status: Status
    outcome: Outcome | None
    best: Trial | None
    feasible: bool
    front: tuple[Trial, ...]
    bound: float | None  # in the unit of the first objective's metric
    gap: float | None
    proved: bool
    evaluations: int
    new_evaluations: int
    elapsed_s: float
    course: Course | None = None  # of the last run; None for a study that was only read

    def point(self, number: int | None) -> Trial:
        """The best; with a number, from 1, that of the front. ValueError, a sentence, where there is none."""
        if number is None:
            if self.best is None:
                raise ValueError(f"Study {self.study!r} holds no trial yet: there is nothing to export.")
            return self.best
        if not 1 <= number <= len(self.front):
            points = "1 point" if len(self.front) == 1 else f"{len(self.front)} points"
            raise ValueError(
                f"The front of study {self.study!r} has {points}, expected the number of one, found {number}."
            )
        return self.front[number - 1]


def as_metric(loss: float, objective: Objective) -> float | None:
    """A bound on the loss as a bound on the metric; None when nothing is known, or nothing is feasible."""
    if not math.isfinite(loss):
        return None
    return loss if objective.direction is Direction.MINIMIZE else 0.0 - loss  # not -0


def relative_gap(best_loss: float, bound: float) -> float | None:
    """(best - bound) / |best|, at least 0: by which share the best can still be improved. None when unknown."""
    if not math.isfinite(best_loss) or not math.isfinite(bound):
        return None
    if best_loss <= bound:
        return 0.0
    return (best_loss - bound) / abs(best_loss) if best_loss else math.inf
