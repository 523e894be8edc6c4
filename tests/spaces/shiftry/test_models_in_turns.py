"""The models of a task in turns: within limits, which are searched, how far, and that the best of all is what remains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kilotune.search.front import Rank, Ranking
from kilotune.search.space import Assignment, Constraint, Measurement, Objective, Option, Procedure, Trial
from kilotune.spaces.shiftry import models_in_turns
from kilotune.spaces.shiftry.models_in_turns import IN_VAIN, ROUNDS_OF_LARGEST, best_of_models, fronts_in_turns

MOST_BYTES = 4.0

REFERENCE = (6.0, 9.0)

RANKING = Ranking((Objective("loss"),), (Constraint("bytes", MOST_BYTES),))

Batches = list[list[tuple[int, int]]]
"""Candidates of a model's own search, in batches: bytes and loss."""


def rank_of(one: tuple[int, int]) -> Rank:
    return RANKING.rank(Measurement({"bytes": float(one[0]), "loss": float(one[1])}))


def search_among(models: Sequence[Batches]) -> Callable[[Option], Procedure]:
    """The models' own searches, whose candidates have numbers."""

    def search_of(option: Option) -> Procedure:
        number = 0
        for batch in models[int(option)]:
            yield [{"number": number + place, "bytes": of[0], "loss": of[1]} for place, of in enumerate(batch)]
            number += len(batch)

    return search_of


def prefixed(option: Option, one: Assignment) -> Assignment:
    return {"model": option, **one}


def batches_of(procedure: Procedure, most: int = 10_000) -> Iterator[list[Assignment]]:
    """What a procedure proposes, one batch after the other, until it has measured so many."""
    batch, met = next(procedure, None), 0
    while batch is not None and met < most:
        yield batch
        met += len(batch)
        measured = [Measurement({name: float(one[name]) for name in ("bytes", "loss")}) for one in batch]
        try:
            batch = procedure.send([Trial(0, one, of) for one, of in zip(batch, measured, strict=True)])
        except StopIteration:
            return


def searched(models: Sequence[Batches], first: Sequence[int], most: int = 10_000) -> list[tuple[int, int]]:
    """The models and the numbers of the candidates that are measured, in this order, some `most` at most."""
    procedure = best_of_models(RANKING, range(len(models)), search_among(models), lambda k: first[int(k)], prefixed)
    return [(int(one["model"]), int(one["number"])) for batch in batches_of(procedure, most) for one in batch]


candidates = st.tuples(st.integers(3, 6), st.integers(0, 9))
searches = st.lists(st.lists(candidates, max_size=3), max_size=12)


@settings(max_examples=150, deadline=None)
@given(models=st.lists(st.tuples(searches, st.integers(1, 8)), min_size=1, max_size=6))
@example(models=[([[(5, 1)]], 1), ([[(4, 9)], [(4, 0)]], 1)])
def test_the_best_of_models_is_searched_to_its_end(models: list[tuple[Batches, int]]) -> None:
    """Any number of models with any candidates, some of which have none or end early."""
    batches, first = [one for one, _ in models], [of for _, of in models]
    met = searched(batches, first)
    flat = [[one for batch in own for one in batch] for own in batches]
    numbers = [[number for model, number in met if model == k] for k in range(len(models))]
    for k, own in enumerate(numbers):
        assert own == list(range(len(own))), f"model {k} goes on where it was"
    begun = [k for k in range(len(models)) if numbers[k]]
    if not begun:
        return
    ranks = [min((rank_of(flat[k][number]) for number in numbers[k]), default=None) for k in range(len(models))]
    best = min(rank for rank in ranks if rank is not None)
    ended = [k for k in begun if len(numbers[k]) == len(flat[k])]
    assert any(ranks[k] == best for k in ended), "the best model's search goes on to its end"
    for k in begun:
        once = first[k] + max(map(len, batches[k])) - 1
        if k not in ended:
            assert len(numbers[k]) <= once * (ROUNDS_OF_LARGEST if k == begun[0] else 1)


@settings(max_examples=100, deadline=None)
@given(bests=st.lists(st.integers(0, 9), min_size=1, max_size=8))
def test_models_are_asked_for_until_some_in_a_row_are_no_better(bests: list[int]) -> None:
    """Each model has one loss at first, within the limits, and what it comes to later is not known by then."""
    models: list[Batches] = [[[(4, best)], [(4, best)], *[[(4, 0)]] * 3] for best in bests]
    met = searched(models, [2] * len(bests))
    wanted, least, in_vain = [], 10, 0
    for k, best in enumerate(bests):
        wanted += [(k, 0), (k, 1)]
        in_vain = 0 if best < least else in_vain + 1
        least = min(least, best)
        if in_vain == IN_VAIN:
            break
    leader = bests.index(least)
    assert met == wanted + [(leader, number) for number in (2, 3, 4)]


