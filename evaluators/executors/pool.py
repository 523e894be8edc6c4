"""Evaluations in worker processes on this machine."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Sequence
from multiprocessing.connection import Connection

from kilotune.evaluators.executors.dispatch import DispatchingExecutor, JobResult, News, Ready, Worker
from kilotune.evaluators.executors.processes import ProcessWorker, available_processors, heard
from kilotune.search.executor import measure
from kilotune.search.space import Space


class PoolExecutor(DispatchingExecutor):
    """`workers` processes (default: one per processor that this process may use), each holding the space."""

    def __init__(self, space: Space, workers: int | None = None, limit_s: float | None = None) -> None:
        super().__init__(ProcessSource(space, workers or available_processors()), limit_s)


class ProcessSource:
    """Starts worker processes on this machine, each with the space."""

    jobs_each = 1

    def __init__(self, space: Space, workers: int) -> None:
        self.most_workers = workers
        self._pickled_space = pickle.dumps(space)

    def start_worker(self) -> ProcessWorker:
        return ProcessWorker.start(_measure_chunks, self._pickled_space)

    def check(self) -> None:
        """This machine starts processes as long as it runs."""

    def wait(self, workers: Sequence[Worker], timeout_s: float) -> list[tuple[Worker, News]]:
        return [*heard((worker for worker in workers if isinstance(worker, ProcessWorker)), timeout_s)]


def _measure_chunks(connection: Connection, pickled_space: bytes) -> None:
    """In a worker: the space first, then chunks until the other end closes (or its process is gone)."""
    space: Space = pickle.loads(pickled_space)
    with contextlib.suppress(EOFError, OSError):
        connection.send(Ready())
        while True:
            connection.send(JobResult(*measure(space, *connection.recv())))
