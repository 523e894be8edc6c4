"""Studies on a real PostgreSQL server, which is killed in mid-study."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.soak.server import PROGRAMS, TemporaryServer
from kilotune.search.budget import Budget
from kilotune.search.comparison_store import comparisons, save_comparison, save_findings
from kilotune.search.store import Store, StoreError
from kilotune.search.stored_rows import StudyRow, TrialRow
from kilotune.search.study import Study
from kilotune.search.work_sharing import SharedStudy, at_work
from tests.search.older_stores import make_older
from tests.search.problems import FlatProblem
from tests.search.sharing_study import space as logged_space
from tests.search.test_work_sharing import measured, tuner

SPACE = FlatProblem(12, 4, 1, pairs=8, sleep_s=0.005)

pytestmark = [
    pytest.mark.skipif(PROGRAMS is None, reason="PostgreSQL is not installed (Debian: postgresql)"),
    pytest.mark.slow,
]
pytest.importorskip("psycopg", reason="the driver is not installed: pip install 'kilotune[postgresql]'")


@pytest.fixture(scope="module")
def server() -> Iterator[TemporaryServer]:
    with tempfile.TemporaryDirectory() as folder:  # another user must reach it, so none of pytest's
        server = TemporaryServer(Path(folder))
        server.start()
        yield server
        server.stop()


def test_a_study_is_the_same_as_in_sqlite(server: TemporaryServer, tmp_path: Path) -> None:
    trials = []
    for url in (server.url, str(tmp_path / "studies.db")):
        store = Store(url)
        Study.create(store, "same", SPACE, "local", 3).run(InProcessExecutor(SPACE), Budget(trials=60))
        resumed = Study.resume(store, "same", SPACE)
        resumed.run(InProcessExecutor(SPACE), Budget(trials=30))
        store.append("same", [TrialRow(0, "[]", {}, "twice", 0.0)])  # changes nothing
        trials.append(Study.resume(store, "same", SPACE).trials())
        store.close()
    assert trials[0] == trials[1]
    assert len(trials[0]) == 90


def test_a_store_of_version_5_is_brought_up_to_date(server: TemporaryServer) -> None:
    store = Store(server.url)
    Study.create(store, "older", SPACE, "local", 3).run(InProcessExecutor(SPACE), Budget(trials=60))
    written = list(store.trials("older"))
    store.close()
    make_older(server.url.replace("postgresql://", "postgresql+psycopg://"), 5)
    store = Store(server.url)
    assert list(store.trials("older")) == written
    store.append("older", written)  # changes nothing
    Study.resume(store, "older", SPACE).run(InProcessExecutor(SPACE), Budget(trials=30))
    assert store.study("older").trials == 90
    store.close()


def test_trials_come_in_parts(server: TemporaryServer) -> None:
    """A server's driver keeps all that it is sent: of a study of a night gigabytes, before its first trial is read."""
    store = Store(server.url)
    store.create(StudyRow("long", "flat", "f", "local", 1))
    written = [TrialRow(n, f"[{n}]", {"loss": n / 3}, None, n / 7) for n in range(2500)]
    store.append("long", written)
    trials = store.trials("long")
    read = [next(trials)]
    with store.transaction() as connection:
        waiting = sa.text("SELECT query FROM pg_stat_activity WHERE state = 'idle in transaction'")
        assert any(query.startswith("FETCH FORWARD") for query in connection.execute(waiting).scalars())
    read += trials
    assert read == written
    store.close()


def test_a_comparison_is_extended_and_found(server: TemporaryServer) -> None:
    store = Store(server.url)
    for repeats in (1, 2):  # the second one is the same comparison with another plan
        save_comparison(store, "c", {"repeats": repeats, "title": "\u03b1 'quoted'"})
        save_findings(store, "c", {"case": {"loss": None, "evaluations": 3}})
    (row,) = comparisons(store, "c")
    assert row.plan == {"repeats": 2, "title": "\u03b1 'quoted'"}
    assert row.findings == {"case": {"loss": None, "evaluations": 3}}
    Study.create(store, "c.run", SPACE, "local", 3)
    assert not at_work(store, "c.run")
    other = SharedStudy(store, "c.run")
    try:
        assert at_work(store, "c.run")
    finally:
        other.leave()
    assert not at_work(store, "c.run")
    store.close()


def test_two_tuners_share_a_study(server: TemporaryServer, tmp_path: Path) -> None:
    store = Store(server.url)
    Study.create(store, "shared", logged_space(), "local", 5)
    logs = [tmp_path / "a.log", tmp_path / "b.log"]
    tuners = [tuner(server.url, 100, log) for log in logs]
    assert [process.communicate(timeout=100)[0].split()[:2] for process in tuners] == [["started", "100"]] * 2
    kept = Study.resume(store, "shared", logged_space()).trials()
    store.close()
    whole = Study(logged_space("/dev/null"), "local", 5)
    whole.run(InProcessExecutor(logged_space("/dev/null")), Budget(trials=200))
    assert kept == whole.trials()
    assert set(measured(*logs).values()) == {1}


def test_a_killed_server_costs_no_reported_trial_and_the_study_goes_on(server: TemporaryServer) -> None:
    store = Store(server.url)
    study = Study.create(store, "victim", SPACE, "local", 3)
    reported: list[int] = []

    def report(trials: int) -> None:
        reported.append(trials)
        if len(reported) == 2:
            server.kill()

    with pytest.raises(StoreError, match=r"The database server of .* does not answer"):
        study.run(InProcessExecutor(SPACE), Budget(seconds=60), on_progress=lambda p: report(p.trials))
    store.close()
    with pytest.raises(StoreError, match="does not answer"):
        Store(server.url)
    server.start()
    store = Store(server.url)
    resumed = Study.resume(store, "victim", SPACE)
    kept = len(resumed.trials())
    assert kept >= max(reported) > 0
    resumed.run(InProcessExecutor(SPACE), Budget(trials=20))
    whole = Study(SPACE, "local", 3)
    whole.run(InProcessExecutor(SPACE), Budget(trials=kept + 20))
    assert resumed.trials() == whole.trials()
    store.close()