@pytest.mark.parametrize(("bytes_at_first", "rounds"), [(4, 1), (13, 1), (14, 2), (24, 3), (40, 3)])
def test_the_largest_model_is_not_left_as_soon_as_it_breaks_a_limit(bytes_at_first: int, rounds: int) -> None:
    """Searches whose candidates take a byte less each; of the largest model ten at once are looked at, as long as none is within the limit,
    but not longer than that. The smaller ones never are."""
    largest: Batches = [[(bytes_at_first - saved, 5)] for saved in range(50)]
    smaller: Batches = [[(5 + more, 0)] for more in range(50)]
    met = searched([largest, smaller, smaller], [10, 10, 10])
    assert [model for model, _ in met].index(1) == 10 * rounds
    is_within = bytes_at_first - (10 * rounds - 1) <= MOST_BYTES
    assert met[-1] == ((0 if is_within else 1), 49)


def test_the_best_is_in_the_second_model_by_brute_force() -> None:
    """The second model's best candidate comes long after those by which models are compared."""
    whole: Batches = [[(4, 40 - number)] for number in range(30)]
    second: Batches = [[(4, 35 - number)] for number in range(30)]
    third: Batches = [[(5, 0), (4, 38)] for _ in range(30)]
    met = searched([whole, second, *[third] * IN_VAIN, second], [5] * (3 + IN_VAIN))
    least = min(rank_of(one) for model in (whole, second, third) for batch in model for one in batch)
    assert rank_of(second[met[-1][1]][0]) == least
    assert {model for model, _ in met} == set(range(2 + IN_VAIN))


def test_the_largest_model_is_not_in_vain_where_a_later_look_at_it_is() -> None:
    largest: Batches = [[(8 + number, 0)] for number in range(9)]
    worse: Batches = [[(9, 0)]] * 3
    within: Batches = [[(4, 0)]] * 3
    models = [largest, *[worse] * (IN_VAIN - 1), within]
    assert (IN_VAIN, 0) in searched(models, [3] * len(models))


def on_the_front(points: Sequence[tuple[int, int, int]]) -> list[int]:
    """The models of those points (model, bytes, loss) that no other one dominates, and of equal ones of the first, within limit and
    reference."""
    within = [(place, *one) for place, one in enumerate(points) if one[1] <= MOST_BYTES and one[2] < REFERENCE[1]]
    return [
        model
        for place, model, size, loss in within
        if not any(
            one <= size and other <= loss and ((one, other) != (size, loss) or before < place)
            for before, _, one, other in within
        )
    ]


@settings(max_examples=150, deadline=None)
@given(models=st.lists(searches, min_size=1, max_size=4), first=st.integers(1, 9))
def test_a_front_is_searched_where_it_has_gained_most_for_what_was_measured(models: list[Batches], first: int) -> None:
    """All of all models comes to be measured, once; each batch is of one of the models with the fewest candidates for a point."""
    made: list[int] = []  # how many had been measured of the model before it

    def options() -> Iterator[Option]:
        for k in range(len(models)):
            made.append(count(k - 1) if k else 0)
            yield k

    def count(k: int) -> int:
        return sum(max(1, len(batch)) for batch in models[k][: taken[k]])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models_in_turns, "WHOLE_FIRST", first)
        patch.setattr(models_in_turns, "FIRST", first)
        points: list[tuple[int, int, int]] = []
        taken = [0] * len(models)
        ranking = Ranking((Objective("bytes"), Objective("loss")), RANKING.constraints)
        for batch in batches_of(fronts_in_turns(ranking, REFERENCE, options(), search_among(models), prefixed)):
            left = [k for k in range(len(models)) if taken[k] < len(models[k]) and k < len(made)]
            front = on_the_front(points)
            cost = {k: count(k) / (1 + front.count(k)) for k in left}
            newest = len(made) - 1
            cost = {newest: 0.0} if newest in left and count(newest) < first else cost
            (model,) = {int(one["model"]) for one in batch} or {min(cost, key=lambda k: cost[k])}
            assert cost[model] == min(cost.values())
            assert [(one["bytes"], one["loss"]) for one in batch] == models[model][taken[model]]
            taken[model] += 1
            points += [(model, int(one["bytes"]), int(one["loss"])) for one in batch]
    assert taken == [len(own) for own in models]
    assert len(made) == len(models)
    for k, before in enumerate(made[1:]):
        assert before < first + 3, "no batch has more than three"
        assert before >= first or before == count(k)
