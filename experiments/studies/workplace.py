"""Where the evaluations of a search run: this process, worker processes or a Ray cluster, with or without the cache."""

from __future__ import annotations

import dataclasses
import pickle
from dataclasses import dataclass

from kilotune.evaluators.executors.cache import CachingExecutor, EvaluationCache, has_sources
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.executors.kept_work import KeptWork
from kilotune.evaluators.executors.pool import PoolExecutor
from kilotune.evaluators.executors.ray_cluster import RayExecutor
from kilotune.search.executor import Executor
from kilotune.search.space import Space
from kilotune.search.work_memory import RemembersWork


@dataclass(frozen=True)
class Workplace:
    """Where evaluations run: in this process, in `jobs` worker processes, or on the Ray cluster at `ray`.

    `limit_s`: how long one may take. Only a worker can be stopped, so with a limit even one job is a process of its own.
    `cached`: measurements of earlier studies are used again, and what searches worked out on their way to them.
    """

    jobs: int | None = None
    ray: str | None = None
    limit_s: float | None = None
    cached: bool = True

    def with_jobs(self, jobs: int) -> Workplace:
        """A copy of this work place with so many worker processes."""
        return dataclasses.replace(self, jobs=jobs)

    def executor(self, space: Space) -> Executor:
        """ValueError, a sentence, when the cluster cannot be used."""
        executor = self._workers(space)
        if not self.cached or not has_sources(space):
            return executor
        cache = EvaluationCache()
        if isinstance(space, RemembersWork):
            space.work_memory = KeptWork(cache, space)
        return CachingExecutor(executor, space, cache)

    def _workers(self, space: Space) -> Executor:
        if self.ray is not None:
            return RayExecutor(space, self.ray, self.jobs, self.limit_s)
        if (self.jobs or 1) > 1 or self.limit_s is not None:
            require_picklable(space)
            return PoolExecutor(space, self.jobs or 1, self.limit_s)
        return InProcessExecutor(space)


def require_picklable(space: Space) -> None:
    """ValueError, a sentence, for a space that cannot be sent to worker processes."""
    try:
        pickle.dumps(space)
    except Exception as error:
        raise ValueError(
            f"The space {space.name} cannot be sent to worker processes: {type(error).__name__}: {error}; give it a class at "
            f"the top of a module and fields that can be pickled, or use one job."
        ) from error
