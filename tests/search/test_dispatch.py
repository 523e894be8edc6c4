"""Who is blamed when a worker dies, whatever a transport loses on the way."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from kilotune.evaluators.executors.dispatch import Death, DispatchingExecutor, JobResult, News, Ready, Worker
from kilotune.search.executor import ExecutorError
from kilotune.search.racing import Hurdle
from kilotune.search.space import Assignment, Measurement


@dataclass(eq=False)
class Forgetful:
    """A worker that takes two jobs. A killer (1) takes the answer before it along: it never arrives."""

    news: deque[News] = field(default_factory=lambda: deque([Ready()]))
    jobs: deque[Sequence[Assignment]] = field(default_factory=deque)

    def send(self, job: tuple[Sequence[Assignment], Hurdle | None]) -> bool:
        self.jobs.append(job[0])
        return True

    def next(self) -> News:
        if self.news:
            return self.news.popleft()
        if any(candidate["kills"] for job in self.jobs for candidate in job):
            return Death("killed")
        return JobResult([Measurement({"loss": 0.0}) for _ in self.jobs.popleft()], 0.001)

    def kill(self) -> None:
        self.jobs.clear()


class Source:
    """One worker at a time, with two jobs."""

    most_workers = 1
    jobs_each = 2

    def start_worker(self) -> Worker:
        return Forgetful()

    def wait(self, workers: Sequence[Worker], timeout_s: float) -> list[tuple[Worker, News]]:
        return [(worker, worker.next()) for worker in workers if isinstance(worker, Forgetful)]

    def check(self) -> None:
        """Workers can always be had."""


def test_a_lost_answer_is_not_taken_for_a_death() -> None:
    executor = DispatchingExecutor(Source())
    chunks = [[{"kills": i in (1, 3), "i": i} for i in (0, 1)], [{"kills": i in (1, 3), "i": i} for i in (2, 3, 4)]]
    for ticket, chunk in enumerate(chunks):
        executor.submit(ticket, chunk)
    finished = {}
    for _ in range(100):
        finished |= {f.ticket: f.measurements for f in executor.results(0.0)}
    failed = [[m.failure is not None for m in finished[ticket]] for ticket in (0, 1)]
    assert failed == [[False, True], [False, True, False]]


class WithoutNodes(Source):
    """A source whose workers can no longer be had, as where a cluster was lost."""

    def check(self) -> None:
        raise ExecutorError("no nodes are left")


def test_no_candidate_is_blamed_where_workers_cannot_be_had_any_more() -> None:
    executor = DispatchingExecutor(WithoutNodes())
    executor.submit(0, [{"kills": True, "i": 0}])
    finished: list[object] = []
    with pytest.raises(ExecutorError, match="no nodes are left"):
        finished.extend(one for _ in range(100) for one in executor.results(0.0))
    assert not finished
