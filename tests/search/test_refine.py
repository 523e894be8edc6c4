"""Searches that begin with what a space knows of itself: its procedure, its core."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from kilotune.search import flat_state
from kilotune.search.front import Ranking
from kilotune.search.space import (
    Assignment,
    Constraint,
    Decision,
    Measurement,
    Objective,
    Option,
    Procedure,
    State,
    Trial,
)
from kilotune.search.strategies.local import LocalSearch, MeasuredCandidate
from kilotune.search.strategies.random import all_candidates
from kilotune.search.strategies.refine import RefineSearch
from kilotune.search.strategy import Outcome
from tests.search.problems import FlatProblem
from tests.search.searching import search


@dataclass(frozen=True)
class Heuristic(FlatProblem):
    """A space that comes with a paper's heuristic: the middle option everywhere, then the first."""

    def procedure(self) -> Procedure:
        (trial,) = yield [{d.name: 11 for d in self.decisions}]
        assert trial.assignment["d0"] == 11
        yield [{d.name: 10 for d in self.decisions}]


def test_greedy_is_the_spaces_own_procedure_where_there_is_one() -> None:
    study, result = search(Heuristic(4, 3, 1), "greedy")
    assert [t.assignment["d3"] for t in study.trials()] == [11, 10]
    assert result.outcome is Outcome.FINISHED
    assert not result.proved


def test_refine_starts_with_the_procedure_and_is_never_worse() -> None:
    space = Heuristic(8, 12, 1)
    study, _ = search(space, "refine", 300)
    first = [t.assignment["d3"] for t in study.trials()[:2]]
    assert first == [11, 10]
    greedy, _ = search(space, "greedy")
    assert study.front.best_rank < greedy.front.best_rank
    plain = FlatProblem(8, 3, 1)
    assert [t.assignment for t in search(plain, "refine", 60)[0].trials()] == [
        t.assignment for t in search(plain, "local", 60)[0].trials()
    ]


@dataclass(frozen=True)
class Opened(Heuristic):
    """Its own search finds one candidate, which hangs on the seed."""

    found: tuple[int, ...] = ()

    def opening(self, seed: int) -> Procedure:
        yield [{d.name: option for d, option in zip(self.decisions, self.found, strict=True)} | {"d0": seed}]


@pytest.mark.parametrize("better", [True, False])
def test_refine_goes_on_from_what_the_space_opens_with_where_that_is_better(better: bool) -> None:
    plain = Heuristic(6, 12, 1)
    ranked = Ranking.of(plain)
    drawn = np.random.default_rng(1).integers(10, 22, (2000, 6))
    drawn[:, 0] = 12
    candidates: list[Assignment] = [{f"d{i}": option for i, option in enumerate(row)} for row in drawn.tolist()]
    order = sorted(candidates, key=lambda one: ranked.rank(plain.evaluate([one])[0]))
    chosen = order[0] if better else order[-1]
    space = Opened(6, 12, 1, found=tuple(int(option) for option in chosen.values()))
    trials = search(space, "refine", 40, 12)[0].trials()
    assert trials[0].assignment == chosen
    home = chosen if better else min(trials[1:3], key=lambda t: ranked.rank(t.measurement)).assignment
    assert sum(trials[3].assignment[name] != option for name, option in home.items()) == 1


def descended(kind: type[LocalSearch], space: FlatProblem, seed: int) -> MeasuredCandidate:
    """Where a descent from the first candidate ends."""
    walk = kind(space, seed)
    first = {d.name: d.options[0] for d in space.decisions}
    start = MeasuredCandidate(first, Ranking.of(space).rank(space.evaluate([first])[0]))
    steps = walk.descend(start)
    batch = next(steps)
    while True:
        try:
            batch = steps.send([Trial(0, c, m) for c, m in zip(batch, space.evaluate(batch), strict=True)])
        except StopIteration as end:
            found = end.value
            assert isinstance(found, MeasuredCandidate)
            return found


@dataclass(frozen=True)
class Cored(Heuristic):
    """Three of the options of each decision make a problem of their own."""

    def core(self) -> dict[str, list[Option]]:
        return {d.name: list(d.options[:3]) for d in self.decisions}


@dataclass(frozen=True)
class OpenedAfterCore(Cored):
    """Its own search looks at the first options, then at the last ones."""

    def opening(self, _seed: int) -> Procedure:
        yield [{d.name: d.options[0] for d in self.decisions}]
        yield [{d.name: d.options[-1] for d in self.decisions}]


def before_opening(space: OpenedAfterCore) -> list[Assignment]:
    """What a search measures between the first candidate with which the space opens and the second."""
    steps = RefineSearch(space, 0).start()
    assert next(steps) == [{d.name: d.options[0] for d in space.decisions}]
    batch = steps.send([Trial(0, c, space.evaluate([c])[0]) for c in [{d.name: d.options[0] for d in space.decisions}]])
    measured = list[Assignment]()
    while batch != [{d.name: d.options[-1] for d in space.decisions}]:
        measured += batch
        batch = steps.send([Trial(0, c, m) for c, m in zip(batch, space.evaluate(batch), strict=True)])
    return measured


