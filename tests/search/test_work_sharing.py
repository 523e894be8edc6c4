"""Several processes on one study: the trials of one process, each measured once, whoever dies."""

from __future__ import annotations

import collections
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search import work_sharing
from kilotune.search.budget import Budget
from kilotune.search.schema import CLAIMS, TUNERS
from kilotune.search.space import Trial
from kilotune.search.store import Store
from kilotune.search.stored_rows import StudyRow, TrialRow
from kilotune.search.study import Study
from kilotune.search.work_sharing import SharedStudy, working
from tests.search.sharing_study import space

ROOT = Path(__file__).parents[2]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Path]:
    """A database that holds the study `shared`, which nobody has worked on."""
    path = tmp_path / "studies.db"
    store = Store(str(path))
    Study.create(store, "shared", space(), "local", 5)
    yield path
    store.close()


def tuner(database: Path | str, trials: int, log: Path, pause_s: float = 0.004) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.search.sharing_study", str(database), str(trials), str(log), str(pause_s)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def measured(*logs: Path) -> collections.Counter[str]:
    return collections.Counter(line for log in logs if log.exists() for line in log.read_text().splitlines())


def alone(trials: int) -> list[Trial]:
    study = Study(space("/dev/null"), "local", 5)
    study.run(InProcessExecutor(space("/dev/null")), Budget(trials=trials))
    return study.trials()


@pytest.mark.slow
def test_two_tuners_find_the_trials_of_one_and_measure_none_twice(database: Path, tmp_path: Path) -> None:
    logs = [tmp_path / "a.log", tmp_path / "b.log"]
    tuners = [tuner(database, 150, log) for log in logs]
    results = [process.communicate(timeout=100)[0].split() for process in tuners]
    assert [result[:2] for result in results] == [["started", "150"]] * 2
    kept = Study.resume(Store(str(database)), "shared", space()).trials()
    assert len(kept) == 300
    assert kept == alone(300)
    assert set(measured(*logs).values()) == {1}
    assert min(len(measured(log)) for log in logs) == 150


@pytest.mark.slow
def test_a_tuner_that_is_killed_leaves_its_claims_to_the_other(database: Path, tmp_path: Path) -> None:
    logs = [tmp_path / "victim.log", tmp_path / "heir.log"]
    victim = tuner(database, 250, logs[0], pause_s=60.0)
    while not (logs[0].exists() and logs[0].stat().st_size):  # it exists a moment before its first line
        time.sleep(0.01)
    heir = tuner(database, 250, logs[1])
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert heir.communicate(timeout=100)[0].split()[1] == "250"
    kept = Study.resume(Store(str(database)), "shared", space()).trials()
    assert kept == alone(len(kept))
    assert len(kept) >= 250
    assert measured(logs[0])  # it was at work, so the heir did that again
    assert measured(logs[0]) <= measured(logs[1])


def study_with_two(tmp_path: Path) -> tuple[Store, SharedStudy, SharedStudy]:
    store = Store(str(tmp_path / "studies.db"))
    store.create(StudyRow("s", "flat", "f", "local", 1))
    return store, SharedStudy(store, "s"), SharedStudy(store, "s")


def beat_of(store: Store, study: SharedStudy) -> int:
    with store.transaction() as connection:
        query = sa.select(TUNERS.c.beat).where(TUNERS.c.owner == study._owner)
        return int(connection.execute(query).scalar_one())


def test_claims_do_not_overlap_and_finished_trials_are_nobodys(tmp_path: Path) -> None:
    store, one, two = study_with_two(tmp_path)
    store.append("s", [TrialRow(3, "[3]", {"cost": 1.0}, None, 0.0)])
    assert one.claim(range(10), 2) == [0, 1]
    assert two.claim(range(10), 5) == [2]  # up to the finished one
    assert two.claim(range(10), 5) == [4, 5, 6, 7, 8]
    assert one.claim(range(10), 5) == [9]
    assert one.claim(range(10), 5) == []
    assert [row.number for row in one.arrivals(range(10))] == [3]
    assert (one.others, two.others) == (1, 1)
    two.leave()
    assert one.claim(range(10), 5) == [2]
    one.leave()


