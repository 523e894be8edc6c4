"""What every exact search of this folder that can be resumed keeps, whatever it searches: a kit for the tests of each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from kilotune.evaluators.executors.cache import EvaluationCache
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.executors.kept_work import KeptWork
from kilotune.search.budget import Budget
from kilotune.search.space import Assignment, ExactStep, HasExactSearch, Space, Trial
from kilotune.search.store import Store
from kilotune.search.study import Study
from kilotune.search.work_memory import GoesOnSearching, RemembersWork, WorkMemory
from tests.search.problems import KeptTexts

HOUR_S = 3600.0


class ResumableSpace(Space, HasExactSearch, GoesOnSearching, RemembersWork, Protocol):
    """A space whose exact search remembers what it did."""


Resumable = TypeVar("Resumable", bound=ResumableSpace)


def remembering(space: Resumable, memory: WorkMemory) -> Resumable:
    """The space with that memory."""
    space.work_memory = memory
    return space


def searched(space: ResumableSpace, steps: int, seed: int = 7) -> list[ExactStep]:
    """The first steps of a search that begins."""
    return list(itertools.islice(space.exact_search(seed, lambda: math.inf), steps))


def gone_on(space: ResumableSpace, trials: Sequence[Trial], steps: int = 10_000, seed: int = 7) -> list[ExactStep]:
    """The first steps of a search that is resumed with these trials."""
    search = space.exact_search_after(trials, seed, lambda: HOUR_S)
    assert search is not None
    return list(itertools.islice(search, steps))


def _measured(space: Space, candidates: Sequence[Assignment]) -> list[Trial]:
    """Trials of these candidates, numbered from 0."""
    return [
        Trial(k, one, m, 0.0) for k, (one, m) in enumerate(zip(candidates, space.evaluate(candidates), strict=True))
    ]


def trials_of(space: Space, steps: Sequence[ExactStep]) -> list[Trial]:
    """Trials of the candidates that a search found."""
    return _measured(space, [step.candidate for step in steps if step.candidate is not None])


def check_that_a_study_goes_on(new: Callable[[], ResumableSpace], metric: str, trials: int, folder: Path) -> None:
    """A study stopped after its first trial has it at once when it is resumed, and betters it within `trials` more."""
    store, kept = Store(f"sqlite:///{folder}/s.db"), folder / "kept.db"

    def space() -> ResumableSpace:
        made = new()
        return remembering(made, KeptWork(EvaluationCache(kept), made))

    def run(study: Study, trials: int) -> float:
        best = study.run(InProcessExecutor(study.space), Budget(trials=trials), handle_interrupts=False).best
        assert best is not None
        return best.measurement.metrics[metric]

    first = run(Study.create(store, "s", space(), "exhaustive", 3), 1)
    before = list(store.trials("s"))
    proposed = Study.resume(store, "s", space()).make_strategy().propose(10)
    assert proposed == [trial.assignment for trial in Study.resume(store, "s", space()).trials()]
    assert run(Study.resume(store, "s", space()), trials) < first
    assert list(store.trials("s"))[: len(before)] == before


def check_that_a_search_from_the_beginning_ignores_notes(new: Callable[[], ResumableSpace], steps: int) -> None:
    """Also after one that went on has noted where it stands; and without a memory there is nothing to go on from."""
    memory = KeptTexts()
    alone = searched(new(), steps)
    assert searched(remembering(new(), memory), steps) == alone
    gone_on(remembering(new(), memory), trials_of(new(), alone[:1]), 4)
    assert searched(remembering(new(), memory), steps) == alone
    assert new().exact_search_after([], 7, lambda: HOUR_S) is None
