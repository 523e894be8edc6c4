"""The flat view of programs: a candidate is a setting of the heuristics that order a short search over splits.

The settings are the weights of `OrderWeights`, how many sums are split at a time, and a restart with noise. A candidate is
measured by the best program among the plans that a search of `NODES` states in that order finds.
"""

from __future__ import annotations

from kilotune.search.space import Assignment, Decision
from kilotune.spaces.reverse_split.depth_first import SplitLimits, search_splits
from kilotune.spaces.reverse_split.measuring import SplitProblem
from kilotune.spaces.reverse_split.ordering import OrderWeights
from kilotune.spaces.reverse_split.reference_search import reference_search
from kilotune.spaces.reverse_split.splits import start_sums

NODES, PLAIN_NODES = 3_000, 100
"""States that one candidate visits, compiled and in Python; a few hundredths of a second."""

RELAXED = 2
"""Best plans of a candidate that are relaxed and measured."""

SUMS, RESTART = "sums", "restart"
RESTART_NOISE = 0.5

_WEIGHTS: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("card_power", (1.0, 0.5, 2.0)),
    ("distance_power", (1.0, 0.25, 0.5, 2.0)),
    ("remainder_penalty", (0.5, 0.0, 1.0, 1.5, 3.0)),
    ("aligned_bonus", (0.25, 0.0, 0.5, 1.0)),
    ("near_power", (0.125, 0.0, 0.5)),
)


def order_decisions(problem: SplitProblem) -> tuple[Decision, ...]:
    """The independent decisions about the order of splits."""
    least, most = len(start_sums(problem.wanted)), problem.registers
    sums = tuple(n for n in dict.fromkeys((4, 3, *range(most, 1, -1))) if least <= n <= most) or (most,)
    weights = (Decision(name, options) for name, options in _WEIGHTS)
    return (Decision(SUMS, sums), *weights, Decision(RESTART, tuple(range(8))))


def plans_in_order(problem: SplitProblem, assignment: Assignment) -> tuple[tuple[str, ...], ...]:
    """The plans that a setting finds, best first, as names of splits; empty when it finds none."""
    restart = int(assignment[RESTART])
    weights = OrderWeights(
        **{name: float(assignment[name]) for name, _ in _WEIGHTS}, noise=RESTART_NOISE if restart else 0.0
    )
    sums, limits = start_sums(problem.wanted), SplitLimits(NODES, int(assignment[SUMS]), plans=8)
    if not sums:
        return ((),)
    report = search_splits(sums, problem.depth, limits, weights, seed=restart)
    if report is None:
        plain = reference_search(sums, problem.depth, limits.registers, weights, PLAIN_NODES)
        return (plain.names,) if plain else ()
    return tuple(plan.names for plan in report.plans[:RELAXED])
