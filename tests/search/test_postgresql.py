"""Studies on a real PostgreSQL server, which is killed in mid-study."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.budget import Budget
from kilotune.search.comparison_store import comparisons, save_comparison, save_findings
from kilotune.search.division import Shared, at_work
from kilotune.search.store import Store, StoreError, TrialRow
from kilotune.search.study import Study
from tests.search.problems import FlatProblem
from tests.search.sharing_study import space as logged_space
from tests.search.test_division import measured, tuner

PROGRAMS = max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)
SPACE = FlatProblem(12, 4, 1, pairs=8, sleep_s=0.005)

pytestmark = pytest.mark.skipif(PROGRAMS is None, reason="PostgreSQL is not installed (Debian: postgresql)")
pytest.importorskip("psycopg", reason="the driver is not installed: pip install 'kilotune[postgresql]'")


class Server:
    """A cluster of its own in `folder`, on a free port of the loopback address. PostgreSQL refuses to run as root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if os.getuid() == 0:
            shutil.chown(self.folder, "postgres")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._run("initdb", "--auth=trust", "--username=postgres", "--no-sync")

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''"
        self._run("pg_ctl", "--wait", f"--log={self.folder}/log", f"--options={options}", "start")

    def stop(self) -> None:
        self._run("pg_ctl", "--mode=immediate", "stop")

    def kill(self) -> None:
        """kill -9 of the server and all its processes."""
        main = int((self.folder / "postmaster.pid").read_text().split()[0])
        children = subprocess.run(["pgrep", "-P", str(main)], capture_output=True, text=True, check=False)
        for pid in [main, *map(int, children.stdout.split())]:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.5)  # until they are gone
        (
            self.folder / "postmaster.pid"
        ).unlink()  # in a container nobody may bury the main process, which then seems alive

    def _run(self, program: str, *arguments: str) -> None:
        assert PROGRAMS is not None
        command = [str(PROGRAMS / program), f"--pgdata={self.folder}", *arguments]
        if os.getuid() == 0:
            command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]
        done = subprocess.run(
            command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder
        )
        log = self.folder / "log"
        assert done.returncode == 0, f"{program}: {log.read_text()[-2000:] if log.exists() else 'no log'}"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:  # another user must reach it, so none of pytest's
        server = Server(Path(folder))
        server.start()
        yield server
        server.stop()


def test_a_study_is_the_same_as_in_sqlite(server: Server, tmp_path: Path) -> None:
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


def test_a_comparison_is_extended_and_found(server: Server) -> None:
    store = Store(server.url)
    for repeats in (1, 2):  # the second one is the same comparison with another plan
        save_comparison(store, "c", {"repeats": repeats, "title": "\u03b1 'quoted'"})
        save_findings(store, "c", {"case": {"loss": None, "evaluations": 3}})
    (row,) = comparisons(store, "c")
    assert row.plan == {"repeats": 2, "title": "\u03b1 'quoted'"}
    assert row.findings == {"case": {"loss": None, "evaluations": 3}}
    Study.create(store, "c.run", SPACE, "local", 3)
    assert not at_work(store, "c.run")
    other = Shared(store, "c.run")
    try:
        assert at_work(store, "c.run")
    finally:
        other.leave()
    assert not at_work(store, "c.run")
    store.close()


def test_two_tuners_share_a_study(server: Server, tmp_path: Path) -> None:
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


def test_a_killed_server_costs_no_reported_trial_and_the_study_goes_on(server: Server) -> None:
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
    end = time.monotonic() + 60
    resumed.run(InProcessExecutor(SPACE), Budget(trials=20))
    assert time.monotonic() < end
    whole = Study(SPACE, "local", 3)
    whole.run(InProcessExecutor(SPACE), Budget(trials=kept + 20))
    assert resumed.trials() == whole.trials()
    store.close()
