"""The trials that tell how a search went, where there are too many to look at all of them."""

from __future__ import annotations

from collections.abc import Iterable

from kilotune.search.front import Front
from kilotune.search.space import Trial
from kilotune.search.study import Study

MOST_TOLD = 100_000
"""Figures and tables of more trials take minutes and gigabytes, and show the same."""


def told_trials(study: Study) -> list[Trial]:
    """All trials by number, of a long study some `MOST_TOLD`."""
    return [trial for _, trial in telling_trials(study, study.each_trial(), len(study.book), MOST_TOLD)]


def telling_trials(study: Study, trials: Iterable[Trial], count: int, most: int) -> list[tuple[int, Trial]]:
    """About `most` of `count` trials of the study, each with its place among them, from 0: every improvement, the front, and the others
    evenly. `trials`: by number; one walk through them."""
    front, told = Front(study.front.ranking), {trial.number for trial in study.front.trials}
    step = max(1.0, count / most)
    chosen, due = list[tuple[int, Trial]](), 0
    for place, trial in enumerate(trials):
        is_due = place >= int(step * due)
        due += is_due
        if front.add(trial) or is_due or trial.number in told:
            chosen.append((place, trial))
    return chosen
