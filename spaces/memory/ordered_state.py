"""Where a walk through orders and placements stands: operators first, then the states of the placement in their order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from kilotune.search.space import Assignment, Decision, Option, answered
from kilotune.spaces.memory.live_sums import ExecutionPoint, ones
from kilotune.spaces.memory.ordered_candidates import OrderedCandidates, operator_decision
from kilotune.spaces.memory.placement_state import PlacementState


@dataclass(frozen=True, eq=False)
class OrderedState:
    """`cost`: the largest live sum so far, in bytes; `placed`: the state of the placement, once every operator has its step."""

    space: OrderedCandidates
    progress: ExecutionPoint
    order: tuple[int, ...] = ()
    cost: int = 0
    placed: PlacementState | None = None

    @cached_property
    def decision(self) -> Decision | None:
        """The operators that can run next, in the order of the file; then the next buffer."""
        placing = self._placing
        if placing is not None:
            return placing.decision
        names = tuple(self.space.graph.operators[k].name for k in ones(self.progress.ready))
        return Decision(operator_decision(len(self.order)), names)

    @property
    def assignment(self) -> Assignment:
        """The answers so far."""
        return self.space.candidate(self.order, {} if self._placing is None else self._placing.assignment)

    def take(self, option: Option) -> OrderedState:
        """Run an operator, or place a buffer."""
        placing = self._placing
        if placing is not None:
            return OrderedState(self.space, self.progress, self.order, self.cost, placing.take(option))
        answered(self.decision, option)
        chosen = next(k for k in ones(self.progress.ready) if self.space.graph.operators[k].name == option)
        cost, progress = self.space.sums.step(self.progress, chosen)
        return OrderedState(self.space, progress, (*self.order, chosen), max(self.cost, cost))

    def bound(self) -> float:
        """The largest live sum so far, what some operator holds by itself, or what the placement reaches."""
        if self._placing is not None:
            return self._placing.bound()
        return self.space.in_file_order.loss_of(max(self.cost, self.space.largest_sum.peak_bytes))

    @cached_property
    def _placing(self) -> PlacementState | None:
        if self.placed is not None or len(self.order) < self.space.sums.count:
            return self.placed
        return self.space.placements_of(self.order).start()
