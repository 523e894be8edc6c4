"""Small spaces with known candidates, on which strategies are checked."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from kilotune.search.fingerprint import fingerprint
from kilotune.search.flat_state import FlatState
from kilotune.search.space import Assignment, Constraint, Decision, Direction, Measurement, Objective, Option, Space

LOSS, GAIN = Objective("loss"), Objective("gain", Direction.MAXIMIZE)


@dataclass(frozen=True)
class ToyTable:
    """Independent decisions; metrics are drawn from the answers: `loss` and `gain` in tenths, so that there are ties, and `weight`.
    Every `fails`-th candidate, by its answers, can't be measured."""

    name: str
    options: tuple[int, ...]
    objectives: tuple[Objective, ...] = (LOSS,)
    constraints: tuple[Constraint, ...] = ()
    fails: int = 0

    @property
    def fingerprint(self) -> str:
        """All fields."""
        return fingerprint(self.name, 1, self)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """One for each number of options."""
        return tuple(Decision(f"d{i}", tuple(range(count))) for i, count in enumerate(self.options))

    def start(self) -> FlatState:
        """No bound is known."""
        return FlatState(self.decisions, -math.inf)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """Draw the metrics from the answers alone."""
        return [self._measured(tuple(candidate.values())) for candidate in batch]

    def _measured(self, answers: tuple[Option, ...]) -> Measurement:
        if self.fails and sum(map(int, answers)) % self.fails == 0:
            return Measurement(failure="This toy fails here.")
        rng = random.Random(f"{self.name} {answers}")
        near = sum(abs(int(answer) - 1) for answer in answers)
        loss, gain = round(near + rng.randrange(20) / 10, 1), round(rng.randrange(40) / 10 - near, 1)
        return Measurement({"loss": loss, "gain": gain, "weight": float(sum(map(int, answers)))})


@dataclass(frozen=True)
class ToyPath:
    """A state of `ToyTree`: the answers so far."""

    depth: int
    answers: tuple[int, ...] = ()

    @property
    def decision(self) -> Decision | None:
        """After a 0 there are two options, else three; a path that begins with 2 ends early."""
        length = 2 if self.answers[:1] == (2,) else self.depth
        if len(self.answers) >= length:
            return None
        return Decision(f"step{len(self.answers)}", (0, 1) if self.answers[-1:] == (0,) else (1, 0, 2))

    @property
    def assignment(self) -> Assignment:
        """The answers so far."""
        return {f"step{i}": answer for i, answer in enumerate(self.answers)}

    def take(self, option: Option) -> ToyPath:
        """Answer the decision. ValueError when it is none of its options."""
        if self.decision is None or option not in self.decision.options:
            raise ValueError(f"{option!r} is no option here.")
        return ToyPath(self.depth, (*self.answers, int(option)))

    def bound(self) -> float:
        """The tree's loss is never below 0."""
        return 0.0


@dataclass(frozen=True)
class ToyTree:
    """Decisions that depend on the answers before them. `loss` is drawn from the path."""

    depth: int = 4
    name: str = "toy-tree"
    objectives: tuple[Objective, ...] = (LOSS,)
    constraints: tuple[Constraint, ...] = ()

    @property
    def fingerprint(self) -> str:
        """All fields."""
        return fingerprint(self.name, 1, self)

    def start(self) -> ToyPath:
        """Nothing answered."""
        return ToyPath(self.depth)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """Draw the loss from the path alone."""
        drawn = [random.Random(f"{self.name} {list(candidate.values())}") for candidate in batch]
        return [Measurement({"loss": rng.randrange(1, 50) / 10}) for rng in drawn]


def toy_spaces() -> tuple[Space, ...]:
    """Spaces of at most 32 candidates: with ties, with several objectives, constrained, without any feasible candidate, with
    failures, with one candidate, and a tree."""
    return (
        ToyTable("toy-ties", (3, 3, 3)),
        ToyTable("toy-objectives", (3, 2, 3), objectives=(GAIN, LOSS)),
        ToyTable("toy-constrained", (4, 2, 4), constraints=(Constraint("weight", 4, at_least=True),)),
        ToyTable("toy-infeasible", (3, 3), constraints=(Constraint("weight", -1),)),
        ToyTable("toy-failing", (3, 3, 3), fails=2),
        ToyTable("toy-single", (1, 1)),
        ToyTree(3),
    )
