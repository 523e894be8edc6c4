"""The whole front of precision against flash (and RAM, cycles): sensitivities, knapsacks, and what they miss.

First every format of every variable alone, against the program of 16 bits, in one batch: what each adds to the error of the
result (`error_model`). With what each costs, a knapsack (`knapsack`) is a first front. Then, round by round: the point of the front
with the most room around it has its single changes measured, as far as the model does not rule them out. A knapsack of few changes, on
what they do at this point, proposes candidates, for interactions are nearly the same there; so do knapsacks of any number of changes on the
model, refitted to what has been measured, with noise so that they do not propose the same again. What is nearest to the front, or
beyond it, is measured.

Thinking takes longer than measuring, so what a round proposes is kept in the space's memory: random numbers begin anew each round, which
so follows from its number and what has been measured, and a search that is resumed thinks nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from kilotune.codegen.arrays import FloatArray
from kilotune.search.space import Procedure, Trial
from kilotune.search.strategy import batch_generator
from kilotune.search.work_memory import RecalledSteps, memory_of
from kilotune.spaces.shiftry.error_model import ErrorModel
from kilotune.spaces.shiftry.knapsack import least_values
from kilotune.spaces.shiftry.known_candidates import Columns, Costed, FrontQuestion, KnownCandidates

FEW_CHANGES = 4
"""Changes of one candidate that what each does alone is trusted for."""

BATCH = 64
"""Candidates of a knapsack that are measured together."""

NEAR = 4.0
"""How many times the front's squared error a candidate may be predicted to have."""

NOISE = 0.5
"""Deviation of the logarithm of the factor on what the model says of an option."""

MOST_FITTED = 2000
"""Measured candidates that the model is fitted to: the last ones."""

GROWTH = 1.1
"""How many times as many measured candidates there are when the model is fitted again."""

FIRST_ANCHORS = 4
"""Mixtures of the first options and their best alternatives around which the first knapsacks take their costs."""

COST_STEPS = 1000
"""What the reference point's costs together come to where several are weighted."""


def search_front(space: Costed, asked: FrontQuestion, seed: int) -> Procedure:
    """Batches of candidates; ends when all have been measured."""
    search = _RecalledFront(space, asked, seed)
    known = search.known
    base = np.zeros(len(space.decisions), dtype=np.int64)
    search.take_in((yield known.assignments(base[None])))
    if known.square(base) is None:  # not even the widest program can be measured
        return
    search.take_in((yield known.assignments(known.singles(base))))
    model = ErrorModel(known, base)
    for batch in known.new(search.thought(0, partial(_first, known, model, base)), (3 + FIRST_ANCHORS) * BATCH):
        search.take_in((yield batch))
    fitted = 0
    for number in range(1, 1 << 62):
        if len(known) >= GROWTH * fitted:
            model.refit(*known.latest(MOST_FITTED))
            fitted = len(known)
        point, is_new = known.widest(batch_generator(seed, number))
        if is_new:
            worth = search.thought(-number, partial(_worth_measuring, known, model, point))
            for batch in known.new(worth, sum(known.counts)):
                search.take_in((yield batch))
        proposed = search.thought(number, partial(_round, known, model, point, number))
        batches = known.new(proposed, len(proposed))
        batches = batches or known.new(known.kicked(batch_generator(seed, number), BATCH), BATCH)
        for batch in batches:
            search.take_in((yield batch))
        if not batches:
            if known.complete:
                return
            yield []


class _RecalledFront:
    """What a search has measured, and what it has thought."""

    def __init__(self, space: Costed, asked: FrontQuestion, seed: int) -> None:
        self.known = KnownCandidates(space, asked)
        self._seed, self._error = seed, space.error_metric
        self._steps = RecalledSteps(memory_of(space), ["front", space.fingerprint, asked, seed])

    def take_in(self, trials: Sequence[Trial]) -> None:
        """Measured candidates."""
        self.known.take_in(trials)
        self._steps.take_in(trial.metrics.get(self._error, np.inf) for trial in trials)

    def thought(self, step: int, work: Callable[[np.random.Generator], Columns]) -> Columns:
        """Candidates [N, variables] that a step comes to, now or in an earlier run; those below 0 draw no random numbers."""
        found = self._steps.recalled(step, lambda: work(batch_generator(self._seed, abs(step))).tolist())
        return np.array(found, dtype=np.int64).reshape(len(found), len(self.known.counts))


