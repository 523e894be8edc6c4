"""Evaluations in worker processes on this machine.

Our own pool rather than `concurrent.futures`: that one breaks as a whole when a worker dies, and cannot say which
candidate killed it.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from kilotune.search.executor import Finished, measure
from kilotune.search.space import Assignment, Measurement, Space


@dataclass
class _Chunk:
    """A submitted chunk on its way: what has been measured of it so far, by position."""

    ticket: int
    candidates: Sequence[Assignment]
    measured: dict[int, Measurement] = field(default_factory=dict)
    work_s: float = 0.0


@dataclass(frozen=True)
class _Job:
    """Positions of a chunk that a worker gets at once."""

    chunk: _Chunk
    positions: range
    attempt: int = 0


@dataclass
class _Worker:
    process: SpawnProcess
    connection: Connection
    job: _Job | None = None


class PoolExecutor:
    """`workers` processes (default: one per processor that this process may use), each holding the space."""

    def __init__(self, space: Space, workers: int | None = None) -> None:
        self.workers = workers or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else [0])
        self._pickled_space = pickle.dumps(space)
        self._waiting: deque[_Job] = deque()
        self._workers: list[_Worker] = []

    def submit(self, ticket: int, chunk: Sequence[Assignment]) -> None:
        self._waiting.append(_Job(_Chunk(ticket, chunk), range(len(chunk))))
        self._hand_out()

    def results(self, timeout_s: float) -> list[Finished]:
        busy = {worker.connection: worker for worker in self._workers if worker.job}
        finished = []
        for connection in wait(list(busy), timeout_s):
            assert isinstance(connection, Connection)
            chunk = self._receive(busy[connection])
            if chunk is not None and len(chunk.measured) == len(chunk.candidates):
                measurements = [chunk.measured[i] for i in range(len(chunk.candidates))]
                finished.append(Finished(chunk.ticket, measurements, chunk.work_s))
        self._hand_out()
        return finished

    def cancel(self) -> None:
        self._waiting.clear()
        for worker in [w for w in self._workers if w.job]:
            self._remove(worker)

    def close(self) -> None:
        self._waiting.clear()
        for worker in list(self._workers):
            self._remove(worker)

    def _hand_out(self) -> None:
        idle = [worker for worker in self._workers if worker.job is None]
        while self._waiting:
            if not idle:
                if len(self._workers) >= self.workers:
                    return
                idle.append(self._start_worker())
            self._send(idle.pop(), self._waiting.popleft())

    def _send(self, worker: _Worker, job: _Job) -> None:
        worker.job = job
        try:
            worker.connection.send([job.chunk.candidates[i] for i in job.positions])
        except OSError:  # it died while idle, so this job is not to blame
            self._remove(worker)
            self._waiting.appendleft(job)

    def _receive(self, worker: _Worker) -> _Chunk | None:
        """Take in what a worker sent. Returns its chunk, or None when the chunk has to be tried again."""
        job, worker.job = worker.job, None
        assert job is not None
        try:
            measurements, work_s = worker.connection.recv()
        except (EOFError, OSError):
            return self._mourn(worker, job)
        job.chunk.measured.update(zip(job.positions, measurements, strict=True))
        job.chunk.work_s += work_s
        return job.chunk

    def _mourn(self, worker: _Worker, job: _Job) -> _Chunk | None:
        """A worker died over a job: first find the guilty candidate, by sending each alone; then try that once more."""
        self._remove(worker)
        if job.attempt == 0:
            attempt = 1 if len(job.positions) == 1 else 0
            self._waiting.extendleft(_Job(job.chunk, range(i, i + 1), attempt) for i in reversed(job.positions))
            return None
        sentence = f"The worker process died twice while measuring it ({_cause(worker.process.exitcode)})."
        job.chunk.measured[job.positions.start] = Measurement(failure=sentence)
        return job.chunk

    def _start_worker(self) -> _Worker:
        context = multiprocessing.get_context("spawn")  # a fork would copy our threads' locks in whatever state
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs,), daemon=True)
        process.start()
        theirs.close()  # so that its death is an end of file on our side
        worker = _Worker(process, ours)
        self._workers.append(worker)
        ours.send_bytes(self._pickled_space)
        return worker

    def _remove(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.connection.close()
        worker.process.kill()
        worker.process.join()


def _work(connection: Connection) -> None:
    """A worker's life: the space first, then chunks until the other end closes (or its process is gone)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the study decides what to do
    space: Space = pickle.loads(connection.recv_bytes())
    while True:
        try:
            chunk = connection.recv()
            connection.send(measure(space, chunk))
        except (EOFError, OSError):
            return


def _cause(exit_code: int | None) -> str:
    if exit_code is None or exit_code >= 0:
        return f"exit status {exit_code}"
    return f"signal {signal.Signals(-exit_code).name}; SIGKILL often means out of memory"
