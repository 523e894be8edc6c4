"""A search over banks and moves that is resumed does what it would have done next: no relaxation is solved twice, none is left out."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from kilotune.search.space import ExactStep
from kilotune.spaces.memory import priced_exact
from kilotune.spaces.memory.banks import Bank, MemoryMap
from kilotune.spaces.memory.incumbent_placement import IncumbentPlacement
from kilotune.spaces.memory.instance import Buffer, Instance
from kilotune.spaces.memory.moves_search import BankProblem, MovesSearch
from kilotune.spaces.memory.priced_notes import MovesNote
from kilotune.spaces.memory.priced_space import PricedSpace
from kilotune.spaces.memory.rectangles import Rectangles
from tests.search.problems import KeptTexts
from tests.spaces.memory.problems import make, random_instance
from tests.spaces.memory.resumed import (
    HOUR_S,
    check_that_a_search_from_the_beginning_ignores_notes,
    check_that_a_study_goes_on,
    gone_on,
    remembering,
    searched,
    trials_of,
)

MOVING = make((4, 8, 2), (0, 1, 2), (3, 5, 2), (2, 5, 1), (5, 7, 3), (0, 3, 3), (1, 4, 1))
"""No placement of it lies within 5 bytes, but moving one byte is enough (`test_moves.py`)."""

CROWDED = make(
    (8, 11, 7), (9, 13, 10), (6, 9, 6), (9, 12, 4), (4, 7, 9), (11, 13, 7), (0, 2, 2), (5, 9, 5), (0, 2, 9),
    (4, 5, 2), (1, 3, 10), (2, 3, 1), (0, 1, 4), (2, 6, 1), (3, 5, 6), (7, 8, 1), (2, 5, 3), (2, 4, 3),
)  # fmt: skip
"""Its least cost with moves takes the search thirteen nodes."""

MOVES = MemoryMap((Bank("ram", 5),), Fraction(1))
BANKS = MemoryMap((Bank("fast", 64), Bank("slow", None, Fraction(1, 2))))
BANKED = random_instance(0, 8, aligned=True)

PROBLEMS = [(MOVING, MOVES), (CROWDED, MemoryMap((Bank("ram"),), Fraction(1, 8))), (BANKED, BANKS)]


@pytest.fixture(autouse=True)
def _noted_after_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priced_exact, "NOTED_WORK", -(10**9))


class Relaxed:
    """The rectangles that were placed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.placed: list[object] = []
        best = MovesSearch._best

        def counted(search: MovesSearch, rectangles: Rectangles) -> IncumbentPlacement:
            self.placed.append((search.problem.bank, rectangles.buffer, rectangles.lower, rectangles.upper))
            return best(search, rectangles)

        monkeypatch.setattr(MovesSearch, "_best", counted)

    def taken(self) -> list[object]:
        placed, self.placed = self.placed, []
        return placed


def costs(space: PricedSpace, steps: Sequence[ExactStep]) -> list[float]:
    return [trial.measurement.metrics["cost"] for trial in trials_of(space, steps)]


@pytest.mark.parametrize(("instance", "banks"), PROBLEMS)
def test_slices_solve_what_an_uninterrupted_search_solves(
    instance: Instance, banks: MemoryMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slices of five steps, each of which begins with the step that the one before had come to."""
    relaxed = Relaxed(monkeypatch)
    whole = list(PricedSpace(instance, banks).exact_search())
    placed = relaxed.taken()
    assert len(placed) > 5
    memory = KeptTexts()
    space = remembering(PricedSpace(instance, banks), memory)
    steps = searched(space, 5)
    trials = trials_of(space, steps)
    found = costs(space, steps)
    for _ in range(len(whole) + 20):
        steps = gone_on(remembering(PricedSpace(instance, banks), memory), trials, 5)
        trials += trials_of(space, steps)
        found += costs(space, steps)
        if steps[-1].complete:
            break
    assert steps[-1].complete
    assert steps[-1].bound == whole[-1].bound == min(found)
    assert found == sorted(set(found), reverse=True)
    assert relaxed.taken() == placed


def test_no_choice_of_banks_is_lost_where_a_note_is_of_another_study() -> None:
    """The one that noted it knew a better placement than the one that reads it: the note brings that along."""
    memory = KeptTexts()
    space = remembering(PricedSpace(BANKED, BANKS), memory)
    whole = list(space.exact_search())
    worst, *better = trials_of(space, whole)
    assert better
    again = gone_on(remembering(PricedSpace(BANKED, BANKS), memory), [worst])
    assert again[-1].complete
    assert again[-1].bound == whole[-1].bound
    assert min(costs(space, again)) == whole[-1].bound


@pytest.mark.parametrize(
    "damage",
    [{"residences": 5}, {"residences": [["b0", 0, 1, 0, "ram"]]},
     {"homes": [9] * 8, "nodes": [[1]]}, {"homes": None, "lost": "x", "nodes": [["0", 0, 0, [999], []]]}],
    ids=str,
)  # fmt: skip
def test_a_damaged_note_says_nothing(damage: dict[str, Any]) -> None:
    memory = KeptTexts()
    space = remembering(PricedSpace(MOVING, MOVES), memory)
    whole = list(PricedSpace(MOVING, MOVES).exact_search())
    trials = trials_of(space, searched(space, 12))
    for name, text in memory.texts.items():
        memory.texts[name] = json.dumps(json.loads(text) | damage)
    last = gone_on(space, trials)[-1]
    assert (last.complete, last.bound) == (True, whole[-1].bound)


def test_what_the_clock_broke_off_is_not_noted() -> None:
    memory = KeptTexts()
    left = itertools.chain([HOUR_S] * 30, itertools.repeat(0.0))
    list(remembering(PricedSpace(MOVING, MOVES), memory).exact_search(0, lambda: next(left)))
    space = remembering(PricedSpace(MOVING, MOVES), memory)
    whole = list(PricedSpace(MOVING, MOVES).exact_search())
    last = gone_on(space, [])[-1]
    assert (last.complete, last.bound) == (True, whole[-1].bound)


def test_a_resumed_study_has_its_trials_at_once_and_ends_no_worse(tmp_path: Path) -> None:
    check_that_a_study_goes_on(lambda: PricedSpace(BANKED, BANKS), "cost", 100, tmp_path)


def test_a_search_from_the_beginning_does_not_hang_on_what_was_noted() -> None:
    check_that_a_search_from_the_beginning_ignores_notes(lambda: PricedSpace(BANKED, BANKS), 10_000)


def test_an_empty_bank_that_costs_nothing_is_not_lost() -> None:
    """Found by a reader: resumed twice, a bank without buffers had no placement."""
    slow = Bank("slow", 34, Fraction(1, 4))
    memory = MemoryMap((Bank("fast", 34), slow))
    problem = BankProblem(Instance("one", (Buffer("b", 0, 1, 4, 1),)), (), slow, memory, ())
    note: MovesNote | None = None
    for _ in range(3):
        search = MovesSearch(problem, begun=note)
        *_, last = search.steps()
        assert (last.cost, last.done) == (0, True)
        note = MovesNote.from_json(json.loads(json.dumps(search.note.as_json(()))), ())
