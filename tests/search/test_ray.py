"""A real Ray cluster on this machine, with real deaths: the same trials as in process, and nothing finished is lost."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.executors.ray_cluster import RayExecutor
from kilotune.search.budget import Budget
from kilotune.search.executor import ExecutorError
from kilotune.search.result import Status
from kilotune.search.space import Assignment, Measurement
from kilotune.search.store import Store
from kilotune.search.study import Study
from tests.search.problems import FlatProblem

pytest.importorskip("ray")
pytestmark = pytest.mark.xdist_group("ray")  # one cluster at a time

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
    executor = RayExecutor(Deadly(2, 3, 1), workers=2, limit_s=1.0)
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
            assert measurement.failure == "The evaluation was stopped after 1 s, the limit for one."
        else:
            assert measurement == expected


def test_a_lost_cluster_ends_the_run_and_the_study_goes_on_elsewhere(tmp_path: Path) -> None:
    """The raylet is killed, then the actors, so that no evaluation is possible any more."""
    space = FlatProblem(10, 4, 1, pairs=6, sleep_s=0.01)
    store = Store(str(tmp_path / "studies.db"))
    executor = RayExecutor(space, workers=2)
    study = Study.create(store, "lost", space, "random", 3)
    reported: list[int] = []

    def disaster() -> None:
        while len(reported) < 2:
            time.sleep(0.05)
        for title in (".*/raylet/raylet ", "ray::_Evaluator"):
            for pid in processes(title):
                os.kill(pid, signal.SIGKILL)

    threading.Thread(target=disaster, daemon=True).start()
    try:
        with pytest.raises(ExecutorError, match="lost all its nodes"):
            study.run(executor, Budget(seconds=90), on_progress=lambda p: reported.append(p.new_trials))
    finally:
        executor.close()
    resumed = Study.resume(store, "lost", space)
    assert resumed.status is Status.INTERRUPTED
    assert len(resumed.trials()) >= max(reported) > 0
    resumed.run(InProcessExecutor(space), Budget(trials=20))
    never_stopped = Study(space, "random", 3)
    never_stopped.run(InProcessExecutor(space), Budget(trials=len(resumed.trials())))
    assert resumed.trials() == never_stopped.trials()
    store.close()


def test_a_cluster_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"The Ray cluster 127\.0\.0\.1:1 cannot be reached"):
        RayExecutor(SPACE, "127.0.0.1:1")