def _first(known: KnownCandidates, model: ErrorModel, base: Columns, rng: np.random.Generator) -> Columns:
    """The best alternatives of all variables, and knapsacks around mixtures of them with the first options."""
    others = model.best_others()
    some = [np.where(rng.random(len(base)) < 0.5, base, others) for _ in range(FIRST_ANCHORS)]
    packed = [_packed(known, model, anchor, None, rng)[:BATCH] for anchor in (base, others, *some)]
    return np.concatenate([others[None], *packed])


def _round(known: KnownCandidates, model: ErrorModel, point: Columns, number: int, rng: np.random.Generator) -> Columns:
    """Knapsacks of few changes of a point of the front, and of many around others."""
    noisy = model.noisy(rng, NOISE)
    few = _packed(known, noisy if number % 2 else model, point, int(rng.integers(2, FEW_CHANGES + 1)), rng)
    many = [_packed(known, noisy, anchor, None, rng) for anchor in _anchors(known, rng)]
    return np.concatenate([packed[:BATCH] for packed in (few, *many)])


def _anchors(known: KnownCandidates, rng: np.random.Generator) -> list[Columns]:
    """Candidates around which knapsacks take their costs. What an option costs may hang on others (two exponentials share a table
    where both arguments have the same width), so an anchor has some options of the front and some at random."""
    random = np.array([rng.integers(count) for count in known.counts])
    mixed = np.where(rng.random(len(random)) < rng.random(), known.any_of_front(rng), random)
    return [known.any_of_front(rng), mixed]


def _packed(
    known: KnownCandidates, model: ErrorModel, point: Columns, most_changes: int | None, rng: np.random.Generator
) -> Columns:
    """New candidates [N, variables], changes of `point` by a knapsack of what each of them costs and adds to the squared error, the
    most promising first."""
    costs, squares = known.singles_costs(point), model.changes(point)
    if most_changes is not None:  # a few changes still do what they do alone at this very point
        squares = known.singles_squares(point, squares)
    share = rng.dirichlet(np.ones(costs.shape[1]))
    price = costs @ (np.ones(1) if len(share) == 1 else COST_STEPS * share / np.array(known.reference[:-1]))
    orders = [  # what the point has comes first
        first + np.array([at, *(i for i in range(count) if i != at)])
        for first, count, at in zip(known.firsts, known.counts, point.tolist(), strict=True)
    ]
    packings = least_values([price[o] for o in orders], [squares[o] for o in orders], most_changes)
    picked = [[order[i] for order, i in zip(orders, packing.chosen, strict=True)] for packing in packings]
    candidates = np.array(picked) - known.firsts
    return _most_promising(known, candidates, squares, point, model.predict(point))


def _worth_measuring(known: KnownCandidates, model: ErrorModel, point: Columns, _: np.random.Generator) -> Columns:
    """The single changes of a point, but for those that the model calls hopeless."""
    return _most_promising(known, known.singles(point), model.changes(point), point, model.predict(point))


def _most_promising(
    known: KnownCandidates, candidates: Columns, squares: FloatArray, point: Columns, predicted: float
) -> Columns:
    """Those that may be on the front, best first. `squares` [options]: what options do to the squared error of `point`, which is
    `predicted` unless it has been measured."""
    changed = np.where(candidates != point, squares[candidates + known.firsts], 0.0).sum(axis=1)
    measured = known.square(point)
    least = 0.0 if measured is None else measured / NEAR
    promise = known.promise(known.costs(candidates), np.maximum(changed + (measured or predicted), least))
    order = np.argsort(-promise, kind="stable")
    chosen: Columns = candidates[order[promise[order] > -np.log(NEAR)]]
    return chosen
