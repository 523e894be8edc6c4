"""Which decisions mattered: how much of a study's order each one explains by itself.

Trials are replaced by their ranks, so that nothing depends on the scale of a loss, and infeasible and failed ones count as
what they are: last. The trials are those that a strategy chose, no uniform sample of the space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kilotune.search.front import Ranking
from kilotune.search.space import Option, Trial

MOST_CELLS = 1_000_000
"""Trials times decisions; of more, every so-manieth trial is taken."""


@dataclass(frozen=True)
class MainEffect:
    """One decision. `share` of the variance of ranks between its options, corrected for chance (epsilon squared, Kelley
    1935), from 0 to 1. `options`: how many were tried, a decision that was not asked counting as one."""

    decision: str
    share: float
    options: int


def main_effects(trials: Sequence[Trial], ranking: Ranking) -> tuple[MainEffect, ...]:
    """All decisions, the most important first; empty when all trials are equally good."""
    names = list(dict.fromkeys(name for trial in trials for name in trial.assignment))
    trials = trials[:: -(-len(trials) * len(names) // MOST_CELLS) or 1]
    ranks = _average_ranks([ranking.rank(trial.measurement) for trial in trials])
    total = float(((ranks - ranks.mean()) ** 2).sum()) if len(trials) else 0.0
    if total == 0.0:
        return ()
    effects = [_effect(name, [trial.assignment.get(name) for trial in trials], ranks, total) for name in names]
    return tuple(sorted(effects, key=lambda effect: -effect.share))


def _effect(name: str, answers: Sequence[Option | None], ranks: np.ndarray, total: float) -> MainEffect:
    numbers: dict[Option | None, int] = {}
    groups = np.array([numbers.setdefault(answer, len(numbers)) for answer in answers])
    options, count = len(numbers), len(ranks)
    if options == 1 or options == count:  # one group, or nothing within them: chance alone would explain as much
        return MainEffect(name, 0.0, options)
    sizes, sums = np.bincount(groups), np.bincount(groups, ranks)
    between = float((sizes * (sums / sizes - ranks.mean()) ** 2).sum())
    by_chance = (options - 1) * (total - between) / (count - options)
    return MainEffect(name, max(0.0, (between - by_chance) / total), options)


def _average_ranks(losses: Sequence[tuple[float, ...]]) -> np.ndarray:
    """Ranks from 0, equal ones sharing theirs; shape (trials,)."""
    places = {loss: place for place, loss in enumerate(sorted(set(losses)))}
    groups = np.array([places[loss] for loss in losses], dtype=np.int64)
    sizes = np.bincount(groups)
    last = np.cumsum(sizes) - 1
    ranks: np.ndarray = (last - (sizes - 1) / 2)[groups]
    return ranks
