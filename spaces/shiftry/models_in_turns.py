"""Searches among smaller models of a task, each of which has formats of its own: for a front, and for the best within limits.

For a front all models are worth something somewhere, so each has its turns, by what it has added to the common front. Within limits one of
them is best, and the bytes that a unit gives to the others' weights are worth less the more units are left out. So there the models are
searched one after the other, the largest first, until smaller ones are no better.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import partial

from kilotune.search.front import Rank, Ranking
from kilotune.search.hypervolume import GrowingFront
from kilotune.search.space import Assignment, Option, Procedure, Trial

WHOLE_FIRST = 1000
"""Candidates of the whole model that are measured before smaller models are made, which takes seconds."""

FIRST = 300
"""Candidates of each model that are measured before models are compared, besides every option of every decision alone; for a front before
the next smaller model is made."""

IN_VAIN = 3
"""Models one after the other that are no better, after which no smaller one is tried. Where a limit leaves hardly any bytes, what the first
candidates of neighbouring models come to differs by chance: with two, the best of generated perceptrons was missed."""

ROUNDS_OF_LARGEST = 3
"""Times as many that the largest model may take to come within the limits: smaller ones are measured for nothing where it does."""

Prefixed = Callable[[Option, Assignment], Assignment]
"""A candidate of the model of an option, as one that says which."""


def fronts_in_turns(
    ranking: Ranking,
    reference: Rank,
    models: Iterable[Option],
    search_of: Callable[[Option], Procedure],
    prefixed: Prefixed,
) -> Procedure:
    """One batch after the other of a model's own search (`search_of`): of the model that has measured fewest candidates for each point that
    it has on the common front within `reference`, and one more. `models`: their options, the largest first, which is the whole one; each is
    asked for, and so made, once the one before it has had its first candidates, in a row."""
    front, origins = GrowingFront(reference), dict[Rank, Option]()
    searches, waiting, measured = (
        dict[Option, Procedure](),
        dict[Option, list[Assignment] | None](),
        dict[Option, int](),
    )

    coming = iter(models)

    def begin_next() -> Option | None:
        option = next(coming, None)
        if option is not None:
            searches[option] = search_of(option)
            waiting[option], measured[option] = next(searches[option], None), 0
        return option

    newest, first = begin_next(), WHOLE_FIRST
    while True:
        while newest is not None and (measured[newest] >= first or waiting[newest] is None):
            newest, first = begin_next(), FIRST
        points = [origins[losses] for losses in front.losses]
        going_on = [(option, batch) for option, batch in waiting.items() if batch is not None]
        if not going_on:
            return
        going_on = [one for one in going_on if one[0] == newest] or going_on
        option, batch = min(going_on, key=lambda one: measured[one[0]] / (1 + points.count(one[0])))
        trials = yield [prefixed(option, candidate) for candidate in batch]
        measured[option] += max(1, len(batch))  # one that proposes nothing has thought about it
        for trial in trials:
            losses = ranking.losses(trial.measurement)
            if ranking.violation(trial.measurement) == 0.0 and front.add(losses):
                origins[losses] = option
        waiting[option] = _sent(searches[option], trials)


def best_of_models(
    ranking: Ranking,
    models: Iterable[Option],
    search_of: Callable[[Option], Procedure],
    first_of: Callable[[Option], int],
    prefixed: Prefixed,
) -> Procedure:
    """The models' own searches for what is best by `ranking`: the first candidates of one after the other, as many as `first_of` says,
    and of the largest a few times as many while it breaks limits, until IN_VAIN of them are no better than the best before them; then the
    search of the best goes on to its end. `models`: their options, the largest first; one that is not asked for need not be made."""
    begun = dict[Option, _WaitingSearch]()
    best, leader, in_vain = None, None, 0

    def first(option: Option) -> Generator[list[Assignment], list[Trial], bool]:
        """Measure as many of a model; whether one is the best."""
        nonlocal best, leader
        found = yield from begun[option].go_on(ranking, partial(prefixed, option), first_of(option))
        if found is None or (best is not None and found >= best):
            return False
        best, leader = found, option
        return True

    for option in models:
        begun[option] = _WaitingSearch(search_of(option))
        is_better = False
        for _ in range(ROUNDS_OF_LARGEST if leader is None else 1):
            is_better = (yield from first(option)) or is_better
            if best is not None and best[0] == 0.0:
                break
        in_vain = 0 if is_better else in_vain + 1
        if in_vain == IN_VAIN:
            break
    if leader is not None:
        yield from begun[leader].go_on(ranking, partial(prefixed, leader), None)


class _WaitingSearch:
    """A search, and the batch that it waits for."""

    def __init__(self, search: Procedure) -> None:
        self._search, self._batch = search, next(search, None)

    def go_on(
        self, ranking: Ranking, prefixed: Callable[[Assignment], Assignment], most: int | None
    ) -> Generator[list[Assignment], list[Trial], Rank | None]:
        """Measure some `most` candidates, or all; the rank of the best of them."""
        measured, ranks = 0, list[Rank]()
        while self._batch is not None and (most is None or measured < most):
            trials = yield [prefixed(candidate) for candidate in self._batch]
            measured += max(1, len(trials))
            ranks += [ranking.rank(trial.measurement) for trial in trials]
            self._batch = _sent(self._search, trials)
        return min(ranks, default=None)


def _sent(search: Procedure, trials: list[Trial]) -> list[Assignment] | None:
    """The next batch of a search; None when it has ended."""
    try:
        return search.send(trials)
    except StopIteration:
        return None
