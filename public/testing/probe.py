"""A space under test, with some of its walks: all of them where there are few."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from kilotune.search.front import Ranking
from kilotune.search.space import Assignment, Measurement, Option, Space, State
from kilotune.testing.conformance_error import ConformanceError

LONGEST_WALK = 100_000
"""Decisions after which a walk is taken for one that never ends."""

StatePath = tuple[State, ...]
"""States from the start to a complete assignment."""


@dataclass(frozen=True)
class Probe:
    """`samples` random walks of `space` from `seed`, or all where there are no more than `most`."""

    space: Space
    samples: int
    most: int
    seed: int

    @property
    def subject(self) -> str:
        """The space, for messages."""
        return f"The space {type(self.space).__name__}"

    def error(self, check: str, *, expected: str, found: str, candidate: Assignment | None = None) -> ConformanceError:
        """What is raised when `check` fails."""
        return ConformanceError(check, self.subject, expected=expected, found=found, candidate=candidate)

    @cached_property
    def enumerated(self) -> tuple[StatePath, ...] | None:
        """Every walk, depth first; None when there are more than `most`."""
        found = tuple(itertools.islice(self._all_walks(), self.most + 1))
        return found if len(found) <= self.most else None

    @cached_property
    def walks(self) -> tuple[StatePath, ...]:
        """All walks, or the one of the first options and random ones."""
        if self.enumerated is not None:
            return self.enumerated
        rng = random.Random(self.seed)
        drawn = [self.walk(lambda options: rng.choice(options)) for _ in range(self.samples)]
        return (self.walk(lambda options: options[0]), *drawn)

    @cached_property
    def candidates(self) -> tuple[dict[str, Option], ...]:
        """The complete assignments at the end of the walks, each once."""
        unique = {tuple(walk[-1].assignment.items()): dict(walk[-1].assignment) for walk in self.walks}
        return tuple(unique.values())

    @cached_property
    def measured(self) -> tuple[Measurement, ...]:
        """What the candidates measure, in one batch."""
        found = self.evaluate(list(self.candidates))
        if not isinstance(found, Sequence) or len(found) != len(self.candidates):
            length = len(found) if isinstance(found, Sequence) else type(found).__name__
            raise self.error(
                "measurement", expected=f"{len(self.candidates)} measurements of as many", found=str(length)
            )
        return tuple(found)

    def evaluate(self, batch: Sequence[Assignment], space: Space | None = None) -> list[Measurement]:
        """What the candidates measure in the space, or in another `space` that is a view of it. ConformanceError where `evaluate`
        raises, at the first candidate that it raises for alone."""
        measured = self.space if space is None else space
        try:
            return measured.evaluate(batch)
        except Exception as error:
            raise self.error(
                "measurement",
                expected="evaluate() to give what cannot be measured as Measurement(failure=...)",
                found=f"that evaluate() raised {_in_a_line(error)}",
                candidate=_first_that_raises(measured, batch),
            ) from error

    @cached_property
    def feasible_losses(self) -> dict[tuple[tuple[str, Option], ...], float]:
        """Losses of the first objective, by the answers of the candidates that keep all constraints."""
        ranking, losses = Ranking.of(self.space), {}
        for candidate, measurement in zip(self.candidates, self.measured, strict=True):
            violation, loss, *_ = ranking.rank(measurement)
            if violation == 0.0:
                losses[tuple(candidate.items())] = loss
        return losses

    def walk(self, choose: Callable[[Sequence[Option]], Option]) -> StatePath:
        """The walk on which `choose` picks one of the options of each decision."""
        states = [self.space.start()]
        while (decision := states[-1].decision) is not None:
            self.check_decision(states[-1])
            states.append(states[-1].take(choose(decision.options)))
            if len(states) > LONGEST_WALK:
                raise self.error("walk", expected=f"an end within {LONGEST_WALK} decisions", found="none")
        return tuple(states)

    def check_decision(self, state: State) -> None:
        """Raise when the state's decision can not be answered."""
        decision, answered = state.decision, state.assignment
        assert decision is not None
        if not decision.options:
            raise self.error(
                "walk", expected=f"options of the decision {decision.name!r}", found="none", candidate=answered
            )
        if decision.name in answered:
            raise self.error(
                "walk",
                expected="each decision once",
                found=f"the decision {decision.name!r} again",
                candidate=answered,
            )

    def _all_walks(self) -> Iterator[StatePath]:
        stack: list[StatePath] = [(self.space.start(),)]
        while stack:
            walk = stack.pop()
            decision = walk[-1].decision
            if decision is None:
                yield walk
                continue
            self.check_decision(walk[-1])
            if len(walk) > LONGEST_WALK:
                raise self.error("walk", expected=f"an end within {LONGEST_WALK} decisions", found="none")
            stack.extend((*walk, walk[-1].take(option)) for option in reversed(decision.options))


def _first_that_raises(space: Space, batch: Sequence[Assignment]) -> Assignment | None:
    """The first candidate for which `evaluate` raises when it is alone in the batch; None when there is none."""
    for candidate in batch:
        try:
            space.evaluate([candidate])
        except Exception:
            return candidate
    return None


def _in_a_line(error: Exception) -> str:
    """The class of an error and what it says."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": .")
