"""A strategy of one's own: random candidates, every second one near the best so far. Installed with an entry point of the group
`kilotune.strategies`, `tune --strategy` knows it; docs/own-strategy.md shows how."""

import math
import random

from kilotune import Ranking
from kilotune.testing import check_strategy, toy_spaces

TRIES = 1000


class NearTheBest:
    """Half of the candidates are random, half differ from the best one in a single decision."""

    needs_flat = True
    bound = -math.inf

    def __init__(self, space, seed):
        if not hasattr(space, "decisions"):
            raise ValueError(f"it needs independent decisions, and the space {space.name} has none")
        self.decisions, self.ranking, self.random = space.decisions, Ranking.of(space), random.Random(seed)

    def steps(self):
        best, seen = None, set()
        while True:
            candidate = self.unseen(best, seen)
            if candidate is None:
                return None  # hardly anything is left; nothing is claimed
            (trial,) = yield [candidate]
            if best is None or self.ranking.rank(trial.measurement) < self.ranking.rank(best.measurement):
                best = trial

    def unseen(self, best, seen):
        for _ in range(TRIES):
            candidate = {d.name: self.random.choice(d.options) for d in self.decisions}
            if best is not None and self.random.random() < 0.5:
                changed = self.random.choice(list(candidate))
                candidate = {**best.assignment, changed: candidate[changed]}
            if tuple(candidate.values()) not in seen:
                seen.add(tuple(candidate.values()))
                return candidate
        return None


if __name__ == "__main__":
    check_strategy(NearTheBest)
    print("on", len(toy_spaces()), "small spaces it is what a strategy should be")
