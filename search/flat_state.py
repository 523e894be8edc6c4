"""The state of a flat space: the first answers to decisions that do not depend on one another."""

from __future__ import annotations

from dataclasses import dataclass

from kilotune.search.space import Assignment, Decision, Option


@dataclass(frozen=True)
class FlatState:
    """`least_loss`: of the first objective; no candidate has less, whatever is answered."""

    decisions: tuple[Decision, ...]
    least_loss: float
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
        """The same for every state."""
        return self.least_loss
