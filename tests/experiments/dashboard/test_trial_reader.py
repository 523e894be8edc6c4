"""Reading a growing store: every trial once, whatever their order; who is alive; which trials are told to Optuna."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.dashboard import overview
from kilotune.experiments.dashboard.heartbeats import Heartbeats
from kilotune.experiments.dashboard.overview import Overview, standing_words
from kilotune.experiments.dashboard.page_rendering import Pages
from kilotune.experiments.dashboard.section_cache import REST, RedrawLimit
from kilotune.experiments.dashboard.trial_reader import TrialReader, measured
from kilotune.experiments.dashboard.watched_study import WatchedStudy
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search import work_sharing
from kilotune.search.budget import Budget
from kilotune.search.front import Front
from kilotune.search.liveness import own_machine
from kilotune.search.number_set import NumberSet
from kilotune.search.schema import TUNERS
from kilotune.search.space import Trial
from kilotune.search.store import Store, StoreError, find_study
from kilotune.search.stored_rows import BestTrial, StudyRow, TrialRow
from kilotune.search.study import Study
from kilotune.search.telling_trials import telling_trials
from tests.experiments.dashboard.serving import make_study
from tests.search.problems import FlatProblem


@dataclass(frozen=True)
class Row:
    number: int


@given(st.lists(st.sets(st.integers(0, 60)), max_size=8))
def test_every_row_is_read_once_in_whatever_order_they_come(arrivals: list[set[int]]) -> None:
    stored: set[int] = set()
    reading, read = TrialReader(), list[int]()

    def rows_from(first: int) -> list[Row]:
        return [Row(n) for n in sorted(stored) if n >= first]

    for arrived in arrivals:
        stored |= arrived
        read += [row.number for row in reading.new(len(stored), rows_from)]
        assert sorted(read) == sorted(stored)


def test_only_new_rows_are_asked_for() -> None:
    reading, asked = TrialReader(), list[int]()

    def rows_from(first: int) -> list[Row]:
        asked.append(first)
        return [Row(n) for n in range(first, 100 if len(asked) == 1 else 120)]

    assert len(list(reading.new(100, rows_from))) == 100
    assert list(reading.new(100, rows_from)) == []
    assert len(list(reading.new(120, rows_from))) == 20
    assert asked == [0, 100]


def test_a_row_that_nobody_could_take_in_is_not_lost_with_those_behind_it() -> None:
    reading = TrialReader()
    rows = [Row(n) for n in range(6)]

    def rows_from(first: int) -> list[Row]:
        return rows[first:]

    new = reading.new(6, rows_from)
    assert [next(new).number for _ in range(4)] == [0, 1, 2, 3]
    new.close()  # as an exception does that ends the loop over them: nobody asked for what follows 3
    assert len(reading) == 3
    assert [row.number for row in reading.new(6, rows_from)] == [3, 4, 5]


def test_what_was_read_elsewhere_is_not_read_again() -> None:
    known = NumberSet()
    for number in (0, 1, 4):
        known.add(number)
    reading = TrialReader(known, 5)
    asked = list[int]()

    def rows_from(first: int) -> list[Row]:
        asked.append(first)
        return [Row(n) for n in range(first, 7)]

    assert [row.number for row in reading.new(7, rows_from)] == [5, 6, 2, 3]
    assert asked == [5, 2]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "studies.db"))


def run_flat(store: Store, name: str, trials: int) -> Study:
    space = FlatProblem(8, 4, 1)
    study = Study.create(store, name, space, "random")
    study.run(InProcessExecutor(space), Budget(trials=trials))
    return study


def register(store: Store, study: str, owner: str, beat: int) -> None:
    with store.transaction() as connection:
        key = find_study(connection, study)
        connection.execute(TUNERS.delete().where(TUNERS.c.owner == owner))
        connection.execute(TUNERS.insert().values(study_id=key, owner=owner, beat=beat))


def test_trials_are_read_one_at_a_time(store: Store) -> None:
    """A list of tens of millions of them would not fit into memory: what is wrong with a later one is not met yet."""
    store.create(StudyRow("s", "flat", "f", "local", 1))
    store.append("s", [TrialRow(n, f"[{n}]", {"loss": 1.0}, None, 0.0) for n in range(3)])
    with store.transaction() as connection:
        connection.execute(sa.text("UPDATE trials SET metrics = 'x' WHERE number = 2"))
    trials = TrialReader().new(3, lambda first: measured(store, "s", first))
    assert [next(trials).number for _ in range(2)] == [0, 1]
    with pytest.raises(StoreError, match="study 's', trial 2, column metrics"):
        next(trials)


def test_who_beats_is_running_and_who_stops_is_not(store: Store) -> None:
    run_flat(store, "mine", 5)
    now = [0.0]
    heartbeats = Heartbeats(store, lambda: now[0])
    assert heartbeats.running() == {}  # whoever ran it has left
    register(store, "mine", "othermachine-1-abc", 3)
    assert heartbeats.running() == {"mine": 1}
    now[0] = work_sharing.DEAD_AFTER_S - 1
    register(store, "mine", "othermachine-1-abc", 4)
    assert heartbeats.running() == {"mine": 1}
    now[0] += work_sharing.DEAD_AFTER_S + 1
    assert heartbeats.running() == {}


def test_a_dead_process_of_this_machine_is_known_at_once(store: Store) -> None:
    run_flat(store, "mine", 5)
    register(store, "mine", f"{own_machine()}-{os.getpid()}-abc", 0)
    assert Heartbeats(store).running() == {"mine": 1}
    register(store, "mine", f"{own_machine()}-999999999-def", 0)
    assert Heartbeats(store).running() == {"mine": 1}


def test_the_overview_follows_what_is_stored(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "READ_AT_ONCE", 5)
    make_study(tmp_path / "studies.db", "real", trials=12)
    run_flat(store, "foreign", 7)
    watching = Overview(store, Heartbeats(store))
    entries, whole = watching.entries()
    while not whole:
        entries, whole = watching.entries()
    assert [entry.row.name for entry in entries] == ["foreign", "real"]
    foreign, real = entries
    assert "no request" in foreign.trouble
    assert foreign.best is None
    trials = [t.measurement.metrics[str(real.leading)] for t in measured(store, "real", 0)]
    assert real.best == min(trials)
    assert real.row.trials == len(trials)
    metrics = {**next(measured(store, "real", 0)).measurement.metrics, str(real.leading): min(trials) - 1}
    store.append("real", [TrialRow(10_000, "late", metrics, None, 9.0)])
    found = [watching.entries()[0][1] for _ in range(2)][1]
    assert found.best == min(trials) - 1
    assert Overview(store, Heartbeats(store)).all_entries()[1].best == found.best  # read in one go, piece by piece
    assert found.changed > real.changed


def test_a_list_reads_the_best_trial_only_where_the_store_knows_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it ranks today; where it ranks otherwise all trials are asked."""
    make_study(tmp_path / "studies.db", "real", trials=12)
    read = list[int]()

    def noting(*asked: Any) -> Iterator[Trial]:
        for trial in measured(*asked):
            read.append(trial.number)
            yield trial

    monkeypatch.setattr(overview, "measured", noting)
    best = store.study("real").best
    assert best is not None
    (entry,) = Overview(store, Heartbeats(store)).all_entries()
    assert read == [best.number]
    with store.transaction() as connection:
        text = BestTrial((best.rank[0], best.rank[1] - 1.0, *best.rank[2:]), best.number).text
        connection.execute(sa.text("UPDATE studies SET best = :text"), {"text": text})
    (whole,) = Overview(store, Heartbeats(store)).all_entries()
    assert len(read) == 1 + 1 + 12
    assert (whole.best, whole.feasible, whole.bound, whole.gap) == (entry.best, entry.feasible, entry.bound, entry.gap)


