"""A search from its beginning to its end, and what it should find."""

from __future__ import annotations

import math

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.search.budget import Budget
from kilotune.search.front import Ranking
from kilotune.search.result import Result
from kilotune.search.space import (
    Space,
)
from kilotune.search.strategies.random import all_candidates
from kilotune.search.study import Study


def search(space: Space, strategy: str, trials: float = math.inf, seed: int = 0) -> tuple[Study, Result]:
    study = Study(space, strategy, seed)
    return study, study.run(InProcessExecutor(space), Budget(trials=trials))


def best_rank(space: Space) -> tuple[float, ...]:
    ranking = Ranking.of(space)
    return min(ranking.rank(m) for m in space.evaluate(list(all_candidates(space))))
