"""Walks through a space that end in a candidate: the first one, a random one, one close to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from kilotune.search.space import Assignment, Decision, FlatSpace, HasSize, Option, Space, State

Chooser = Callable[[Decision], Option]
"""Answers one decision."""


def complete(state: State, choose: Chooser) -> dict[str, Option]:
    """Walk from `state` to a candidate. ValueError when a decision offers no option."""
    while (decision := state.decision) is not None:
        if not decision.options:
            raise ValueError(f"Decision {decision.name!r} offers no option, so no candidate can be completed.")
        state = state.take(choose(decision))
    return dict(state.assignment)


def first_candidate(space: Space) -> dict[str, Option]:
    """The first option (the space's best guess) all the way."""
    return complete(space.start(), lambda decision: decision.options[0])


Draw = Callable[[np.random.Generator], dict[str, Option]]
"""A random candidate."""


def random_draw(space: Space) -> Draw:
    """One option of each decision, uniformly. Asks a flat space for its decisions once, not for every candidate."""
    if not isinstance(space, FlatSpace):
        return lambda rng: complete(space.start(), lambda d: d.options[int(rng.integers(len(d.options)))])
    tables = [(d.name, d.options, len(d.options)) for d in space.decisions]
    return lambda rng: {
        name: options[int(u * count)]
        for (name, options, count), u in zip(tables, rng.random(len(tables)).tolist(), strict=True)
    }


def random_candidate(space: Space, rng: np.random.Generator) -> dict[str, Option]:
    """A single one; see `random_draw`."""
    return random_draw(space)(rng)


def follow(space: Space, answers: Assignment, changes: Mapping[str, Option] | None = None) -> dict[str, Option]:
    """The candidate that answers as `changes` say, else as `answers` say, else by the first option.

    In a tree an answer may be missing or no longer offered after a change above it: then the next of the three counts.
    """
    choose = _answering(answers, changes)
    if isinstance(space, FlatSpace):
        return {decision.name: choose(decision) for decision in space.decisions}
    return complete(space.start(), choose)


def follow_tree(tree: Space, answers: Assignment, changes: Mapping[str, Option]) -> dict[str, Option]:
    """As `follow` does in a space that is not flat, for those who know that it is none: to ask takes longer than a short walk."""
    return complete(tree.start(), _answering(answers, changes))


def _answering(answers: Assignment, changes: Mapping[str, Option] | None) -> Chooser:
    wanted = {**answers, **changes} if changes else answers

    def choose(decision: Decision) -> Option:
        for source in (wanted, answers):
            option = source.get(decision.name)
            if option is not None and option in decision.options:
                return option
        return decision.options[0]

    return choose


def decisions_in_tree(tree: Space, candidate: Assignment) -> tuple[Decision, ...]:
    """The decisions that the walk to `candidate` meets, in order."""
    met: list[Decision] = []
    state = tree.start()
    while (decision := state.decision) is not None:
        met.append(decision)
        state = state.take(candidate[decision.name])
    return tuple(met)


def count_candidates(space: Space) -> int | None:
    """How many candidates there are, where that is known without enumerating them."""
    if isinstance(space, HasSize):
        return space.size()
    if isinstance(space, FlatSpace):
        product = 1
        for decision in space.decisions:
            product *= len(decision.options)
        return product
    return None
