"""Flat decisions, which do not depend on one another: the state of their first answers, and a view of a tree through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kilotune.search.space import Assignment, Constraint, Decision, Measurement, Objective, Option, Space, answered


@dataclass(frozen=True)
class FlatState:
    """`least_loss`: of the first objective; no candidate has less. A function of the answers so far knows more as they become
    more; +inf where none of the rest makes a feasible candidate."""

    decisions: tuple[Decision, ...]
    least_loss: float | Callable[[Assignment], float]
    assignment: Assignment = field(default_factory=dict)
    """The answers so far."""

    @property
    def decision(self) -> Decision | None:
        """The next one."""
        answers = len(self.assignment)
        return self.decisions[answers] if answers < len(self.decisions) else None

    def take(self, option: Option) -> FlatState:
        """Answer the next one. ValueError when it is not one of the options."""
        decision = answered(self.decision, option)
        return FlatState(self.decisions, self.least_loss, {**self.assignment, decision.name: option})

    def bound(self) -> float:
        """A loss of the first objective that no completion beats: `least_loss`, which is one number for every state or a function of
        the answers so far."""
        return self.least_loss(self.assignment) if callable(self.least_loss) else self.least_loss


@dataclass(frozen=True)
class FlatView:
    """Some candidates of `space`, by independent decisions: what `HasFlatView.flat_view` returns.

    `space.evaluate` measures them. `least_loss`: a loss of the first objective that none of them can beat.
    """

    space: Space
    decisions: tuple[Decision, ...]
    least_loss: float

    @property
    def name(self) -> str:
        """The name of the space viewed."""
        return self.space.name

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """The objectives of the space viewed."""
        return self.space.objectives

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints of the space viewed."""
        return self.space.constraints

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the space viewed: it is the same problem."""
        return self.space.fingerprint

    def start(self) -> FlatState:
        """Nothing decided."""
        return FlatState(self.decisions, self.least_loss)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """Measure candidates of the view, in order, in the space viewed."""
        return self.space.evaluate(batch)
