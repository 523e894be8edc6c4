"""Depth-first branch and bound over the states of a space (Land and Doig 1960, in its depth-first form)."""

from __future__ import annotations

import math
import time

from kilotune.search.candidates import complete
from kilotune.search.front import Rank, Ranking
from kilotune.search.space import Assignment, HasExactSearch, Space, State, Trial
from kilotune.search.strategy import UNKNOWN_BOUND, Outcome, Steps

FULL_BATCH = 64
NODES_PER_LOOK = 256  # nodes visited without a leaf before the engine may look at its clock
HOPELESS_KEPT = 64

_Node = tuple[float, State]
"""A bound that holds for all completions, and the state."""


class ExhaustiveSearch:
    """Visits every candidate that the bounds do not rule out, most promising branches first.

    What it proves is the lexicographic optimum: a subtree whose bound equals the incumbent's loss can still break a
    tie by a later objective, so it is only cut when there is a single objective.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self.bound = UNKNOWN_BOUND
        self._space = space
        self._ranking = Ranking.of(space)
        self._best: Rank = (math.inf,) * (1 + len(space.objectives))
        self._hopeless: list[State] = []
        self._seed = seed
        self._deadline_s = math.inf  # of the monotonic clock

    def allow(self, seconds: float) -> None:
        """Only the space's own search needs to know."""
        self._deadline_s = time.monotonic() + seconds

    def steps(self) -> Steps:
        if isinstance(self._space, HasExactSearch):
            return (yield from self._by_the_space(self._space))
        return (yield from self._by_states())

    def _by_the_space(self, space: HasExactSearch) -> Steps:
        for step in space.exact_search(self._seed, lambda: self._deadline_s - time.monotonic()):
            self.bound = max(self.bound, step.bound)
            yield [] if step.candidate is None else [step.candidate]
            if step.complete:
                return Outcome.PROVED
        return Outcome.FINISHED

    def _by_states(self) -> Steps:
        stack: list[_Node] = [(self._space.start().bound(), self._space.start())]
        leaves: list[Assignment] = []
        leaf_bound = math.inf
        batch_size, visited = 1, 0
        while stack:
            visited += 1
            bound, state = stack.pop()
            if self._is_cut(bound):
                self._keep_hopeless(bound, state)
            elif (decision := state.decision) is None:
                leaves.append(state.assignment)
                leaf_bound = min(leaf_bound, bound)
            else:
                children = [state.take(option) for option in decision.options]
                nodes = [(max(bound, child.bound()), child) for child in children]
                nodes.sort(key=lambda node: node[0])  # stable: equal bounds keep the space's order of options
                stack.extend(reversed(nodes))
            if len(leaves) >= batch_size:
                self._tighten(stack, leaf_bound)
                self._learn((yield leaves))
                # One leaf first, for an incumbent; then ever larger batches, for parallel workers.
                leaves, leaf_bound, batch_size = [], math.inf, min(2 * batch_size, FULL_BATCH)
            elif visited % NODES_PER_LOOK == 0:
                self._tighten(stack, leaf_bound)
                yield []
        if leaves:
            self._learn((yield leaves))
        if self._best[0] > 0.0:
            yield from self._nearest()
        self._tighten([], math.inf)
        return Outcome.PROVED

    def _is_cut(self, bound: float) -> bool:
        if bound == math.inf:
            return True
        if self._best[0] > 0.0:
            return False
        return bound > self._best[1] or (bound == self._best[1] and len(self._best) == 2)

    def _learn(self, trials: list[Trial]) -> None:
        for trial in trials:
            self._best = min(self._best, self._ranking.rank(trial.measurement))

    def _tighten(self, stack: list[_Node], leaf_bound: float) -> None:
        """No candidate beats the best one, or what is still open."""
        incumbent = self._best[1] if self._best[0] == 0.0 else math.inf
        self.bound = max(self.bound, min(incumbent, leaf_bound, min((bound for bound, _ in stack), default=math.inf)))

    def _keep_hopeless(self, bound: float, state: State) -> None:
        if bound == math.inf and len(self._hopeless) < HOPELESS_KEPT:
            self._hopeless.append(state)

    def _nearest(self) -> Steps:
        """Nothing is feasible: measure a few of the branches cut for that, so that a nearest candidate is known."""
        candidates: list[Assignment] = [
            complete(state, lambda decision: decision.options[0])
            for state in self._hopeless
            if state.decision is None or state.decision.options
        ]
        if candidates:
            yield candidates
        return None
