"""Worker processes change nothing but the time, and their deaths are results."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from pathlib import Path

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.executors.pool import PoolExecutor, ProcessWorker
from kilotune.search.budget import Budget
from kilotune.search.executor import Executor, Finished
from kilotune.search.result import Status
from kilotune.search.space import Assignment, Measurement
from kilotune.search.study import Study
from tests.search.problems import FlatProblem

pytestmark = pytest.mark.slow

CANDIDATES = [{"d0": 10 + i, "d1": 10 + j} for i in range(3) for j in range(3)]


@dataclass(frozen=True)
class Deadly(FlatProblem):
    """`d0` = 11 kills the worker; 12 kills one only. `folder` is where it notes that."""

    folder: str = ""

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        for candidate in batch:
            note = Path(self.folder, "died")
            if candidate["d0"] == 11 or (candidate["d0"] == 12 and not note.exists()):
                if candidate["d0"] == 12:
                    note.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return super().evaluate(batch)


@pytest.fixture(scope="module")
def two_workers() -> Iterator[PoolExecutor]:
    executor = PoolExecutor(FlatProblem(10, 4, 1, pairs=6), 2)
    yield executor
    executor.close()


def processes_of(executor: PoolExecutor) -> list[SpawnProcess]:
    return [slot.worker.process for slot in executor._slots if isinstance(slot.worker, ProcessWorker)]


def collect(executor: Executor, tickets: int) -> dict[int, Finished]:
    finished: dict[int, Finished] = {}
    deadline = time.monotonic() + 120
    while len(finished) < tickets and time.monotonic() < deadline:
        finished |= {f.ticket: f for f in executor.results(0.1)}
    return finished


@pytest.mark.parametrize("strategy", ["random", "local", "exhaustive"])
def test_the_number_of_workers_changes_no_trial(two_workers: PoolExecutor, strategy: str) -> None:
    space = FlatProblem(10, 4, 1, pairs=6)
    alone = Study(space, strategy, 2)
    alone.run(InProcessExecutor(space), Budget(trials=400))
    together = Study(space, strategy, 2)
    together.run(two_workers, Budget(trials=400))
    assert together.trials() == alone.trials()


def test_the_candidate_that_kills_its_worker_fails_and_no_other_does(tmp_path: Path) -> None:
    space = Deadly(2, 3, 1, folder=str(tmp_path))
    plain = FlatProblem(2, 3, 1).evaluate(CANDIDATES)
    executor = PoolExecutor(space, 2)
    try:
        executor.submit(1, CANDIDATES[:5])
        executor.submit(2, CANDIDATES[5:])
        finished = collect(executor, 2)
    finally:
        executor.close()
    measurements = finished[1].measurements + finished[2].measurements
    for candidate, measurement, expected in zip(CANDIDATES, measurements, plain, strict=True):
        if candidate["d0"] == 11:
            assert measurement.failure is not None
            assert "died twice" in measurement.failure
            assert "SIGKILL" in measurement.failure
        else:
            assert measurement == expected


def test_a_worker_that_dies_while_idle_costs_nothing(two_workers: PoolExecutor) -> None:
    space = FlatProblem(10, 4, 1, pairs=6)
    candidate = {d.name: 10 for d in space.decisions}
    two_workers.submit(1, [candidate])
    collect(two_workers, 1)
    for process in processes_of(two_workers):
        process.kill()
        process.join()
    two_workers.submit(2, [candidate])
    assert collect(two_workers, 1)[2].measurements == space.evaluate([candidate])


def test_a_budget_of_time_is_kept_even_when_evaluations_are_longer() -> None:
    space = FlatProblem(6, 3, 1, sleep_s=60.0)
    executor = PoolExecutor(space, 2)
    try:
        result = Study(space, "random").run(executor, Budget(seconds=0.5))
    finally:
        executor.close()
    assert (result.status, result.evaluations) == (Status.BUDGET_SPENT, 0)  # waiting would have brought some


def test_closing_leaves_no_process_behind_and_may_be_repeated() -> None:
    executor = PoolExecutor(FlatProblem(2, 3, 1), 2)
    executor.submit(1, CANDIDATES[:2])
    executor.submit(2, CANDIDATES[2:])
    processes = processes_of(executor)
    assert len(processes) == 2
    executor.close()
    executor.close()
    assert not any(process.is_alive() for process in processes)


@dataclass(frozen=True)
class Hanging(FlatProblem):
    """`d0` = 11 never comes back."""

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        while any(candidate["d0"] == 11 for candidate in batch):
            time.sleep(0.1)
        return super().evaluate(batch)


def test_an_evaluation_that_hangs_is_stopped_and_the_others_of_its_chunk_are_measured() -> None:
    plain = FlatProblem(2, 3, 1).evaluate(CANDIDATES)
    executor = PoolExecutor(Hanging(2, 3, 1), 2, limit_s=1.0)
    try:
        executor.submit(1, CANDIDATES)
        measurements = collect(executor, 1)[1].measurements
    finally:
        executor.close()
    for candidate, measurement, expected in zip(CANDIDATES, measurements, plain, strict=True):
        if candidate["d0"] == 11:
            assert measurement.failure == "The evaluation was stopped after 1 s, the limit for one."
        else:
            assert measurement == expected


def test_work_that_cannot_be_sent_leaves_no_process_behind() -> None:
    before = set(multiprocessing.active_children())
    with pytest.raises((pickle.PicklingError, AttributeError)) as raised:
        ProcessWorker.start(print, lambda: None)
    assert raised.traceback, "which keeps the worker's variables alive"
    assert set(multiprocessing.active_children()) <= before
