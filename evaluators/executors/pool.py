"""Evaluations in worker processes on this machine.

Our own pool rather than `concurrent.futures`: that one breaks as a whole when a worker dies, and cannot say which
candidate killed it.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from kilotune.evaluators.executors.dispatch import Death, DispatchingExecutor, JobResult, News, Ready, Worker
from kilotune.search.executor import measure
from kilotune.search.space import Assignment, Space


class PoolExecutor(DispatchingExecutor):
    """`workers` processes (default: one per processor that this process may use), each holding the space."""

    def __init__(self, space: Space, workers: int | None = None, limit_s: float | None = None) -> None:
        available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        super().__init__(ProcessSource(space, workers or available), limit_s)


class ProcessSource:
    """Starts worker processes on this machine, each with the space."""

    jobs_each = 1

    def __init__(self, space: Space, workers: int) -> None:
        self.most_workers = workers
        self._pickled_space = pickle.dumps(space)

    def start_worker(self) -> ProcessWorker:
        context = multiprocessing.get_context("spawn")  # a fork would copy our threads' locks in whatever state
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs,), daemon=True)
        process.start()
        theirs.close()  # so that its death is an end of file on our side
        ours.send_bytes(self._pickled_space)
        return ProcessWorker(process, ours)

    def wait(self, workers: Sequence[Worker], timeout_s: float) -> list[tuple[Worker, News]]:
        busy = {worker.connection: worker for worker in workers if isinstance(worker, ProcessWorker)}
        if not busy:
            time.sleep(timeout_s)
        return [(busy[ready], busy[ready].receive()) for ready in wait(list(busy), timeout_s) if ready in busy]


@dataclass(frozen=True, eq=False)
class ProcessWorker:
    """One process and our end of its pipe."""

    process: SpawnProcess
    connection: Connection

    def send(self, candidates: Sequence[Assignment]) -> bool:
        try:
            self.connection.send(candidates)
        except OSError:
            return False
        return True

    def receive(self) -> News:
        """What it has sent; its death, when the pipe is at its end."""
        try:
            news: Ready | JobResult = self.connection.recv()
        except (EOFError, OSError):
            self.process.join(1.0)
            return Death(_cause(self.process.exitcode))
        return news

    def kill(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


def _work(connection: Connection) -> None:
    """A worker's life: the space first, then chunks until the other end closes (or its process is gone)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the study decides what to do
    space: Space = pickle.loads(connection.recv_bytes())
    try:
        connection.send(Ready())
        while True:
            connection.send(JobResult(*measure(space, connection.recv())))
    except (EOFError, OSError):
        return


def _cause(exit_code: int | None) -> str:
    if exit_code is None or exit_code >= 0:
        return f"exit status {exit_code}"
    return f"signal {signal.Signals(-exit_code).name}; SIGKILL often means out of memory"
