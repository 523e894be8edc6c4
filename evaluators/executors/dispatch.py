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
from kilotune.search.racing import Hurdle
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

    def send(self, job: tuple[Sequence[Assignment], Hurdle | None]) -> bool:
        """Hand over a job: what `search.executor.measure` wants besides the space. False: the worker turns out to be gone; the job
        is not to blame."""

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

    def start_worker(self) -> Worker:
        """A new worker."""

    def check(self) -> None:
        """ExecutorError where workers cannot be had any more: then no candidate is to blame for a death."""

    def wait(self, workers: Sequence[Worker], timeout_s: float) -> list[tuple[Worker, News]]:
        """What has come back from busy workers; waits at most `timeout_s` for the first. At most one thing a worker."""


@dataclass
class _Chunk:
    """A submitted chunk on its way: what has been measured of it so far, by position."""

    ticket: int
    candidates: Sequence[Assignment]
    hurdle: Hurdle | None = None
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
    """An executor (`search.executor`) over the workers of a `WorkerSource`. `limit_s`: how long one evaluation may take; None: any time."""

    def __init__(self, source: WorkerSource, limit_s: float | None = None) -> None:
        self.workers = source.most_workers
        self._source, self._limit_s = source, limit_s
        self._waiting: deque[_Job] = deque()
        self._slots: list[_WorkerSlot] = []
        self._finished: list[Finished] = []

    def submit(self, ticket: int, chunk: Sequence[Assignment], hurdle: Hurdle | None = None) -> None:
        self._waiting.append(_Job(_Chunk(ticket, chunk, hurdle), range(len(chunk))))
        self._dispatch()

    def results(self, timeout_s: float) -> list[Finished]:
        busy = {id(slot.worker): slot for slot in self._slots if slot.jobs}
        for worker, news in self._source.wait([slot.worker for slot in busy.values()], self._wait_s(timeout_s)):
            slot = busy[id(worker)]
            match news:
                case JobResult():
                    self._take_in(slot, news)
                case Ready():
                    slot.ready, slot.since_s = True, time.monotonic()
                case Death():
                    self._on_death(slot, news.cause)
        self._stop_late_ones()
        self._dispatch()
        finished, self._finished = self._finished, []
        return finished

    def cancel(self) -> None:
        self._waiting.clear()
        self._finished.clear()
        for slot in [slot for slot in self._slots if slot.jobs]:
            self._remove_worker(slot)

    def close(self) -> None:
        self._waiting.clear()
        for slot in list(self._slots):
            self._remove_worker(slot)

    def _dispatch(self) -> None:
        while self._waiting:
            slot = self._slot_for(self._waiting[0])
            if slot is None:
                return
            job = self._waiting.popleft()
            if slot.worker.send(([job.chunk.candidates[i] for i in job.positions], job.chunk.hurdle)):
                if not slot.jobs:
                    slot.since_s = time.monotonic()
                slot.jobs.append(job)
            else:
                self._waiting.appendleft(job)
                self._stop_worker(slot)

    def _slot_for(self, job: _Job) -> _WorkerSlot | None:
        """Where a job goes next; None: it waits. One that has cost a worker gets one to itself: with another behind it, an
        answer that was lost when that one killed the worker would be taken for its own death."""
        slot = min(self._slots, key=lambda d: len(d.jobs), default=None)
        if (slot is None or slot.jobs) and len(self._slots) < self._source.most_workers:
            slot = _WorkerSlot(self._source.start_worker())
            self._slots.append(slot)
        if slot is None or not slot.jobs:
            return slot
        free = [d for d in self._slots if len(d.jobs) < self._source.jobs_each and not any(j.deaths for j in d.jobs)]
        return None if job.deaths else min(free, key=lambda d: len(d.jobs), default=None)

    def _take_in(self, slot: _WorkerSlot, answer: JobResult) -> None:
        job = slot.jobs.popleft()
        slot.since_s = time.monotonic()
        job.chunk.work_s += answer.work_s
        self._record(job, answer.measurements)

    def _record(self, job: _Job, measurements: Sequence[Measurement]) -> None:
        chunk = job.chunk
        chunk.measured.update(zip(job.positions, measurements, strict=True))
        if chunk.complete:
            ordered = [chunk.measured[i] for i in range(len(chunk.candidates))]
            self._finished.append(Finished(chunk.ticket, ordered, chunk.work_s))

    def _on_death(self, slot: _WorkerSlot, cause: str) -> None:
        """A worker died over its oldest job: find the guilty candidate by sending each alone, then try that once more."""
        job = self._stop_worker(slot)
        if job is None:
            return
        deaths = job.deaths + 1
        if not job.alone:
            self._waiting.extendleft(reversed(job.singly()))
        elif deaths < DEATHS_PER_CANDIDATE:
            self._waiting.appendleft(_Job(job.chunk, job.positions, deaths))
        else:
            self._source.check()
            self._record(job, [Measurement(failure=f"The worker died twice while measuring it ({cause}).")])

    def _stop_late_ones(self) -> None:
        if self._limit_s is None:
            return
        for slot in [d for d in self._slots if d.working and time.monotonic() - d.since_s > self._limit_s]:
            job = self._stop_worker(slot)
            assert job is not None
            if job.alone:
                sentence = f"The evaluation was stopped after {self._limit_s:g} s, the limit for one."
                self._record(job, [Measurement(failure=sentence)])
            else:
                self._waiting.extendleft(reversed(job.singly()))

    def _stop_worker(self, slot: _WorkerSlot) -> _Job | None:
        """End a worker; the job that it was working on. Those behind that one have not begun: they go back in line."""
        self._remove_worker(slot)
        current = slot.jobs.popleft() if slot.jobs else None
        self._waiting.extendleft(reversed(slot.jobs))
        return current

    def _remove_worker(self, slot: _WorkerSlot) -> None:
        self._slots.remove(slot)
        slot.worker.kill()

    def _wait_s(self, timeout_s: float) -> float:
        """Not so long that a late evaluation goes unseen."""
        if self._finished:
            return 0.0
        if self._limit_s is None:
            return timeout_s
        ends = [slot.since_s + self._limit_s for slot in self._slots if slot.working]
        return max(0.0, min([timeout_s, *(end - time.monotonic() for end in ends)]))
