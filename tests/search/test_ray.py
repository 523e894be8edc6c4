"""A real Ray cluster on this machine, with real deaths: the same trials as in process, and nothing finished is lost."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from kilotune.evaluators.compiled_library import cache_folder
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.executors.ray_cluster import RayExecutor
from kilotune.evaluators.executors.ray_nodes import Installation, description, refusal
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.search.budget import Budget
from kilotune.search.space import Assignment, Measurement
from kilotune.search.store import Store, StoreError
from kilotune.search.stored_rows import TrialRow
from kilotune.search.study import Study
from tests.search.problems import FlatProblem

pytest.importorskip("ray")
pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.slow]  # one cluster at a time

SPACE = FlatProblem(10, 4, 1, pairs=6)


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """One test on this machine at a time: one of them kills every raylet that it finds."""
    with (Path(tempfile.gettempdir()) / "kilotune-ray-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def processes(title: str) -> list[int]:
    """Ray's processes of that title, of this machine."""
    found = subprocess.run(["pgrep", "-f", f"^{title}"], capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


@dataclass(frozen=True)
class Deadly(FlatProblem):
    """`d0` = 11 kills the actor's process, 12 never comes back."""

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        for candidate in batch:
            if candidate["d0"] == 11:
                os.kill(os.getpid(), signal.SIGKILL)
            while candidate["d0"] == 12:
                time.sleep(0.1)
        return super().evaluate(batch)


def test_the_cluster_changes_no_trial_and_sends_nothing_away() -> None:
    alone = Study(SPACE, "local", 2)
    alone.run(InProcessExecutor(SPACE), Budget(trials=400))
    executor = RayExecutor(SPACE, workers=2)
    try:
        together = Study(SPACE, "local", 2)
        together.run(executor, Budget(trials=400))
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    finally:
        executor.close()
    assert together.trials() == alone.trials()


def test_the_candidate_that_kills_its_actor_fails_and_one_that_hangs_is_stopped() -> None:
    candidates = [{"d0": 10 + i, "d1": 10 + j} for i in range(3) for j in range(2)]
    plain = FlatProblem(2, 3, 1).evaluate(candidates)
    # on a machine under load Ray needs more than a second to see that an actor is dead
    executor = RayExecutor(Deadly(2, 3, 1), workers=2, limit_s=6.0)
    finished = []
    try:
        executor.submit(1, candidates)
        end = time.monotonic() + 60
        while not finished and time.monotonic() < end:
            finished = executor.results(0.2)
    finally:
        executor.close()
    for candidate, measurement, expected in zip(candidates, finished[0].measurements, plain, strict=True):
        if candidate["d0"] == 11:
            assert "died twice" in str(measurement.failure)
        elif candidate["d0"] == 12:
            assert measurement.failure == "The evaluation was stopped after 6 s, the limit for one."
        else:
            assert measurement == expected


def ancestors(pid: int) -> Iterator[int]:
    """The parents of a process, up to the first one; those that are left when it ends meanwhile."""
    with contextlib.suppress(OSError):
        while pid > 1:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            yield pid


def stored(storage: str) -> list[TrialRow]:
    """What the study `lost` holds; nothing while it does not exist."""
    with contextlib.suppress(StoreError), contextlib.closing(Store(storage)) as store:
        return list(store.trials("lost"))
    return []


def test_a_command_that_loses_its_cluster_loses_no_reported_trial(tmp_path: Path) -> None:
    """The raylet is killed, then the actors, so that no evaluation is possible any more. Ray may end the whole process then,
    before the command can say anything; what had been reported is in the store, and the study goes on without Ray."""
    storage = str(tmp_path / "studies.db")
    tune = [sys.executable, "-m", "kilotune.experiments"]
    common = ["--stop", "never", "--no-output", "--no-cache", "--storage", storage, "--study"]
    search = ["--space", "shiftry", "--input", "lenet-digits", "--strategy", "random", *common]
    command = subprocess.Popen(
        [*tune, *search, "lost", "--budget", "300s", "--ray", "--jobs", "1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while command.poll() is None and len(stored(storage)) < 20:
            time.sleep(0.2)
        assert command.poll() is None, command.stderr.read() if command.stderr else ""
        reported = stored(storage)
        for title in (".*/raylet/raylet ", "ray::_Evaluator"):
            for pid in processes(title):
                if command.pid in ancestors(pid):
                    os.kill(pid, signal.SIGKILL)
        _, said = command.communicate(timeout=200)
    finally:
        command.kill()
    assert command.returncode != 0, said
    assert stored(storage)[: len(reported)] == reported
    resumed = subprocess.run(
        [*tune, "resume", "lost", "--storage", storage, "--no-output", "--budget", "5trials"],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert resumed.returncode == ExitStatus.FEASIBLE, resumed.stderr
    kept = [(row.number, row.candidate, row.metrics) for row in stored(storage)]
    again = min(len(kept), 1000)  # thousands more come from what is under way when the cluster goes
    undisturbed = str(tmp_path / "undisturbed.db")
    search[search.index(storage)] = undisturbed
    subprocess.run([*tune, *search, "lost", "--budget", f"{again}trials", "--quiet"], check=True, timeout=200)
    assert kept[:again] == [(row.number, row.candidate, row.metrics) for row in stored(undisturbed)]


def test_a_cluster_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"The Ray cluster 127\.0\.0\.1:1 cannot be reached"):
        RayExecutor(SPACE, "127.0.0.1:1")


BLOCKER = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "kilotune":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocker())
"""


KERNELS = {"KILOTUNE_CACHE": str(cache_folder())}
"""What this machine has compiled before, which another home does not have."""


@dataclass(frozen=True)
class Head:
    """A head as `ray start --head` makes it for a user who has a token."""

    address: str
    token: str
    folder: Path

    def tune(self, **environment: str) -> subprocess.CompletedProcess[str]:
        """A command of a user without a home's token, unless the environment brings one."""
        asked = (
            "--space",
            "memory",
            "--strategy",
            "random",
            "--budget",
            "6trials",
            "--no-output",
            "--no-cache",
            "--study",
            "s",
        )
        cleared = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        home = self.folder / "elsewhere"
        home.mkdir(exist_ok=True)
        return subprocess.run(
            [sys.executable, "-m", "kilotune.experiments", *asked, "--ray", self.address],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            cwd=self.folder,
            env={
                **cleared,
                **KERNELS,
                "HOME": str(home),
                "KILOTUNE_STORAGE": str(self.folder / "studies.db"),
                **environment,
            },
        )

    def studies(self) -> dict[str, int]:
        store = Store(str(self.folder / "studies.db"))
        there = {study.name: study.trials for study in store.studies()}
        store.close()
        return there


def start_head(folder: Path, **environment: str) -> Iterator[Head]:
    """Under a short path, since it has sockets in it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = folder / ".ray" / "auth_token"
    token.parent.mkdir()
    token.write_text("0123456789abcdef" * 4)
    cleared = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    given = ["--head", f"--port={port}", "--num-cpus=1", "--include-dashboard=false", f"--temp-dir={folder / 'ray'}"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("ray")), "start", *given, "--block"],
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**cleared, **KERNELS, "HOME": str(folder), "RAY_USAGE_STATS_ENABLED": "0", **environment},
        )
    try:
        end = time.monotonic() + 120
        while "Ray runtime started" not in (folder / "log").read_text():
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < end, (folder / "log").read_text()
            time.sleep(0.2)
        yield Head(f"127.0.0.1:{port}", token.read_text(), folder)
    finally:
        process.terminate()
        process.wait(60)
        for pid in processes(f".*{folder / 'ray'}"):  # what it left behind
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="kt", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_a_head_that_demands_a_token_is_told_one_or_explained(short_folder: Path) -> None:
    """`ray start --head` demands one wherever its user has one, and Ray itself looks for none when it is given an address."""
    for head in start_head(short_folder):
        refused = head.tune()
        assert refused.returncode == 4
        said = refused.stderr.splitlines()
        assert len(said) == 2, refused.stderr  # `connecting to Ray`, and one sentence: none of Ray's own lines
        assert f"The Ray cluster {head.address} demands a token, and no token was found" in said[1]
        for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "elsewhere/.ray/auth_token"):
            assert name in said[1]
        assert head.studies() == {}
        wrong = head.tune(RAY_AUTH_TOKEN="f" * 64)
        assert (wrong.returncode, len(wrong.stderr.splitlines())) == (4, 2)
        assert "the one in $RAY_AUTH_TOKEN is not the cluster's" in wrong.stderr
        assert head.studies() == {}
        taken = head.tune(HOME=str(head.folder))
        assert taken.returncode == 0, taken.stderr
        assert re.search(
            r"^Ray node \S+ \([\d.]+\): kilotune \S+, (kernels built by|no C compiler)", taken.stderr, re.M
        )
        assert head.studies() == {"s": 6}


def test_a_head_that_demands_no_token_is_not_sent_one(short_folder: Path) -> None:
    """It would let the client join and run tasks, and every evaluation would fail because its actor dies."""
    bare = short_folder / "bare"
    bare.mkdir()
    for head in start_head(short_folder, HOME=str(bare)):
        refused = head.tune(HOME=str(head.folder))
        assert refused.returncode == 4
        said = refused.stderr.splitlines()
        assert len(said) == 2, refused.stderr  # `connecting to Ray`, and one sentence: none of Ray's own lines
        token = head.folder / ".ray" / "auth_token"
        assert (
            f"The Ray cluster {head.address} demands no token, and starts nothing for whoever sends one ({token})"
            in said[1]
        )
        assert "set RAY_AUTH_MODE to disabled" in said[1]
        assert head.studies() == {}
        followed = head.tune(HOME=str(head.folder), RAY_AUTH_MODE="disabled")
        assert followed.returncode == 0, followed.stderr
        assert head.studies() == {"s": 6}


def test_a_node_without_the_package_is_named_before_there_is_a_study(short_folder: Path) -> None:
    (short_folder / "sitecustomize.py").write_text(BLOCKER)
    for head in start_head(short_folder, PYTHONPATH=str(short_folder)):
        refused = head.tune(HOME=str(head.folder))
        assert refused.returncode == 4
        assert re.search(
            r"The Ray node \S+ \([\d.]+\) has no kilotune: `pip install kilotune==\S+` there\.", refused.stderr
        )
        assert head.studies() == {}


@pytest.mark.parametrize(
    ("there", "sentence"),
    [
        (Installation("1.0", "same", "cc"), None),
        (Installation("1.0", "same", None), None),
        (Installation(None), "has no kilotune: `pip install kilotune==1.0` there."),
        (Installation("0.9", "same", "cc"), "has kilotune 0.9, and this is 1.0: install the same there."),
        (Installation("1.0", "edited", "cc"), "has a kilotune 1.0 of other sources than this one"),
        ("not within 120 s", "did not answer (not within 120 s)."),
    ],
)
def test_a_node_must_measure_what_this_machine_would(there: Installation | str, sentence: str | None) -> None:
    said = refusal("far", there, Installation("1.0", "same", "gcc"))
    assert said is None if sentence is None else sentence in (said or "")


def test_what_a_node_has_is_a_sentence() -> None:
    assert description("far", Installation("1.0", "s", "clang")) == "Ray node far: kilotune 1.0, kernels built by clang"
    assert "no C compiler, so that evaluations take many times as long" in description("far", Installation("1.0", "s"))
