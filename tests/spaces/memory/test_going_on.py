"""A search of placements that is resumed begins where the one before stood: nothing is repeated or lost, nothing false taken over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kilotune.evaluators.executors import kept_work
from kilotune.evaluators.executors.cache import EvaluationCache
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.executors.kept_work import KeptWork
from kilotune.search.budget import Budget
from kilotune.search.result import Result
from kilotune.search.space import Trial
from kilotune.search.store import Store
from kilotune.search.study import Study
from kilotune.spaces.memory import capacity_question, exact, noted_search
from kilotune.spaces.memory.capacity_question import CapacityQuestion
from kilotune.spaces.memory.component_search import ComponentSearch
from kilotune.spaces.memory.native import load_kernel
from kilotune.spaces.memory.search_note import ComponentProgress, PlacementSearchNote
from kilotune.spaces.memory.space import MemorySpace
from tests.search.problems import KeptTexts
from tests.spaces.memory.problems import random_instance
from tests.spaces.memory.resumed import (
    HOUR_S,
    check_that_a_search_from_the_beginning_ignores_notes,
    gone_on,
    remembering,
    searched,
    trials_of,
)

if load_kernel() is None:
    pytest.skip("no C compiler", allow_module_level=True)

OPEN = random_instance(0, 40, aligned=True)
"""Its least peak is not found, and nothing is proved of it, for some hundred steps."""

PARTLY_PROVED = random_instance(0, 20, aligned=True)
"""After four steps the bound is above the largest live sum, and the least peak is not known; soon after, it is proved."""


@pytest.fixture(autouse=True)
def _noted_after_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noted_search, "NOTED_WORK", 1)


class Begun:
    """With what the searches of components begin."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seeds: list[int] = []
        self.progress: list[ComponentProgress] = []
        self.peaks: list[int] = []

        def search(buffers: Any, offsets: Any, seed: int, unit: Any, *, begun: ComponentProgress) -> ComponentSearch:
            self.seeds.append(seed)
            self.progress.append(begun)
            self.peaks.append(int((offsets + buffers.size).max()))
            return ComponentSearch(buffers, offsets, seed, unit, begun=begun)

        monkeypatch.setattr(exact, "ComponentSearch", search)


def refused(*_: object) -> object:
    raise AssertionError("this was done before")


def test_a_resumed_study_has_its_trials_at_once_and_searches_on_from_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, kept = Store(f"sqlite:///{tmp_path}/s.db"), tmp_path / "kept.db"

    def space() -> MemorySpace:
        made = MemorySpace(PARTLY_PROVED)
        made.work_memory = KeptWork(EvaluationCache(kept), made)
        return made

    def run(study: Study, trials: int) -> Result:
        return study.run(InProcessExecutor(study.space), Budget(trials=trials), handle_interrupts=False)

    first = run(Study.create(store, "s", space(), "exhaustive", 3, procedure_first=True), 3)
    before = list(store.trials("s"))
    assert len(before) == first.evaluations == 3
    assert first.best is not None
    begun = Begun(monkeypatch)
    monkeypatch.setattr(exact, "first_placement", refused)
    proposed = Study.resume(store, "s", space()).make_strategy().propose(10)
    assert proposed == [trial.assignment for trial in Study.resume(store, "s", space()).trials()]
    again = run(Study.resume(store, "s", space(), procedure_first=True), 1)
    after = list(store.trials("s"))
    assert after[:3] == before
    assert [row.number for row in after] == [0, 1, 2, 3]
    assert begun.peaks == [first.best.measurement.metrics["peak_bytes"]]
    assert begun.progress[0].spent
    assert begun.seeds != [3]
    assert again.best is not None
    assert again.best.measurement.metrics["peak_bytes"] < first.best.measurement.metrics["peak_bytes"]


