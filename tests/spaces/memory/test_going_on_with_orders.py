"""A search of orders and placements that is resumed skips what was done: sets of operators, windows, orders that were drawn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kilotune.search.space import Trial
from kilotune.spaces.memory import noted_search, order_search, ordered_placement
from kilotune.spaces.memory.native import load_kernel
from kilotune.spaces.memory.ordered_space import OrderedSpace
from kilotune.spaces.memory.search_note import OrderSearchNote
from tests.search.problems import KeptTexts
from tests.spaces.memory.graphs import random_graph, wide_graph
from tests.spaces.memory.resumed import (
    check_that_a_search_from_the_beginning_ignores_notes,
    check_that_a_study_goes_on,
    gone_on,
    remembering,
    searched,
    trials_of,
)

if load_kernel() is None:
    pytest.skip("no C compiler", allow_module_level=True)

WIDE = wide_graph(0, 5, 3)
"""With few sets, windows make its order better one after the other."""

NOT_PROVED, ITS_ALIGNMENT = random_graph(22, 8), 4
"""Its least live sum is known at once, and no placement comes down to it: orders are drawn."""


@pytest.fixture(autouse=True)
def _noted_after_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noted_search, "NOTED_WORK", 1)


@pytest.fixture
def _few_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_search, "MOST_STATES", 60)
    monkeypatch.setattr(order_search, "STEP_STATES", 20)
    monkeypatch.setattr(order_search, "BEAM_SETS", 1)


def refused(*_: object) -> object:
    raise AssertionError("this was done before")


def note_in(memory: KeptTexts) -> OrderSearchNote:
    ((_, text),) = memory.texts.items()
    return OrderSearchNote.from_json(json.loads(text))


def peak(trial: Trial) -> float:
    return trial.measurement.metrics["peak_bytes"]


@pytest.mark.usefixtures("_few_sets")
def test_windows_go_on_where_the_sets_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = KeptTexts()
    space = remembering(OrderedSpace(WIDE), memory)
    trials = trials_of(space, searched(space, 20))
    before = note_in(memory)
    assert before.sets >= 60
    assert before.in_vain > 0
    monkeypatch.setattr(order_search, "_beam", refused)
    monkeypatch.setattr(order_search, "_by_sets", refused)
    monkeypatch.setattr(ordered_placement._OrderedSearch, "_placing_in", placed_from(trials, before))
    steps = gone_on(remembering(OrderedSpace(WIDE), memory), trials, 4)
    assert [step.bound for step in steps] == [before.bound_bytes] * 4
    assert all(step.candidate is None for step in steps)
    after = note_in(memory)
    assert (after.runs, after.order, after.sets) == (1, before.order, before.sets)
    assert after.in_vain > before.in_vain


def placed_from(trials: Sequence[Trial], before: OrderSearchNote) -> Any:
    """What places in an order, and expects to begin from the best of the trials with what was noted."""
    place = ordered_placement._OrderedSearch._placing_in

    def placing(self: Any, order: Any, goal: Any = None, begin: Any = None, begun: Any = None) -> Any:
        assert begun.progress == before.progress
        assert begin is not None
        placed = self._space.placements_of(order)
        assert placed.peak_of(begin) == min(map(peak, trials))
        return place(self, order, goal, begin, begun)

    return placing


@pytest.mark.usefixtures("_few_sets")
def test_sets_are_visited_again_until_all_runs_had_as_many_as_one_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run is stopped long before: the searches of sets come to an end, and windows to better orders."""
    monkeypatch.setattr(order_search, "MOST_STATES", 200)
    monkeypatch.setattr(order_search, "_beam", lambda sums, width, rng: WIDE.file_order)
    memory = KeptTexts()
    space = remembering(OrderedSpace(WIDE), memory)
    trials = trials_of(space, searched(space, 5))
    sets = [note_in(memory).sets]
    assert 0 < sets[0] < 200
    monkeypatch.setattr(order_search, "_beam", refused)
    for _ in range(10):
        space = remembering(OrderedSpace(WIDE), memory)
        found = trials_of(space, gone_on(space, trials, 4))
        assert all(peak(trial) < min(map(peak, trials)) for trial in found)
        trials += found
        sets.append(note_in(memory).sets)
    assert sets == sorted(sets)
    assert sets[-1] == sets[-2] >= 200
    assert note_in(memory).in_vain or space.sums.cost(note_in(memory).order) < space.sums.cost(WIDE.file_order)


def test_orders_that_were_drawn_are_not_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_placement, "MOST_QUESTIONS", 5)
    monkeypatch.setattr(ordered_placement, "OTHER_ORDERS", 40)
    drawn: list[object] = []
    other_order = order_search.other_order
    monkeypatch.setattr(ordered_placement, "other_order", lambda sums, rng: drawn.append(rng) or other_order(sums, rng))
    memory = KeptTexts()
    space = remembering(OrderedSpace(NOT_PROVED, ITS_ALIGNMENT), memory)
    trials = trials_of(space, searched(space, 40))
    before = note_in(memory)
    assert 0 < before.others == len(drawn) < 40
    steps = gone_on(remembering(OrderedSpace(NOT_PROVED, ITS_ALIGNMENT), memory), trials, 200)
    assert len(drawn) == 40
    assert note_in(memory).asked > before.asked
    assert steps[0].bound == before.bound_bytes
    peaks = [peak(trial) for trial in trials_of(space, steps)]
    assert all(one < min(map(peak, trials)) for one in peaks)


@pytest.mark.parametrize(
    "damage",
    [{"bound_bytes": 10**9}, {"order": [0, 0]}, {"order": None}, {"sets": -1}, {"progress": 5}, {"order": []}, {"asked": True}],
    ids=str,
)  # fmt: skip
def test_a_damaged_note_says_nothing(damage: dict[str, Any]) -> None:
    memory = KeptTexts()
    space = remembering(OrderedSpace(NOT_PROVED, ITS_ALIGNMENT), memory)
    first = searched(space, 12)
    trials = trials_of(space, first)
    ((name, text),) = memory.texts.items()
    memory.texts[name] = json.dumps(json.loads(text) | damage)
    steps = gone_on(space, trials, 12)
    assert all(step.bound <= first[-1].bound for step in steps)
    assert not any(step.complete for step in steps)


def test_an_order_that_cannot_be_executed_is_not_begun_from() -> None:
    memory = KeptTexts()
    space = remembering(OrderedSpace(WIDE), memory)
    trials = trials_of(space, searched(space, 5))
    ((name, text),) = memory.texts.items()
    memory.texts[name] = json.dumps(json.loads(text) | {"order": list(reversed(note_in(memory).order))})
    (*_, last) = gone_on(space, trials, 10_000)
    assert last.complete


def test_a_resumed_study_has_its_trials_at_once_and_ends_no_worse(tmp_path: Path) -> None:
    check_that_a_study_goes_on(lambda: OrderedSpace(WIDE), "peak_bytes", 5, tmp_path)


def test_a_search_from_the_beginning_does_not_hang_on_what_was_noted() -> None:
    check_that_a_search_from_the_beginning_ignores_notes(lambda: OrderedSpace(WIDE), 8)