def test_a_core_with_nothing_within_the_limits_is_left_after_one_descent() -> None:
    """Whether by loss or by how far the loss is above a limit, candidates have the same order, so one descends as the other does."""
    free, limited = (
        before_opening(OpenedAfterCore(6, 12, 3, pairs=6, constraints=limits))
        for limits in ((), (Constraint("loss", -1e6),))
    )
    assert limited == free[: len(limited)]
    assert len(limited) < len(free) / 2
    assert len(limited) >= 2 + 6 * 2  # all single changes of where the descent ends


def test_what_a_space_opens_with_is_measured_to_its_end() -> None:
    """The search of the core stops what is no better; the space's own search wants to know how bad it is."""
    space, hurdles = OpenedAfterCore(3, 12, 3), []
    search = RefineSearch(space, 0)
    steps = search.start()
    batch = next(steps)
    while batch != [{d.name: d.options[-1] for d in space.decisions}]:
        hurdles.append(search.hurdle)
        batch = steps.send([Trial(0, c, m) for c, m in zip(batch, space.evaluate(batch), strict=True)])
    assert search.hurdle is None
    assert hurdles[-1] is not None


def test_refine_searches_a_core_first_and_begins_the_whole_with_its_best() -> None:
    space = Cored(6, 12, 3, pairs=6)
    trials = search(space, "refine", 1200)[0].trials()
    outside = [any(int(o) > 12 for o in t.assignment.values()) for t in trials]
    first = outside.index(True)
    best = min(Ranking.of(space).rank(m) for m in space.evaluate(all_candidates(FlatProblem(6, 3, 3))))
    ranks = [Ranking.of(space).rank(t.measurement) for t in trials]
    assert min(ranks[:first]) == best
    (begun,) = (t.assignment for t, rank in zip(trials[:first], ranks[:first], strict=True) if rank == best)
    assert sum(trials[first].assignment[name] != option for name, option in begun.items()) == 1
    assert min(ranks) < best


def test_refine_trades_one_change_for_another_where_no_single_one_improves() -> None:
    """The least weight whose loss is at most 0, as a knapsack: exchanges find what single changes do not, and what they end at is kept by
    single changes."""
    better = 0
    for seed in range(20):
        space = FlatProblem(
            10, 5, seed, objectives=(Objective("weight"), Objective("loss")), constraints=(Constraint("loss", 0.0),)
        )
        ours, single = descended(RefineSearch, space, seed), descended(LocalSearch, space, seed)
        assert ours.rank <= single.rank
        better += ours.rank < single.rank
        neighbours = [{**ours.candidate, d.name: option} for d in space.decisions for option in d.options]
        assert min(Ranking.of(space).rank(m) for m in space.evaluate(neighbours)) == ours.rank
    assert better >= 5


DONE = "done"


class Finishing:
    """The least weight of a flat problem whose loss is at most 0; finishing a candidate takes 1.5 from its loss."""

    name, fingerprint, prefers_flat = "finishing", "", True

    def __init__(self, seed: int) -> None:
        objectives, limit = (Objective("weight"), Objective("loss")), Constraint("loss", 0.0)
        self.flat = FlatProblem(8, 4, seed, objectives=objectives, constraints=(limit,))
        self.objectives, self.constraints = self.flat.objectives, self.flat.constraints

    def start(self) -> State:
        decisions = (*self.flat.decisions, Decision(DONE, ("no", "yes")))
        return flat_state.FlatState(decisions, -math.inf)

    def in_order(self, answers: Assignment) -> dict[str, Option]:
        return {name: answers[name] for name in (*(d.name for d in self.flat.decisions), DONE) if name in answers}

    def flat_view(self) -> FlatProblem:
        return self.flat

    def finished(self, candidate: Assignment, measurement: Measurement) -> Assignment | None:
        return {**candidate, DONE: "yes"} if measurement.metrics["loss"] < 1.5 else None

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        found = self.flat.evaluate(batch)
        off = [1.5 if candidate.get(DONE) == "yes" else 0.0 for candidate in batch]
        return [
            Measurement({**m.metrics, "loss": m.metrics["loss"] - less}) for m, less in zip(found, off, strict=True)
        ]


def test_refine_finishes_where_it_settles_and_what_finishing_makes_feasible() -> None:
    """Beside it, plain refine on the flat view: never better, whose best is finished too."""
    broken = furthest = 0
    for seed in range(8):
        space = Finishing(seed)
        study, plain = search(space, "refine", 800, seed)[0], search(space.flat, "refine", 800, seed)[0]
        best = study.front.best
        assert best is not None
        assert best.assignment[DONE] == "yes"
        assert study.front.best_rank < plain.front.best_rank
        settled = [t for t in study.trials() if DONE in t.assignment]
        assert len(settled) < len(study.trials()) // 10
        flat = {tuple(t.assignment.items()): t for t in study.trials() if DONE not in t.assignment}
        before = [flat[tuple(t.assignment.items())[:-1]] for t in settled]  # each had been measured unfinished
        broken += any(t.metrics["loss"] > 0.0 for t in before)
        ranks = [Ranking.of(space).rank(t.measurement) for t in settled]
        furthest = max(furthest, sum(rank < min(ranks[:i]) for i, rank in enumerate(ranks) if i))
    assert broken >= 4
    assert furthest >= 3  # from one that finishing made feasible to the next
