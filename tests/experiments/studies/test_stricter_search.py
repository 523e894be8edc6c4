"""What a search within a stricter limit comes to, where no finalist keeps the limit on linked bytes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from kilotune.experiments.studies import linked_programs
from kilotune.experiments.studies.command_time import never, unheard
from kilotune.experiments.studies.linked_finalists import linked_finalist
from kilotune.experiments.studies.measured_finalists import kept_finalist
from kilotune.experiments.studies.storage import open_store
from kilotune.experiments.studies.stricter_search import MOST_LINKED as MOST_OF_STRICTER
from kilotune.experiments.studies.stricter_search import SEARCHES, stricter_finalist
from kilotune.search.space import Assignment, Constraint, Trial
from kilotune.search.store import Store
from tests.experiments.studies.test_linked_descent import LIMIT, Linking, Weighed, all_too_large


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> Store:
    return open_store(f"sqlite:///{tmp_path / 'studies.db'}")


@dataclass
class Request:
    strategy: str = "local"


@dataclass
class Narrowing(Linking):
    """It may be searched within fewer bytes; `asked` is how many."""

    asked: list[int] = field(default_factory=list)
    request: Request = field(default_factory=Request)
    may_limit_linked: bool = True

    def within_linked(self, limit_bytes: int) -> Narrowing:
        self.asked.append(limit_bytes)
        stricter = Constraint("linked_bytes", limit_bytes)
        return replace(self, space=replace(self.space, constraints=(stricter,)))  # type: ignore[type-var]


@pytest.mark.parametrize("seed", range(1, 7))
def test_where_no_finalist_keeps_the_limit_a_stricter_one_is_searched_within(seed: int, store: Store) -> None:
    problem = Narrowing(Weighed(6, 5, seed), 25)
    study = all_too_large(problem, store)
    smallest = min(problem.bytes_of(trial.assignment) for trial in study.trials())
    told: list[str] = []
    found = linked_finalist(problem, study, study.result(), never, told.append)  # type: ignore[arg-type]
    assert found is not None
    assert found.said is not None
    assert problem.asked[0] == LIMIT - (smallest - LIMIT)
    assert any(line.startswith(f"searching within {problem.asked[0]} bytes, since none of ") for line in told)
    best = found.result.best
    assert found.kept
    assert best is not None
    assert problem.bytes_of(best.assignment) <= LIMIT
    assert "of a search within a stricter limit, links to" in found.said
    assert study.book.numbered(best.number) == best == kept_finalist(problem, study, study.result()).best  # type: ignore[arg-type]


@dataclass
class NoneWithin(Narrowing):
    """No program keeps the limit; which ones were linked."""

    linked_at: list[Assignment] = field(default_factory=list)

    def linked_bytes(self, trial: Trial) -> int:
        self.linked_at.append(trial.assignment)
        return LIMIT + 10


def test_finalists_of_a_stricter_search_lie_beside_each_other_one(store: Store) -> None:
    """Those that differ in one answer often compute the same."""
    problem = NoneWithin(Weighed(6, 5, 2), 25)
    study = all_too_large(problem, store)
    linking = linked_programs.Linking(problem, study, LIMIT, never, unheard, {0: LIMIT + 10})  # type: ignore[arg-type]
    assert stricter_finalist(linking) is None
    assert len(problem.asked) == SEARCHES
    assert len(problem.linked_at) == SEARCHES * MOST_OF_STRICTER
    first = problem.linked_at[:MOST_OF_STRICTER]
    close = [
        any(sum(one[name] != other[name] for name in one) < 2 for other in first[:number])
        for number, one in enumerate(first)
    ]
    assert close == sorted(close), "those that are close to an earlier one come last"
    assert not all(close[1:])
