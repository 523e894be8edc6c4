"""Evaluations on a Ray cluster: actors that keep the space with its compiled kernels and caches.

The space travels once, through the object store; chunks are arguments of actor calls, two in flight an actor. What an
actor's death means is decided in `dispatch`, so Ray itself restarts and retries nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from kilotune.evaluators.executors.dispatch import Death, DispatchingExecutor, JobResult, News, Ready, Worker
from kilotune.evaluators.executors.ray_connection import LOCAL, connect, first_line
from kilotune.search.executor import ExecutorError, measure
from kilotune.search.racing import Hurdle
from kilotune.search.space import Assignment, Measurement, Space

LOOK_AT_NODES_S = 5.0
"""How long nothing may come back before we ask whether the cluster still has nodes: a call to a lost one never ends."""


class RayExecutor(DispatchingExecutor):
    """`address`: LOCAL, `auto` (the cluster of this machine), or HOST:PORT. `workers`: actors, each taking one processor;
    default: as many as the cluster has processors. `limit_s`: see `DispatchingExecutor`. ValueError, a sentence, for a cluster that
    cannot be used; ExecutorError from `submit` and `results` when it is lost."""

    def __init__(
        self, space: Space, address: str = LOCAL, workers: int | None = None, limit_s: float | None = None
    ) -> None:
        self._crew_of_actors = ActorSource(space, address, workers)
        super().__init__(self._crew_of_actors, limit_s)

    def close(self) -> None:
        super().close()
        self._crew_of_actors.close()


class ActorSource:
    """Starts Ray actors, each with the space."""

    jobs_each = 2

    def __init__(self, space: Space, address: str, workers: int | None) -> None:
        self._ray = connect(address, workers)
        self._reference = self._ray.put(space)
        processors = int(self._ray.cluster_resources().get("CPU", 0))
        if workers is None and processors < 1:
            raise ValueError(f"The Ray cluster {address} has no processor: add a node, or ask for workers with --jobs.")
        self.most_workers = workers or processors
        self._last_news_s = time.monotonic()
        self._actor = self._ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0, max_concurrency=1)(_Evaluator)

    def start_worker(self) -> ActorWorker:
        self.check()
        return ActorWorker(self._ray, self._actor.remote(self._reference))

    def wait(self, workers: Sequence[Worker], timeout_s: float) -> list[tuple[Worker, News]]:
        heads = {worker.calls[0]: worker for worker in workers if isinstance(worker, ActorWorker)}
        if not heads:
            time.sleep(timeout_s)
            return []
        try:
            ready, _ = self._ray.wait(list(heads), num_returns=len(heads), timeout=0.0)
            if not ready and timeout_s > 0:
                ready, _ = self._ray.wait(list(heads), num_returns=1, timeout=timeout_s)
        except self._ray.exceptions.RaySystemError as error:
            raise ExecutorError(f"The Ray cluster is gone ({first_line(error)}).") from None
        if ready:
            self._last_news_s = time.monotonic()
        elif time.monotonic() - self._last_news_s > LOOK_AT_NODES_S:
            self.check()
        return [(heads[call], heads[call].receive()) for call in ready]

    def check(self) -> None:
        """ExecutorError when no node with a processor is alive."""
        if not any(node["Alive"] and node["Resources"].get("CPU") for node in self._ray.nodes()):
            raise ExecutorError("The Ray cluster has lost all its nodes.")
        self._last_news_s = time.monotonic()

    def close(self) -> None:
        """Leave the cluster; one that was started here ends with it. Safe to call twice."""
        with contextlib.suppress(Exception):
            self._ray.shutdown()


class ActorWorker:
    """One actor and the calls that it still owes an answer; the first call is the one that says it is ready."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self._actor = ray, actor
        self.calls: deque[Any] = deque([actor.ready.remote()])

    def send(self, job: tuple[Sequence[Assignment], Hurdle | None]) -> bool:
        self.calls.append(self._actor.measure.remote(*job))
        return True

    def receive(self) -> News:
        """The answer to the oldest call, which has come."""
        try:
            answer = self._ray.get(self.calls.popleft())
        except self._ray.exceptions.RayActorError as error:
            return Death(first_line(error))
        except self._ray.exceptions.RayTaskError as error:  # loading the space failed
            return Death(first_line(error))
        return Ready() if answer is None else JobResult(*answer)

    def kill(self) -> None:
        with contextlib.suppress(Exception):  # the cluster may be gone
            self._ray.kill(self._actor, no_restart=True)


class _Evaluator:
    """The actor."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def ready(self) -> None:
        return None

    def measure(self, candidates: Sequence[Assignment], hurdle: Hurdle | None) -> tuple[list[Measurement], float]:
        return measure(self._space, candidates, hurdle)
