"""Small changes of a candidate: another answer to one decision, or to a few."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from kilotune.search.candidates import decisions_in_tree, follow_tree
from kilotune.search.space import Assignment, Decision, FlatSpace, Option, Space

Move = tuple[str, Option]
"""Answer this decision with this option."""


class Moves:
    """The neighbourhood of candidates. After a change in a tree, the decisions below keep their answers where these
    are still asked for and still offered, and else take the first option.

    `within`: by decision, the options that changes are to; None: all."""

    def __init__(self, space: Space, within: Mapping[str, Collection[Option]] | None = None) -> None:
        self._space = space
        self._within = within
        self._decisions = space.decisions if isinstance(space, FlatSpace) else None

    def of(self, candidate: Assignment) -> list[Move]:
        """All single-decision changes, in the order of the decisions."""
        return [
            (decision.name, option)
            for decision in self._met(candidate)
            for option in self._offered(decision)
            if option != candidate[decision.name]
        ]

    def apply(self, candidate: Assignment, changes: Mapping[str, Option]) -> dict[str, Option]:
        """The candidate with some decisions answered otherwise."""
        if self._decisions is not None:
            return {**candidate, **changes}
        return follow_tree(self._space, candidate, changes)

    def kick(self, candidate: Assignment, changes: int, rng: np.random.Generator) -> dict[str, Option]:
        """`changes` random decisions answered otherwise, at random."""
        open_decisions = [d for d in self._met(candidate) if len(self._offered(d)) > 1]
        if not open_decisions:
            return dict(candidate)
        chosen = rng.choice(len(open_decisions), size=min(changes, len(open_decisions)), replace=False)
        answers: dict[str, Option] = {}
        for i in chosen:
            others = [o for o in self._offered(open_decisions[i]) if o != candidate[open_decisions[i].name]]
            answers[open_decisions[i].name] = others[int(rng.integers(len(others)))]
        return self.apply(candidate, answers)

    def _met(self, candidate: Assignment) -> tuple[Decision, ...]:
        return decisions_in_tree(self._space, candidate) if self._decisions is None else self._decisions

    def _offered(self, decision: Decision) -> Sequence[Option]:
        if self._within is None:
            return decision.options
        return [option for option in decision.options if option in self._within[decision.name]]
