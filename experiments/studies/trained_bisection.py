"""Smaller programs that training makes good: where the least memory is asked for, formats that lose too much when they are rounded.

A search for the least memory within a permitted loss ends where rounded weights lose more than that. Trained ones lose less in the same
bytes, so the smallest program that is right often enough has formats which that search refuses. To train every candidate would take days.
But a search for the most precise program within some bytes takes seconds, and what it finds is the one that training has the least to
mend of. So bytes are halved into: within a quarter less than what is known to do, and where that does not do when it is trained, between
the two.

What is trained knows the training samples, and few bits can learn them by heart as well. So how often a program is right on made-up inputs,
which are samples with noise, counts too: of what training has gained there at the size that rounding needs, a third may be lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.problem import NarrowsMemory, Problem
from kilotune.experiments.studies.command_time import endless, made_in_time, unheard
from kilotune.experiments.studies.finished_finalists import is_whole, record_new
from kilotune.experiments.studies.measured_finalists import MeasuredFinalists, keep_finalist, with_best
from kilotune.experiments.studies.trained_finalists import learnt_by_heart, saying, trained_trial, trains_delivered
from kilotune.search.budget import Budget
from kilotune.search.front import Ranking
from kilotune.search.space import Assignment, Trial
from kilotune.search.study import Study

MEMORY = "memory_bytes"
"""The metric of what is to be least, flash and RAM together."""

MOST_TRAINED = 8
"""Programs that are trained on the way: from some seconds to a minute each."""

STEP = 0.75
"""The share of the bytes of what is known to do that is tried next while nothing has failed."""

EACH_SHARE = 0.25
"""The share of the time that is left in which one is to be trained, in fewer steps where it has to."""

NARROWEST = 0.03
"""The share of the bytes between what does and what does not that is not worth a further training."""

MOST_GIVEN_UP = 1 / 3
"""The share that a smaller program may lose of what training gains on made-up inputs. On test samples training gains less than there, since
it has met such noise: with a third, none of the smaller programs of twelve generated models that keep the accuracy on training samples
was worse there than the rounded one (docs/results-trained.md)."""

MOST_TRIALS = 4000
"""Trials of a search within some bytes; it has no more than the first search had."""


def smaller_trained(
    problem: Problem,
    study: Study,
    chosen: MeasuredFinalists,
    is_over: Callable[[], bool],
    tell: Callable[[str], None] = unheard,
    left_s: Callable[[], float] = endless,
) -> MeasuredFinalists | None:
    """The smallest trained candidate that bisection finds within the permitted loss, kept with the study, of which it becomes a trial; what
    was chosen where nothing smaller does; and a sentence that says so, and whether it came to its end. None where nothing is trained or
    memory is not what is to be least. `is_over` may end it at any time, with what it has come to; `left_s`: seconds until then."""
    if not isinstance(problem, NarrowsMemory) or not trains_delivered(problem):
        return None
    best = chosen.result.best
    if best is None or not chosen.result.feasible or study.space.objectives[0].metric != MEMORY:
        return None
    if problem.why_untrained(best.assignment) is not None:
        return None
    in_order = study.book.best_first(Ranking.of(study.space), is_whole)
    rounded = next((trial for trial in in_order if not problem.is_trained(trial.assignment)), best)
    bisection = _Bisection(problem, study, best, rounded, tell, left_s)
    ended = made_in_time(is_over, bisection.run) is not None
    is_smaller = bisection.best is not best
    said = _said_of(study, bisection, ended, is_smaller)
    if not is_smaller:
        return chosen if said is None else saying(chosen, said)
    record_new(study, [bisection.best])
    smallest = study.book.trial_of(bisection.best.assignment) or bisection.best
    keep_finalist(study, smallest, study.result().best or best, also_if_proved=True)
    before, now = (f"{trial.metrics[MEMORY]:.0f}" for trial in (best, smallest))
    takes = f"Trial {smallest.number} takes {now} bytes of memory for {before} of trial {best.number}, in formats that training makes good."
    found = saying(chosen, takes if said is None else f"{takes} {said}")
    return replace(found, result=with_best(chosen.result, smallest, problem.space.objectives[0]))


def _said_of(study: Study, bisection: _Bisection, ended: bool, is_smaller: bool) -> str | None:
    """A sentence on how the bisection went; None where nothing can be compared."""
    trained = counted(bisection.trained, "smaller program")
    if not ended:
        why = "was interrupted" if study.stopped else "was not ended in time"
        how = "goes on" if study.stopped else "goes on with a larger --budget"
        return f"Looking for smaller programs that training makes good {why}, with {trained} trained: `tune resume {study.name}` {how}."
    if is_smaller:
        return f"Of {trained} trained it is the smallest within what may be lost and as right on made-up inputs."
    if bisection.most_wrong < 0.0:
        return None
    if not bisection.trained:
        return "Of less memory no program was found that may be trained."
    return (
        f"No smaller program that training makes good was found: {trained} trained, none within what may be lost and as right on made-up "
        "inputs."
    )


def next_limit(most: float, fails: int) -> int | None:
    """Within how many bytes to look next, where `most` do and `fails`, 0 at first, do not; None where the two are next to one another."""
    limit = round(max(STEP * most, (most + fails) / 2.0))
    return limit if fails < limit <= (1.0 - NARROWEST) * most else None


@dataclass
class _Bisection:
    """`best`: the smallest so far that does; `rounded`: the best that is not trained; `trained`: how many were; `most_wrong`: of how many
    made-up inputs one may be wrong, known from `run` on."""

    problem: NarrowsMemory
    study: Study
    best: Trial
    rounded: Trial
    tell: Callable[[str], None]
    left_s: Callable[[], float]
    trained: int = 0
    most_wrong: float = 0.0

    def run(self) -> bool:
        """Until the bytes between what does and what does not are few, or enough has been trained: to its end, always."""
        most, fails = self.best.metrics[MEMORY], 0
        self.most_wrong = self._permitted()
        while self.trained < MOST_TRAINED and self.most_wrong >= 0.0:
            limit = next_limit(most, fails)
            if limit is None:
                break
            found = self._trained_within(limit)
            if found is not None and self._does(found):
                self.best, most = found, min(limit, found.metrics[MEMORY])
            else:
                fails = limit
        return True

    def _trained_within(self, limit: int) -> Trial | None:
        """The trained candidate of the most precise one within so many bytes; None where none is found."""
        self.tell(f"looking for a smaller program that training makes good: within {limit} bytes")
        candidate = self._most_precise_within(limit)
        if candidate is None:
            return None
        self.trained += 1
        self.tell(f"training a program of {limit} bytes with the labels, {self.trained} of at most {MOST_TRAINED}")
        return trained_trial(self.problem, self.study, candidate, self.left_s, EACH_SHARE)

    def _most_precise_within(self, limit: int) -> Assignment | None:
        try:
            smaller = self.problem.within_memory(limit)
        except (ValueError, OSError):  # the input is read again, and may have changed
            return None
        search = Study(smaller.space, smaller.request.strategy, self.study.seed)
        trials = min(MOST_TRIALS, self.study.result().evaluations)
        search.run(InProcessExecutor(smaller.space), Budget(trials=trials), handle_interrupts=False)
        result = search.result()
        return result.best.assignment if result.best is not None and result.feasible else None

    def _permitted(self) -> float:
        """How many made-up inputs a smaller program may be wrong about, beside the trained one of the size that rounding needs, which an
        earlier run may have made; less than none where that is not known."""
        trained = self.study.book.trial_of(self.problem.trained(self.rounded.assignment)) or self.best
        errors = self.problem.paired_errors(trained, self.rounded)
        if errors is None:
            return -math.inf
        wrong, before = errors.only_first, errors.only_second
        return errors.both + wrong + MOST_GIVEN_UP * max(0.0, before - wrong)

    def _does(self, trained: Trial) -> bool:
        """Whether it keeps the permitted loss, takes less memory, and is right often enough on made-up inputs."""
        if not trained.metrics or Ranking.of(self.study.space).violation(trained.measurement):
            return False
        if trained.metrics[MEMORY] >= self.best.metrics[MEMORY]:
            return False
        errors = self.problem.paired_errors(trained, self.rounded)
        if errors is None or errors.both + errors.only_first > self.most_wrong:
            return False
        return learnt_by_heart(self.problem, self.rounded, trained) is None
