"""Spaces as a user would write them, with the corners that a data frame has to show."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from kilotune.search.flat_state import FlatState
from kilotune.search.space import Assignment, Constraint, Decision, Measurement, Objective, Option


@dataclass(frozen=True)
class Mixed:
    """Decisions of every type; a metric with the name of a decision; one candidate that fails, one metric that is not always there."""

    sleep_s: float = 0.0
    name: str = "mixed"
    objectives: tuple[Objective, ...] = (Objective("cost"), Objective("count"))
    constraints: tuple[Constraint, ...] = (Constraint("weight", 6),)

    @property
    def fingerprint(self) -> str:
        return "mixed"

    @property
    def decisions(self) -> tuple[Decision, ...]:
        return (
            Decision("count", (1, 2, 3)),
            Decision("share", (0.5, 0.25)),
            Decision("kind", ("<b>a</b>", "b")),
            Decision("flag", (True, False)),
            Decision("number", (1, "many")),
        )

    def start(self) -> FlatState:
        return FlatState(self.decisions, -1e9)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        time.sleep(self.sleep_s * len(batch))
        return [self._measured(candidate) for candidate in batch]

    def _measured(self, candidate: Assignment) -> Measurement:
        count, share = int(candidate["count"]), float(candidate["share"])
        if count == 3 and candidate["flag"]:
            return Measurement(failure="three flags <script>")
        cost = count * share + (candidate["kind"] == "b") + (candidate["number"] == "many")
        metrics = {"cost": cost, "count": float(count), "weight": 2.0 * count + 4 * (candidate["kind"] == "b")}
        return Measurement(metrics if candidate["flag"] else {**metrics, "spare": 1.0})


@dataclass(frozen=True)
class BranchState:
    """A question, and another that depends on its answer."""

    answers: tuple[tuple[str, Option], ...] = ()

    @property
    def decision(self) -> Decision | None:
        if not self.answers:
            return Decision("way", ("integers", "flags"))
        if len(self.answers) > 1:
            return None
        return Decision("size", (4, 8)) if self.answers[0][1] == "integers" else Decision("on", (True, False))

    @property
    def assignment(self) -> Assignment:
        return dict(self.answers)

    def take(self, option: Option) -> BranchState:
        assert self.decision is not None
        return BranchState((*self.answers, (self.decision.name, option)))

    def bound(self) -> float:
        return 0.0


@dataclass(frozen=True)
class Branch:
    """Four candidates in a tree."""

    name: str = "branch"
    objectives: tuple[Objective, ...] = (Objective("value"),)
    constraints: tuple[Constraint, ...] = ()
    fingerprint: str = "branch"

    def start(self) -> BranchState:
        return BranchState()

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        return [Measurement({"value": float(int(c.get("size", 1))) + bool(c.get("on"))}) for c in batch]


@dataclass(frozen=True)
class Hopeless(Branch):
    """Nothing can be measured."""

    name: str = "hopeless"

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        return [Measurement(failure="no") for _ in batch]
