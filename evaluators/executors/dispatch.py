"""What every executor with workers does alike: who measures what, what a worker's death means, and what takes too long.

A worker that dies, or works longer than an evaluation may take, is not to blame for the whole chunk: its candidates are
sent again one at a time. One that kills its worker twice, or that alone exceeds the limit, is a failed measurement.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kilotune.search.executor import Finished
from kilotune.search.space import Assignment, Measurement

DEATHS_PER_CANDIDATE = 2


@dataclass(frozen=True)
class JobResult:
    """What came back for the oldest job of a worker."""

    measurements: Sequence[Measurement]
    work_s: float


@dataclass(frozen=True)
class Ready:
    """The worker holds the space and begins with its oldest job only now."""


@dataclass(frozen=True)
class Death:
    """The worker is gone, with all jobs that it still had; `cause` completes "The worker died ..."."""

    cause: str


News = JobResult | Ready | Death


class Worker(Protocol):
    """Something that measures candidates elsewhere, job after job in the order in which they are sent."""

    def send(self, candidates: Sequence[Assignment]) -> bool:
        """Hand over a job. False: the worker turns out to be gone; the job is not to blame."""

    def kill(self) -> None:
        """End it now, whatever it does. Safe to call twice."""


class WorkerSource(Protocol):
    """Where workers come from."""

    @property
    def most_workers(self) -> int:
        """How many may work at the same time."""

    @property
    def jobs_each(self) -> int:
        """Jobs that a worker may hold, so that the next one is there when it finishes."""

    def hire(self) -> Worker:
        """A new worker."""

    def wait(self, workers: Sequence[Worker], timeout_s: float) -> list[tuple[Worker, News]]:
        """What has come back from busy workers; waits at most `timeout_s` for the first. At most one thing a worker."""


@dataclass
class _Chunk:
    """A submitted chunk on its way: what has been measured of it so far, by position."""

    ticket: int
    candidates: Sequence[Assignment]
    measured: dict[int, Measurement] = field(default_factory=dict)
    work_s: float = 0.0

    @property
    def complete(self) -> bool:
        return len(self.measured) == len(self.candidates)


@dataclass(frozen=True)
class _Job:
    """Positions of a chunk that a worker gets at once; `deaths`: how many workers it has cost, alone."""

    chunk: _Chunk
    positions: range
    deaths: int = 0

    @property
    def alone(self) -> bool:
        return len(self.positions) == 1

    def singly(self) -> list[_Job]:
        return [_Job(self.chunk, range(i, i + 1)) for i in self.positions]


@dataclass(eq=False)
class _WorkerSlot:
    """A worker with the jobs that it holds, oldest first, and since when it works on that one (once it is ready)."""

    worker: Worker
    jobs: deque[_Job] = field(default_factory=deque)
    since_s: float = 0.0
    ready: bool = False

    @property
    def working(self) -> bool:
        return self.ready and bool(self.jobs)


class DispatchingExecutor:
    """An executor (`search.executor`) over a crew. `limit_s`: how long one evaluation may take; None: any time."""

    def __init__(self, crew: WorkerSource, limit_s: float | None = None) -> None:
        self.workers = crew.most_workers
        self._crew, self._limit_s = crew, limit_s
        self._waiting: deque[_Job] = deque()
        self._desks: list[_WorkerSlot] = []
        self._finished: list[Finished] = []

    def submit(self, ticket: int, chunk: Sequence[Assignment]) -> None:
        self._waiting.append(_Job(_Chunk(ticket, chunk), range(len(chunk))))
        self._hand_out()

    def results(self, timeout_s: float) -> list[Finished]:
        busy = {id(desk.worker): desk for desk in self._desks if desk.jobs}
        for worker, news in self._crew.wait([desk.worker for desk in busy.values()], self._patience_s(timeout_s)):
            desk = busy[id(worker)]
            match news:
                case JobResult():
                    self._take_in(desk, news)
                case Ready():
                    desk.ready, desk.since_s = True, time.monotonic()
                case Death():
                    self._mourn(desk, news.cause)
        self._stop_late_ones()
        self._hand_out()
        finished, self._finished = self._finished, []
        return finished

    def cancel(self) -> None:
        self._waiting.clear()
        self._finished.clear()
        for desk in [desk for desk in self._desks if desk.jobs]:
            self._dismiss(desk)

    def close(self) -> None:
        self._waiting.clear()
        for desk in list(self._desks):
            self._dismiss(desk)

    def _hand_out(self) -> None:
        while self._waiting:
            desk = self._desk_for(self._waiting[0])
            if desk is None:
                return
            job = self._waiting.popleft()
            if desk.worker.send([job.chunk.candidates[i] for i in job.positions]):
                if not desk.jobs:
                    desk.since_s = time.monotonic()
                desk.jobs.append(job)
            else:
                self._waiting.appendleft(job)
                self._lay_off(desk)

    def _desk_for(self, job: _Job) -> _WorkerSlot | None:
        """Where a job goes next; None: it waits. One that has cost a worker gets one to itself: with another behind it, an
        answer that was lost when that one killed the worker would be taken for its own death."""
        desk = min(self._desks, key=lambda d: len(d.jobs), default=None)
        if (desk is None or desk.jobs) and len(self._desks) < self._crew.most_workers:
            desk = _WorkerSlot(self._crew.hire())
            self._desks.append(desk)
        if desk is None or not desk.jobs:
            return desk
        free = [d for d in self._desks if len(d.jobs) < self._crew.jobs_each and not any(j.deaths for j in d.jobs)]
        return None if job.deaths else min(free, key=lambda d: len(d.jobs), default=None)

    def _take_in(self, desk: _WorkerSlot, answer: JobResult) -> None:
        job = desk.jobs.popleft()
        desk.since_s = time.monotonic()
        job.chunk.work_s += answer.work_s
        self._record(job, answer.measurements)

    def _record(self, job: _Job, measurements: Sequence[Measurement]) -> None:
        chunk = job.chunk
        chunk.measured.update(zip(job.positions, measurements, strict=True))
        if chunk.complete:
            ordered = [chunk.measured[i] for i in range(len(chunk.candidates))]
            self._finished.append(Finished(chunk.ticket, ordered, chunk.work_s))

    def _mourn(self, desk: _WorkerSlot, cause: str) -> None:
        """A worker died over its oldest job: find the guilty candidate by sending each alone, then try that once more."""
        job = self._lay_off(desk)
        if job is None:
            return
        deaths = job.deaths + 1
        if not job.alone:
            self._waiting.extendleft(reversed(job.singly()))
        elif deaths < DEATHS_PER_CANDIDATE:
            self._waiting.appendleft(_Job(job.chunk, job.positions, deaths))
        else:
            self._record(job, [Measurement(failure=f"The worker died twice while measuring it ({cause}).")])

    def _stop_late_ones(self) -> None:
        if self._limit_s is None:
            return
        for desk in [d for d in self._desks if d.working and time.monotonic() - d.since_s > self._limit_s]:
            job = self._lay_off(desk)
            assert job is not None
            if job.alone:
                sentence = f"The evaluation was stopped after {self._limit_s:g} s, the limit for one."
                self._record(job, [Measurement(failure=sentence)])
            else:
                self._waiting.extendleft(reversed(job.singly()))

    def _lay_off(self, desk: _WorkerSlot) -> _Job | None:
        """End a worker; the job that it was working on. Those behind that one have not begun: they go back in line."""
        self._dismiss(desk)
        current = desk.jobs.popleft() if desk.jobs else None
        self._waiting.extendleft(reversed(desk.jobs))
        return current

    def _dismiss(self, desk: _WorkerSlot) -> None:
        self._desks.remove(desk)
        desk.worker.kill()

    def _patience_s(self, timeout_s: float) -> float:
        """Not so long that a late evaluation goes unseen."""
        if self._finished:
            return 0.0
        if self._limit_s is None:
            return timeout_s
        ends = [desk.since_s + self._limit_s for desk in self._desks if desk.working]
        return max(0.0, min([timeout_s, *(end - time.monotonic() for end in ends)]))