@pytest.mark.slow
def test_the_claims_of_a_process_that_no_longer_beats_are_void(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, step_s = [0.0], 0.7 * work_sharing.DEAD_AFTER_S
    monkeypatch.setattr(work_sharing, "BEAT_S", 0.02)
    monkeypatch.setattr(work_sharing.time, "monotonic", lambda: now_s[0])
    store, one, two = study_with_two(tmp_path)
    assert one.claim(range(4), 4) == [0, 1, 2, 3]
    for _ in range(5):  # it lives, so it keeps them, however long that takes
        before = beat_of(store, one)
        while beat_of(store, one) == before:
            one._left.wait(0.01)
        now_s[0] += step_s
        assert two.claim(range(4), 4) == []
    one._left.set()  # its heart stops
    one._heartbeat.join()
    assert two.claim(range(4), 4) == []  # sees its last beat
    now_s[0] += step_s
    assert two.claim(range(4), 4) == []
    now_s[0] += step_s
    assert two.claim(range(4), 4) == [0, 1, 2, 3]
    assert two.others == 0
    two.leave()


def test_finished_claims_leave_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every claim reads all claims before it: minutes of a long study."""
    monkeypatch.setattr(work_sharing, "OWN_RUNS_KEPT", 4)
    store, one, two = study_with_two(tmp_path)
    for first in range(0, 40, 4):
        assert one.claim(range(first, first + 4), 4) == [*range(first, first + 4)]
        store.append("s", [TrialRow(n, f"[{n}]", {"cost": 1.0}, None, 0.0) for n in range(first, first + 4)])
    with store.transaction() as connection:
        left = sorted(connection.execute(sa.select(CLAIMS.c.first)).scalars())
    assert left == [32, 36]  # at 4, 8, ... claims all that were finished have gone
    one.leave()
    two.leave()


def test_one_that_wakes_from_the_dead_is_known_at_its_first_claim(tmp_path: Path) -> None:
    """Between its waking and its next beat others would take what it claims, and fail on its row."""
    store, sleeper, other = study_with_two(tmp_path)
    with store.transaction() as connection:
        other._forget(connection, sleeper._owner)
    assert sleeper.claim(range(4), 2) == [0, 1]
    assert other.claim(range(4), 4) == [2, 3]
    sleeper.leave()
    other.leave()


def test_claims_of_nobody_are_void(tmp_path: Path) -> None:
    store, one, two = study_with_two(tmp_path)
    with store.transaction() as connection:
        connection.execute(CLAIMS.insert().values(study_id=one._study, first=0, last=5, owner="nobody"))
    assert one.claim(range(4), 4) == [0, 1, 2, 3]
    one.leave()
    two.leave()


def test_claims_of_a_process_that_is_gone_are_void_at_once(tmp_path: Path) -> None:
    """Not after its beat has been missed: a short budget would be over by then."""
    store, one, two = study_with_two(tmp_path)
    gone = subprocess.Popen(["true"])
    gone.wait()
    machine, _, rest = one._owner.partition("-")
    dead = f"{machine}-{gone.pid}-{rest.partition('-')[2]}"
    with store.transaction() as connection:
        connection.execute(TUNERS.insert().values(study_id=one._study, owner=dead, beat=3))
        connection.execute(CLAIMS.insert().values(study_id=one._study, first=0, last=5, owner=dead))
    assert one.claim(range(4), 2) == [0, 1]
    assert (one.others, two.others) == (1, 0)
    assert two.claim(range(4), 2) == [2, 3]
    one.leave()
    two.leave()


def test_a_trial_that_two_processes_finish_counts_once(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "studies.db"))
    store.create(StudyRow("s", "flat", "f", "local", 1))
    first = TrialRow(0, "[1]", {"loss": 1.0}, None, 0.1)
    store.append("s", [first])
    store.append("s", [TrialRow(0, "[1]", {"loss": 1.0}, None, 0.9), TrialRow(1, "[1]", {"loss": 1.0}, None, 0.9)])
    assert list(store.trials("s")) == [first]


@pytest.mark.slow
def test_only_processes_that_live_count_as_working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of another machine is known by its beat, one of this machine also by its end; nobody's clock matters."""
    monkeypatch.setattr(work_sharing, "BEAT_S", 0.1)
    store, one, two = study_with_two(tmp_path)
    for name in ("gone", "far", "nobody"):
        store.create(StudyRow(name, "flat", "f", "local", 1))
    ended = subprocess.Popen(["true"])
    ended.wait()
    machine = one._owner.partition("-")[0]
    with store.transaction() as connection:
        for study, owner in ((2, f"{machine}-{ended.pid}-a"), (3, "elsewhere-77-b")):
            connection.execute(TUNERS.insert().values(study_id=study, owner=owner, beat=3))
    assert working(store, ["gone", "nobody"], watch_s=60.0) == {}  # at once: there is nobody to watch
    assert working(store, watch_s=1.0) == {"s": 2}
    other = SharedStudy(store, "far")  # beside the dead one of the other machine
    assert working(store, watch_s=1.0) == {"s": 2, "far": 1}
    for tuner_of in (one, two, other):
        tuner_of.leave()
    assert working(store, watch_s=0.3) == {}


def test_a_study_that_ends_is_never_taken_for_a_dead_one(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks when the last process has left sees how it ended."""
    store, seen = Store(str(database)), list[str]()
    leave = SharedStudy.leave

    def look_after(shared: SharedStudy) -> None:
        leave(shared)
        seen.append(store.study("shared").status)

    monkeypatch.setattr(SharedStudy, "leave", look_after)
    study = Study.resume(store, "shared", space("/dev/null"))
    study.run(InProcessExecutor(space("/dev/null")), Budget(trials=5))
    assert seen == ["budget spent"]
    store.close()
