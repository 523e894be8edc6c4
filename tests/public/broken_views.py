"""Spaces with a flat view of themselves: `GoodView`, and such that each break one rule of the conformance kit."""

from __future__ import annotations

from dataclasses import dataclass

from kilotune.search.flat_state import FlatView
from kilotune.search.space import Assignment, Decision, Measurement, Option
from kilotune.testing.toy_spaces import ToyTable, ToyTree


@dataclass(frozen=True)
class OtherView(ToyTree):
    """Its view measures otherwise."""

    prefers_flat = False

    def flat_view(self) -> ToyTable:
        return ToyTable("other", (1, 1))


@dataclass(frozen=True)
class GoodView(ToyTree):
    prefers_flat = False

    def in_order(self, answers: Assignment) -> dict[str, Option]:
        return {name: answers[name] for name in sorted(answers)}

    def flat_view(self) -> FlatView:
        return FlatView(self, tuple(Decision(f"step{i}", (1,)) for i in range(self.depth)), 0.0)


@dataclass(frozen=True)
class ViewsElsewhere(GoodView):
    """The view of a candidate does not offer its answers."""

    def flat_view_of(self, candidate: Assignment) -> FlatView:
        return FlatView(self, tuple(Decision(name, (3 - int(answer),)) for name, answer in candidate.items()), 0.0)


@dataclass(frozen=True)
class FinishesAstray(GoodView):
    """What it finishes answers a decision that nobody asks."""

    def in_order(self, answers: Assignment) -> dict[str, Option]:
        return {name: answers[name] for name in sorted(answers) if name != "finished"}

    def finished(self, candidate: Assignment, measurement: Measurement) -> Assignment | None:
        return {**candidate, "finished": 1}
