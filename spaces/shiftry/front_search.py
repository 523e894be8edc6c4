"""The whole front of precision against flash (and RAM, cycles): sensitivities, knapsacks, and what they miss.

First every format of every variable alone, against the program of 16 bits, in one batch: what each adds to the error of the
result (`error_model`). With what each costs, a knapsack (`knapsack`) is a first front. Then, round by round: the point of the front
with the most room around it has its single changes measured, as far as the model does not rule them out. A knapsack of few changes, on
what they do at this point, proposes candidates, for interactions are nearly the same there; so do knapsacks of any number of changes on the
model, refitted to what has been measured, with noise so that they do not propose the same again. What is nearest to the front, or
beyond it, is measured.
"""

from __future__ import annotations

import numpy as np

from kilotune.codegen.arrays import FloatArray
from kilotune.search.space import Procedure
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
    known, rng = KnownCandidates(space, asked), np.random.default_rng(seed)
    base = np.zeros(len(space.decisions), dtype=np.int64)
    known.take_in((yield known.assignments(base[None])))
    if known.square(base) is None:  # not even the widest program can be measured
        return
    known.take_in((yield known.assignments(known.singles(base))))
    model = ErrorModel(known, base)
    others = model.best_others()
    some = [np.where(rng.random(len(base)) < 0.5, base, others) for _ in range(FIRST_ANCHORS)]
    first = [_packed(known, model, anchor, None, rng)[:BATCH] for anchor in (base, others, *some)]
    for batch in known.new(np.concatenate([others[None], *first]), 1 + len(first) * BATCH):
        known.take_in((yield batch))
    fitted = 0
    for number in range(1 << 62):
        if len(known) >= GROWTH * fitted:
            model.refit(*known.latest(MOST_FITTED))
            fitted = len(known)
        point, is_new = known.widest(rng)
        if is_new:
            for batch in known.new(_worth_measuring(known, model, point), sum(known.counts)):
                known.take_in((yield batch))
        noisy = model.noisy(rng, NOISE)
        proposed = [
            _packed(known, noisy if number % 2 else model, point, int(rng.integers(2, FEW_CHANGES + 1)), rng)[:BATCH]
        ]
        proposed += [_packed(known, noisy, anchor, None, rng)[:BATCH] for anchor in _anchors(known, rng)]
        batches = known.new(np.concatenate(proposed), len(proposed) * BATCH)
        batches = batches or known.new(known.kicked(rng, BATCH), BATCH)
        for batch in batches:
            known.take_in((yield batch))
        if not batches:
            if known.complete:
                return
            yield []


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


def _worth_measuring(known: KnownCandidates, model: ErrorModel, point: Columns) -> Columns:
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
