"""Small spaces with known answers, for the tests of the search floor."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from kilotune.search.fingerprint import fingerprint
from kilotune.search.space import Assignment, Constraint, Decision, Direction, Measurement, Objective, Option


@dataclass(frozen=True)
class FlatState:
    """The first so many decisions answered."""

    space: FlatProblem
    answers: tuple[Option, ...] = ()

    @property
    def decision(self) -> Decision | None:
        decisions = self.space.decisions
        return decisions[len(self.answers)] if len(self.answers) < len(decisions) else None

    @property
    def assignment(self) -> Assignment:
        return {d.name: o for d, o in zip(self.space.decisions, self.answers, strict=False)}

    def take(self, option: Option) -> FlatState:
        if self.decision is None or option not in self.decision.options:
            raise ValueError(f"{option!r} is not an option")
        return FlatState(self.space, (*self.answers, option))

    def bound(self) -> float:
        return self.space.bound_of(self.assignment)


@dataclass(frozen=True)
class FlatProblem:
    """Categorical decisions; loss = a table per decision + tables for some pairs, both drawn from `seed`.

    Metrics: `loss`, `cost` (a second additive table), `weight` (a third, all positive).
    """

    count: int
    options: int
    seed: int
    pairs: int = 0
    levels: int | None = None  # losses are multiples of 1 / levels, so that there are ties
    objectives: tuple[Objective, ...] = (Objective("loss"),)
    constraints: tuple[Constraint, ...] = ()
    bounded: bool = False
    slack: float = 0.0  # how far below the exact relaxation the bounds lie, at random
    sleep_s: float = 0.0
    name: str = "flat"

    @property
    def fingerprint(self) -> str:
        return repr(replace(self, sleep_s=0.0))

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        return tuple(Decision(f"d{i}", tuple(range(10, 10 + self.options))) for i in range(self.count))

    @cached_property
    def tables(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[tuple[int, int, np.ndarray]]]:
        rng = np.random.default_rng(self.seed)
        single, cost = rng.normal(size=(2, self.count, self.options))
        weight = rng.uniform(1, 10, size=(self.count, self.options))
        pairs = []
        for _ in range(self.pairs):
            i, j = rng.choice(self.count, size=2, replace=False)
            pairs.append((int(i), int(j), rng.normal(size=(self.options, self.options))))
        if self.levels:
            single = np.round(single * self.levels) / self.levels
            cost = np.round(cost * self.levels) / self.levels
            pairs = [(i, j, np.round(table * self.levels) / self.levels) for i, j, table in pairs]
        return single, cost, weight, pairs

    def start(self) -> FlatState:
        return FlatState(self)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        if self.sleep_s:
            time.sleep(self.sleep_s * len(batch))
        single, cost, weight, pairs = self.tables
        x = np.array([[c[d.name] for d in self.decisions] for c in batch]) - 10
        rows = np.arange(self.count)
        loss, second, third = (table[rows, x].sum(axis=1) for table in (single, cost, weight))
        for i, j, table in pairs:
            loss = loss + table[x[:, i], x[:, j]]
        measured = zip(loss.tolist(), second.tolist(), third.tolist(), strict=True)
        # Rounded, for the order in which NumPy adds up depends on the shape of the batch.
        return [Measurement({"loss": round(a, 9), "cost": round(b, 9), "weight": round(c, 9)}) for a, b, c in measured]

    def bound_of(self, answers: Mapping[str, Option]) -> float:
        if not self.bounded:
            return -math.inf
        single, _, _, pairs = self.tables
        known = [int(answers[d.name]) - 10 if d.name in answers else None for d in self.decisions]
        total = sum(float(row.min() if k is None else row[k]) for row, k in zip(single, known, strict=True))
        for i, j, table in pairs:
            rows = table if known[i] is None else table[known[i]][None]
            total += float((rows if known[j] is None else rows[:, known[j]]).min())
        rng = np.random.default_rng([self.seed, *[k for k in known if k is not None]])
        # Open answers leave rounding errors; a complete one is exact up to the order of the sum.
        return total - 1e-8 - self.slack * float(rng.random()) * (len(answers) < self.count)


@dataclass(frozen=True)
class TreeState:
    """A path in a tree where the number and the options of the decisions depend on the answers."""

    space: TreeProblem
    path: tuple[tuple[str, Option], ...] = ()

    @property
    def decision(self) -> Decision | None:
        return _drawn_decision(self)

    @property
    def assignment(self) -> Assignment:
        return dict(self.path)

    def take(self, option: Option) -> TreeState:
        decision = self.decision
        if decision is None or option not in decision.options:
            raise ValueError(f"{option!r} is not an option")
        return TreeState(self.space, (*self.path, (decision.name, option)))

    def bound(self) -> float:
        return -math.inf


@cache
def _drawn_decision(state: TreeState) -> Decision | None:
    """Drawn once: a search comes by a hundred thousand times, and a generator of its own for each took half of it."""
    depth, space = len(state.path), state.space
    rng = np.random.default_rng([space.seed, *[int(o) for _, o in state.path]])
    if depth >= space.depth or (depth >= 2 and rng.random() < 0.2):
        return None
    count = int(rng.integers(1, space.options + 1))
    options = tuple(int(o) for o in rng.permutation(space.options)[:count])
    return Decision(f"step{depth}", options)


@dataclass(frozen=True)
class TreeProblem:
    """Losses drawn per path, mostly from its beginning."""

    depth: int
    options: int
    seed: int
    objectives: tuple[Objective, ...] = (Objective("gain", Direction.MAXIMIZE),)
    constraints: tuple[Constraint, ...] = ()
    name: str = "tree"

    @property
    def fingerprint(self) -> str:
        return repr(self)

    def start(self) -> TreeState:
        return TreeState(self)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        return [Measurement({"gain": self._gain(tuple(int(o) for o in c.values()))}) for c in batch]

    def _gain(self, path: tuple[int, ...]) -> float:
        draws = [np.random.default_rng([self.seed, 7, *path[: i + 1]]).normal() / (i + 1) for i in range(len(path))]
        return float(sum(draws))


@dataclass(frozen=True)
class Table(FlatProblem):
    """A flat space whose measurements are looked up by candidate, for tests that write them down."""

    measurements: Mapping[tuple[Option, ...], Measurement] = field(default_factory=dict)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        return [self.measurements[tuple(candidate.values())] for candidate in batch]


class KeptTexts:
    """A memory that keeps JSON."""

    keeps = True

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def recalled(self, subject: Sequence[object], work: Callable[[], Any]) -> Any:
        key = fingerprint("test", subject)
        if key not in self.texts:
            self.texts[key] = json.dumps(work())
        return json.loads(self.texts[key])

    def noted(self, subject: Sequence[object]) -> Any:
        return json.loads(self.texts.get(fingerprint("note", subject), "null"))

    def note(self, subject: Sequence[object], standing: Any) -> None:
        self.texts[fingerprint("note", subject)] = json.dumps(standing)