def test_a_study_that_lost_trials_is_read_to_its_end(store: Store, tmp_path: Path) -> None:
    make_study(tmp_path / "studies.db", "real", trials=12)
    with store.transaction() as connection:
        connection.execute(sa.text("UPDATE studies SET best = NULL"))
        connection.execute(sa.text("DELETE FROM trials WHERE number = 7"))
    watching = Overview(store, Heartbeats(store))
    watching.all_entries()
    entries, whole = watching.entries()
    assert whole
    assert entries[0].best is not None


def test_a_watched_study_is_what_resuming_it_would_be(store: Store, tmp_path: Path) -> None:
    make_study(tmp_path / "studies.db", "real", trials=10)
    row = store.study("real")
    watched = WatchedStudy(store, row)
    with store.transaction() as connection:  # as if two trials were yet to come
        rows = list(store.trials("real", 8))
        connection.execute(sa.text("DELETE FROM trials WHERE number >= 8"))
    early = watched.catch_up(store.study("real"))
    assert early is not None
    assert len(early.trials()) == row.trials - len(rows)
    store.append("real", rows)
    late = watched.catch_up(store.study("real"))
    assert late is early
    assert [t.number for t in late.trials()] == [r.number for r in store.trials("real")]


@pytest.mark.slow
def test_drawing_rests(store: Store, tmp_path: Path) -> None:
    make_study(tmp_path / "studies.db", "real", trials=10)
    now = [0.0]
    watched = WatchedStudy(store, store.study("real"), lambda: now[0])
    first, current = watched.drawn(store.study("real"))
    assert current
    store.append("real", [], status="interrupted")
    again, current = watched.drawn(store.study("real"))
    assert (again, current) == (first, False)
    now[0] += 1.0
    later, current = watched.drawn(store.study("real"))
    assert current
    assert later.version != first.version


