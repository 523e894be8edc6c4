"""The state of a flat space: the first answers to decisions that do not depend on one another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kilotune.search.space import Assignment, Decision, Option


@dataclass(frozen=True)
class FlatState:
    """`least_loss`: of the first objective; no candidate has less. A function of the answers so far knows more as they become
    more; +inf where none of the rest makes a feasible candidate."""

    decisions: tuple[Decision, ...]
    least_loss: float | Callable[[Assignment], float]
    chosen: tuple[Option, ...] = ()

    @property
    def decision(self) -> Decision | None:
        """The next one."""
        return self.decisions[len(self.chosen)] if len(self.chosen) < len(self.decisions) else None

    @property
    def assignment(self) -> Assignment:
        """The answers so far."""
        return {d.name: option for d, option in zip(self.decisions, self.chosen, strict=False)}

    def take(self, option: Option) -> FlatState:
        """Answer the next one. ValueError when it is not one of the options."""
        if self.decision is None or option not in self.decision.options:
            raise ValueError(f"{option!r} is no option of {self.decision.name if self.decision else 'a candidate'}.")
        return FlatState(self.decisions, self.least_loss, (*self.chosen, option))

    def bound(self) -> float:
        """The same for every state, unless it is a function."""
        return self.least_loss(self.assignment) if callable(self.least_loss) else self.least_loss