def test_every_run_has_other_random_numbers_and_goes_on_with_the_limits_of_questions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also after a run that was killed before it had noted anything itself, and beside another one that began together with it."""
    memory = KeptTexts()
    first = searched(remembering(MemorySpace(OPEN), memory), 6)
    trials, begun = trials_of(remembering(MemorySpace(OPEN), memory), first), Begun(monkeypatch)
    works = []
    for steps in (3, 1, 1, 3):
        gone_on(remembering(MemorySpace(OPEN), memory), trials, steps)
        works.append(sum(begun.progress[-1].spent.values()))
    searches = [remembering(MemorySpace(OPEN), memory).exact_search_after(trials, 7, lambda: HOUR_S) for _ in range(2)]
    for search in searches:
        assert search is not None
        next(search)
    assert len({7, *begun.seeds}) == 7
    assert 0 < works[0] < works[1] == works[2] == works[3] < sum(begun.progress[-1].spent.values())
    asked = [one.asked for one in begun.progress if one.capacity == begun.progress[0].capacity]
    assert asked == sorted(asked)
    assert asked[0] < asked[-1]


def test_a_question_goes_on_with_the_limits_that_it_had_come_to(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[int] = []
    asked = capacity_question.fits_within

    def counted(buffers: Any, rank: Any, capacity: int, limit: int, seconds: float) -> Any:
        limits.append(limit)
        return asked(buffers, rank, capacity, limit, seconds)

    monkeypatch.setattr(capacity_question, "fits_within", counted)
    space = MemorySpace(OPEN)
    question = CapacityQuestion(space.arrays, space.least_peak_bytes, work_unit=1000)
    for _ in range(30):
        question.ask(HOUR_S)
    later = CapacityQuestion(space.arrays, space.least_peak_bytes, work_unit=1000, begun=question.standing)
    question.ask(HOUR_S)
    later.ask(HOUR_S)
    assert limits[-1] == limits[-2] > limits[0]


def test_what_was_proved_is_not_proved_again_and_no_more_than_that_is_claimed() -> None:
    memory = KeptTexts()
    space = remembering(MemorySpace(PARTLY_PROVED), memory)
    first = searched(space, 4)
    assert first[-1].bound > space.least_peak_bytes
    trials = trials_of(space, first)
    again = gone_on(remembering(MemorySpace(PARTLY_PROVED), memory), trials, 1)
    assert again[0].bound == first[-1].bound
    assert again[0].candidate is None, "it is among the trials"
    whole = list(MemorySpace(PARTLY_PROVED).exact_search(1))[-1]
    best = gone_on(remembering(MemorySpace(PARTLY_PROVED), memory), trials, 10_000)
    assert best[-1].complete
    assert best[-1].bound == whole.bound
    other = remembering(MemorySpace(random_instance(4, 20, aligned=True)), memory)
    assert gone_on(other, trials_of(other, searched(other, 1)), 1)[0].bound == other.least_peak_bytes


def test_a_bound_of_other_code_is_no_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = MemorySpace(PARTLY_PROVED)
    space.work_memory = KeptWork(EvaluationCache(tmp_path / "kept.db"), space)
    first = searched(space, 4)
    trials = trials_of(space, first)
    assert gone_on(space, trials, 1)[0].bound == first[-1].bound
    monkeypatch.setattr(kept_work, "code_version", lambda space: "tomorrow's")
    space.work_memory = KeptWork(EvaluationCache(tmp_path / "kept.db"), space)
    assert gone_on(space, trials, 1)[0].bound == space.least_peak_bytes


@pytest.mark.parametrize(
    "damage",
    [
        {"bound_bytes": 10**9},
        {"bound_bytes": -1},
        {"bound_bytes": 1e3},
        {"progress": [{"spent": 3}]},
        {"progress": [{"spent": {"goal": True}, "capacity": 0, "asked": [0, 0]}]},
        {"progress": 5},
        {"runs": None},
    ],
    ids=str,
)
def test_a_damaged_note_says_nothing(damage: dict[str, Any]) -> None:
    memory = KeptTexts()
    space = remembering(MemorySpace(OPEN), memory)
    trials = trials_of(space, searched(space, 6))
    ((name, text),) = memory.texts.items()
    memory.texts[name] = json.dumps(json.loads(text) | damage)
    (step,) = gone_on(space, trials, 1)
    assert (step.bound, step.complete) == (space.least_peak_bytes, False)
    assert PlacementSearchNote.from_json(json.loads(memory.texts[name])).bound_bytes <= space.least_peak_bytes


def test_what_is_no_placement_is_not_begun_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers on one another in a stored trial, whatever it says that was measured."""
    memory = KeptTexts()
    space = remembering(MemorySpace(OPEN), memory)
    (good,) = trials_of(space, searched(space, 1))
    low = {
        name: option if name == "allocator" else f"{str(option).split('@')[0]}@0"
        for name, option in good.assignment.items()
    }
    begun = Begun(monkeypatch)
    gone_on(space, [good, Trial(1, low, good.measurement, 0.0)], 1)
    assert begun.peaks == [good.measurement.metrics["peak_bytes"]]
    begun.peaks.clear()
    gone_on(space, [Trial(0, low, good.measurement, 0.0)], 1)
    assert begun.peaks == [good.measurement.metrics["peak_bytes"]], "that of the first placement"


def test_a_search_from_the_beginning_does_not_hang_on_what_was_noted() -> None:
    check_that_a_search_from_the_beginning_ignores_notes(lambda: MemorySpace(OPEN), 8)


def test_where_nothing_is_remembered_a_study_repeats_itself() -> None:
    """So it is in comparisons."""

    def candidates(*budgets: int) -> list[Trial]:
        space = MemorySpace(PARTLY_PROVED)
        study = Study(space, "exhaustive", 3)
        for trials in budgets:
            study.run(InProcessExecutor(space), Budget(trials=trials), handle_interrupts=False)
        return list(study.trials())

    assert candidates(2, 1) == candidates(3)