def test_a_rest_is_as_long_as_the_drawing_was_dear() -> None:
    now, cost = [0.0], [0.0]
    rest = RedrawLimit(lambda: now[0], lambda: cost[0])
    for spent_s, rests_s in ((5.0, 0.1 * REST), (2.0, 2.0 * REST)):
        assert rest.over
        with rest.after():
            cost[0] += spent_s
        now[0] += rests_s - 0.01
        assert not rest.over
        now[0] += 0.01


def test_telling_trials_keep_what_matters(store: Store) -> None:
    study = run_flat(store, "mine", 2000)
    trials = study.trials()
    told = [trial for _, trial in telling_trials(study, trials, len(trials), 100)]
    assert len(told) < 150
    assert [t.number for t in told] == sorted({t.number for t in told})
    front = Front(study.front.ranking)
    improvements = {t.number for t in trials if front.add(t)}
    assert improvements | {t.number for t in study.front.trials} <= {t.number for t in told}
    assert max(b.number - a.number for a, b in itertools.pairwise(told)) <= 25
    assert telling_trials(study, trials[:50], 50, 100) == list(enumerate(trials[:50]))


@pytest.mark.parametrize(
    ("limit", "words"), [("flash=1", "proved: nothing keeps the limits"), ("flash=8KiB", "proved optimal")]
)
def test_a_proof_that_nothing_is_feasible_is_no_optimum(store: Store, limit: str, words: str) -> None:
    request = request_from("seedot", input="worked-example", strategy="exhaustive", limits=[limit])
    problem = build_problem(request)
    study = Study.create(store, "ended", problem.space, request.strategy, request=request.as_json())
    study.run(InProcessExecutor(problem.space), Budget(trials=2000))
    assert study.is_proved()
    watching = Overview(store, Heartbeats(store))
    while not (read := watching.entries())[1]:
        pass
    (entry,) = read[0]
    assert entry.feasible is study.front.feasible is (limit != "flash=1")
    assert entry.status == words
    row = store.study("ended")
    assert standing_words(row, 0, False, None) == "proved"  # its space cannot be built
    news = Pages("here", {}, False).study_news(row, (problem, study), 0, "", None, True)
    assert news["facts"]["status"] == entry.status
