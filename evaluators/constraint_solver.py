"""CP-SAT as this package calls it: a solve that a signal or the end of a budget can end.

By itself the solver takes Ctrl-C for its own time limit, so that a search over many solves would never hear of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kilotune.evaluators.interruptible import interruptible

if TYPE_CHECKING:
    from ortools.sat.python import cp_model  # imports pandas, which takes longer than many a search


def solved(solver: cp_model.CpSolver, model: cp_model.CpModel) -> Any:
    """The status of `solver.solve(model)`. An exception of a signal handler ends it and goes on."""
    solver.parameters.catch_sigint_signal = False
    return interruptible(lambda: solver.solve(model), solver.stop_search)
