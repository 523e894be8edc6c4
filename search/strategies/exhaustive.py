"""Depth-first branch and bound over the states of a space (Land and Doig 1960, in its depth-first form)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Sequence

from kilotune.search.candidates import complete
from kilotune.search.front import Rank, Ranking
from kilotune.search.own_strategies import Needs, OwnStrategy
from kilotune.search.space import Assignment, Clock, HasExactSearch, Space, State, Trial
from kilotune.search.strategy import UNKNOWN_BOUND, Outcome, Steps
from kilotune.search.work_memory import GoesOnSearching

FULL_BATCH = 64
LARGEST_BATCH, MEASURED_PER_LEAF = 512, 16
"""Batches grow on where very much is measured, which is then quick; what is learnt a batch too late costs a sixteenth at most."""

NODES_PER_LOOK = 256  # nodes visited without a leaf before the engine may look at its clock
HOPELESS_KEPT = 64

_Node = tuple[float, State]
"""A bound that holds for all completions, and the state."""


class ExhaustiveSearch:
    """Visits every candidate that the bounds do not rule out, most promising branches first.

    What it proves is the lexicographic optimum: a subtree whose bound equals the incumbent's loss can still break a
    tie by a later objective, so it is only cut when there is a single objective. Such subtrees come last: by then the first
    objective is proved.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self.bound = UNKNOWN_BOUND
        self._space = space
        self._ranking = Ranking.of(space)
        self._best: Rank = (math.inf,) * (1 + len(space.objectives))
        self._hopeless: list[State] = []
        self._batch_size, self._measured = 1, 0
        self._seed = seed
        self._clock: Clock = time.monotonic
        self._deadline_s = math.inf
        self._before: Callable[[], Sequence[Trial]] | None = None  # of earlier runs

    def allow(self, seconds: float) -> None:
        """Only the space's own search needs to know."""
        self._deadline_s = self._clock() + seconds

    def count_by(self, clock: Clock) -> None:
        self._clock = clock

    def go_on(self, trials: Callable[[], Sequence[Trial]]) -> None:
        """The space's own search may be able to."""
        self._before = trials

    def steps(self) -> Steps:
        if isinstance(self._space, HasExactSearch):
            return (yield from self._by_the_space(self._space))
        return (yield from self._by_states())

    def _by_the_space(self, space: HasExactSearch) -> Steps:
        steps = None
        if self._before is not None and isinstance(space, GoesOnSearching):
            before = self._before()
            steps = space.exact_search_after(before, self._seed, self._seconds_left)
            if steps is not None:
                yield [trial.assignment for trial in before]
        for step in steps or space.exact_search(self._seed, self._seconds_left):
            self.bound = max(self.bound, step.bound)
            yield [] if step.candidate is None else [step.candidate]
            if step.complete:
                return Outcome.PROVED
        return Outcome.FINISHED

    def _seconds_left(self) -> float:
        return self._deadline_s - self._clock()

    def _by_states(self) -> Steps:
        root: _Node = (self._space.start().bound(), self._space.start())
        ties: list[_Node] = []
        yield from self._visit([root], ties)
        # Now nothing can beat the best one in the first objective, and the engine knows; what is left can break ties.
        yield from self._visit(ties, None)
        if self._best[0] > 0.0:
            yield from self._nearest()
        self._tighten([], math.inf)
        return Outcome.PROVED

    def _visit(self, stack: list[_Node], ties: list[_Node] | None) -> Generator[list[Assignment], list[Trial], None]:
        """Depth first through all below `stack`; what can only tie with the best one in the first objective is put aside in
        `ties`, where that is a list."""
        leaves: list[Assignment] = []
        leaf_bound = math.inf
        visited = 0
        while stack:
            visited += 1
            bound, state = stack.pop()
            if self._is_cut(bound):
                self._keep_hopeless(bound, state)
            elif ties is not None and self._only_ties(bound):
                ties.append((bound, state))
            elif (decision := state.decision) is None:
                leaves.append(state.assignment)
                leaf_bound = min(leaf_bound, bound)
            else:
                children = [state.take(option) for option in decision.options]
                nodes = [(max(bound, child.bound()), child) for child in children]
                nodes.sort(key=lambda node: node[0])  # stable: equal bounds keep the space's order of options
                stack.extend(reversed(nodes))
            if len(leaves) >= self._batch_size:
                self._tighten(stack, leaf_bound)
                self._learn((yield leaves))
                leaves, leaf_bound = [], math.inf
            elif visited % NODES_PER_LOOK == 0:
                self._tighten(stack, leaf_bound)
                yield []
        if leaves:
            self._learn((yield leaves))
        self._tighten([], math.inf)

    def _only_ties(self, bound: float) -> bool:
        """Whether no completion is better than the best one in the first objective."""
        return self._best[0] == 0.0 and bound >= self._best[1]

    def _is_cut(self, bound: float) -> bool:
        if bound == math.inf:
            return True
        if self._best[0] > 0.0:
            return False
        return bound > self._best[1] or (bound == self._best[1] and len(self._best) == 2)

    def _learn(self, trials: list[Trial]) -> None:
        for trial in trials:
            self._best = min(self._best, self._ranking.rank(trial.measurement))
        self._measured += len(trials)
        # One leaf first, for an incumbent; then ever larger batches, for parallel workers.
        most = min(max(FULL_BATCH, self._measured // MEASURED_PER_LEAF), LARGEST_BATCH)
        self._batch_size = min(2 * self._batch_size, most)

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


STRATEGY = OwnStrategy(
    "ExhaustiveSearch", Needs.WHOLE, "depth-first branch and bound; proves the optimum when it ends", rank=0
)
