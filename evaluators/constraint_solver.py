"""CP-SAT as this package calls it: a solve that a signal or the end of a budget can end.

By itself the solver takes Ctrl-C for its own time limit, so that a search over many solves would never hear of it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kilotune.evaluators.interruptible import interruptible

if TYPE_CHECKING:
    from ortools.sat.python import cp_model  # imports pandas, which takes longer than many a search


LIBRARY = "ortools.sat.python.cp_model"
"""What a solve imports."""


def solved(
    solver: cp_model.CpSolver, model: cp_model.CpModel, seconds_left: Callable[[], float] = lambda: math.inf
) -> Any:
    """The status of `solver.solve(model)`, with what it has found when `seconds_left()` is no more. An exception of a signal handler
    ends it and goes on."""
    solver.parameters.catch_sigint_signal = False
    return interruptible(lambda: solver.solve(model), solver.stop_search, seconds_left)


WHOLE_SHARE, WHOLE_LEAST = 1e-14, 1e-6
"""By how much a bound may be above the whole number that is meant: a share of it, some of a float's last places, but this at least."""


def least_whole(bound: float) -> int:
    """What an objective of whole numbers reaches at least, where CP-SAT's bound, a float, is this one. The solver divides objectives by
    what their terms have in common and multiplies its bound again, which may end above the optimum itself: 134217728000.00002."""
    return math.ceil(bound - max(WHOLE_LEAST, WHOLE_SHARE * abs(bound)))


LEAST_WORK = 0.002
"""What every solve counts at least, so that a loop of trivial ones ends."""


class SolverClock:
    """What solves may take together: `work` by CP-SAT's deterministic time, which is the same on every machine, and `seconds` by
    `clock`, +inf where no budget ends."""

    def __init__(self, work: float, seconds: float = math.inf, clock: Callable[[], float] = time.monotonic) -> None:
        self._work, self._clock, self._deadline_s = work, clock, clock() + seconds

    @property
    def is_over(self) -> bool:
        """Whether nothing is left of either."""
        return self._work <= 0.0 or self._seconds_left() <= 0.0

    def solve(self, solver: cp_model.CpSolver, model: cp_model.CpModel, most_work: float = math.inf) -> Any:
        """The status of a solve by one thread, for as long as is left, and for at most so much work."""
        solver.parameters.num_workers = 1  # several of them count no work that can be repeated
        solver.parameters.max_deterministic_time = max(min(self._work, most_work), LEAST_WORK)
        status = solved(solver, model, self._seconds_left)  # which by itself only knows the clock on the wall
        self._work -= max(solver.response_proto.deterministic_time, LEAST_WORK)
        return status

    def _seconds_left(self) -> float:
        return self._deadline_s - self._clock()
