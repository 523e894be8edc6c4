"""The same problem with flat decisions: the weights of the order in which a short search tries splits."""

from __future__ import annotations

from functools import cached_property

from kilotune.search.flat_state import FlatState
from kilotune.search.space import Assignment, Decision
from kilotune.spaces.reverse_split.compiled import SplitLimits, search_splits
from kilotune.spaces.reverse_split.measuring import ProvedProgram, SplitProblem
from kilotune.spaces.reverse_split.ordering import OrderWeights
from kilotune.spaces.reverse_split.procedure import plain_search
from kilotune.spaces.reverse_split.space import METHOD, ReverseSplitSpace
from kilotune.spaces.reverse_split.splits import start_sums

NODES, PLAIN_NODES = 3_000, 100
"""States that one candidate visits; a few hundredths of a second."""

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


class OrderSpace(ReverseSplitSpace):
    """A candidate is a setting of the heuristics: the weights of `OrderWeights`, how many sums at a time, and a restart
    with noise. It is measured by the best program that a search of 3000 states in that order finds."""

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """All independent."""
        least, most = len(start_sums(self.problem.wanted)), self.problem.registers
        sums = tuple(n for n in dict.fromkeys((4, 3, *range(most, 1, -1))) if least <= n <= most) or (most,)
        weights = (Decision(name, options) for name, options in _WEIGHTS)
        return (Decision(SUMS, sums), *weights, Decision(RESTART, tuple(range(8))))

    def start(self) -> FlatState:  # type: ignore[override]  # a state of its own, as any space has
        """Nothing decided."""
        return FlatState(self.decisions, self.least)

    def split_names(self, assignment: Assignment) -> tuple[tuple[str, ...], ...]:
        """The plans that a setting finds, best first, as names of splits."""
        restart = int(assignment[RESTART])
        weights = OrderWeights(
            **{name: float(assignment[name]) for name, _ in _WEIGHTS}, noise=RESTART_NOISE if restart else 0.0
        )
        sums, limits = start_sums(self.problem.wanted), SplitLimits(NODES, int(assignment[SUMS]), plans=8)
        if not sums:
            return ((),)
        report = search_splits(sums, self.problem.depth, limits, weights, seed=restart)
        if report is None:
            plain = plain_search(sums, self.problem.depth, limits.registers, weights, PLAIN_NODES)
            return (plain.names,) if plain else ()
        return tuple(plan.names for plan in report.plans[:RELAXED])

    def _made(self, assignment: Assignment) -> ProvedProgram | str:
        if METHOD in assignment:  # the procedure's candidate is a list of splits here too
            return super()._made(assignment)
        found: list[ProvedProgram] = []
        failure = "A search of this order finds no plan that the registers hold."
        for names in self.split_names(assignment):
            made = super()._made(self.split_candidate(names))
            if isinstance(made, str):
                failure = made
            else:
                found.append(made)
        by_goal = self.objectives[0].metric
        return min(found, key=lambda made: _cost(made, by_goal)) if found else failure


def _cost(made: ProvedProgram, metric: str) -> tuple[int, int]:
    both = (made.program.instructions, made.program.bus_transfers)
    return both if metric == "instructions" else both[::-1]


def space_for(problem: SplitProblem, strategy: str) -> ReverseSplitSpace:
    """The space that a strategy searches best: samplers, random ones too, and local search are lost among splits, and good at weights."""
    flat = strategy.partition(":")[0] in ("tpe", "count_tpe", "optuna", "local", "random")
    return (OrderSpace if flat else ReverseSplitSpace)(problem)
