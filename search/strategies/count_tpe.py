"""A tree-structured Parzen estimator for categorical decisions, in count tables and whole batches.

Bergstra et al. 2011, "Algorithms for hyper-parameter optimization": candidates are drawn from the density l of the
good trials and kept where l / g is largest, g being the density of the others. With categorical decisions that are
taken as independent, both densities are tables of counts, so that a batch costs a few array operations however long
the study is.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kilotune.search.candidates import complete, first_candidate, random_candidate
from kilotune.search.encoding import encoding_of
from kilotune.search.front import Rank, Ranking
from kilotune.search.key_table import KeyTable
from kilotune.search.own_strategies import Needs, OwnStrategy
from kilotune.search.space import Assignment, Decision, FlatSpace, Option, Space, Trial
from kilotune.search.strategy import UNKNOWN_BOUND, Outcome, Steps, batch_generator

START = 16  # random candidates before the first model
BATCH = 64
FIRST_BATCHES = 16  # while a study is short, a model that is 64 trials old is an old one
DRAWS_PER_PROPOSAL = 24
GOOD_SHARE = 0.1
MOST_GOOD = 48
PRIOR = 1.0
BATCHES_UNTIL_STALLED = 50

DrawnCandidate = tuple[float, dict[str, Option]]


class CountSearch:
    """Good are the best GOOD_SHARE of the trials by (violation, losses...), at most MOST_GOOD of them."""

    bound = UNKNOWN_BOUND

    def __init__(self, space: Space, seed: int) -> None:
        self._space, self._seed = space, seed
        self._ranking = Ranking.of(space)
        self._tables: FlatTables | TreeTables = FlatTables(space) if isinstance(space, FlatSpace) else TreeTables(space)
        self._encode = encoding_of(space).key
        self._seen = KeyTable()
        self._good: list[tuple[Rank, int, Assignment]] = []  # ascending

    def steps(self) -> Steps:
        rng = batch_generator(self._seed, 0)
        self._learn((yield self._unseen([first_candidate(self._space)], START)))
        self._learn((yield self._unseen([random_candidate(self._space, rng) for _ in range(4 * START)], START)))
        stalled = 0
        while stalled < BATCHES_UNTIL_STALLED:
            rng = batch_generator(self._seed, len(self._seen) + stalled)
            size = BATCH if len(self._seen) >= 8 * BATCH else FIRST_BATCHES
            count = max(1, min(MOST_GOOD, round(GOOD_SHARE * len(self._seen))))
            drawn = self._tables.draw([a for _, _, a in self._good[:count]], size, rng)
            batch = self._unseen(drawn, size)
            if len(batch) < size:  # the model has settled on what is known: fill up around it
                batch += self._unseen([random_candidate(self._space, rng) for _ in range(size)], size - len(batch))
            stalled = 0 if batch else stalled + 1
            self._learn((yield batch))
        return Outcome.STALLED

    def _unseen(self, candidates: Sequence[Assignment], most: int) -> list[Assignment]:
        unseen: list[Assignment] = []
        for candidate in candidates:
            key = self._encode(candidate)
            if key not in self._seen and len(unseen) < most:
                self._seen.put(key)
                unseen.append(candidate)
        return unseen

    def _learn(self, trials: Sequence[Trial]) -> None:
        for trial in trials:
            entry = (self._ranking.rank(trial.measurement), trial.number, trial.assignment)
            if len(self._good) < MOST_GOOD or entry[:2] < self._good[-1][:2]:
                insort(self._good, entry, key=lambda good: good[:2])
                del self._good[MOST_GOOD:]
            self._tables.count(trial.assignment)


class FlatTables:
    """Counts of shape (decisions, most options), for spaces whose decisions do not depend on one another."""

    def __init__(self, space: FlatSpace) -> None:
        self._decisions = space.decisions
        self._index = [{option: i for i, option in enumerate(d.options)} for d in space.decisions]
        widths = np.array([len(d.options) for d in space.decisions])
        self._real = np.arange(widths.max(initial=1)) < widths[:, None]
        self._all = np.zeros(self._real.shape)
        self._rows = np.arange(len(widths))

    def count(self, candidate: Assignment) -> None:
        """Add a trial to the table of all."""
        self._all[self._rows, self._indices(candidate)] += 1.0

    def draw(self, good: Sequence[Assignment], size: int, rng: np.random.Generator) -> list[dict[str, Option]]:
        """2 `size` candidates from the good trials' density, those of the largest l / g first."""
        counts = np.zeros_like(self._all)
        for candidate in good:
            counts[self._rows, self._indices(candidate)] += 1.0
        likely = self._density(counts)
        log_ratio = np.log(likely, where=self._real, out=np.zeros_like(likely))
        other = self._density(self._all - counts)
        log_ratio -= np.log(other, where=self._real, out=np.zeros_like(other))
        cumulative = np.cumsum(likely, axis=1)[None]
        uniform = rng.random((size * DRAWS_PER_PROPOSAL, len(self._rows), 1))
        drawn = np.minimum((uniform > cumulative).sum(axis=2), self._real.sum(axis=1) - 1)
        scores = log_ratio[self._rows, drawn].sum(axis=1)
        # The best of each group of draws, as one Parzen estimator per proposal would; then the runners-up.
        order = np.argsort(-scores.reshape(size, DRAWS_PER_PROPOSAL), axis=1, kind="stable")[:, :2]
        picked = (order + np.arange(size)[:, None] * DRAWS_PER_PROPOSAL).T.ravel()
        return [
            {d.name: d.options[i] for d, i in zip(self._decisions, row, strict=True)} for row in drawn[picked].tolist()
        ]

    def _density(self, counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        weights = np.where(self._real, counts + PRIOR / self._real.sum(axis=1, keepdims=True), 0.0)
        total: npt.NDArray[np.float64] = weights.sum(axis=1, keepdims=True)
        return weights / total

    def _indices(self, candidate: Assignment) -> list[int]:
        return [table[candidate[d.name]] for d, table in zip(self._decisions, self._index, strict=True)]


class TreeTables:
    """Counts of chosen options by (decision, option), for spaces where an answer decides what is asked next."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._all: dict[tuple[str, Option], float] = {}

    def count(self, candidate: Assignment) -> None:
        """Add a trial to the table of all."""
        for answer in candidate.items():
            self._all[answer] = self._all.get(answer, 0.0) + 1.0

    def draw(self, good: Sequence[Assignment], size: int, rng: np.random.Generator) -> list[dict[str, Option]]:
        """As `FlatTables.draw`, walking down the states; fewer draws, for each is a walk."""
        counts: dict[tuple[str, Option], float] = {}
        for candidate in good:
            for answer in candidate.items():
                counts[answer] = counts.get(answer, 0.0) + 1.0
        walks = sorted((self._walk(counts, rng) for _ in range(4 * size)), key=lambda walk: -walk[0])
        return [candidate for _, candidate in walks]

    def _walk(self, counts: Mapping[tuple[str, Option], float], rng: np.random.Generator) -> DrawnCandidate:
        """A candidate, and its mean log(l / g) over the decisions that it meets."""
        score = 0.0

        def choose(decision: Decision) -> Option:
            nonlocal score
            answers = [(decision.name, option) for option in decision.options]
            prior = PRIOR / len(answers)
            likely = np.array([counts.get(answer, 0.0) + prior for answer in answers])
            other = np.array([self._all.get(answer, 0.0) - counts.get(answer, 0.0) + prior for answer in answers])
            i = int(np.searchsorted(np.cumsum(likely), rng.random() * likely.sum(), side="right"))
            i = min(i, len(answers) - 1)
            score += float(np.log(likely[i] / likely.sum()) - np.log(other[i] / other.sum()))
            return decision.options[i]

        candidate = complete(self._space.start(), choose)
        return score / max(1, len(candidate)), candidate


STRATEGY = OwnStrategy(
    "CountSearch", Needs.FLAT, "TPE over count tables, for evaluations that take less time than Optuna does", rank=50
)
