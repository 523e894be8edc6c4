"""Uniform random candidates, none twice: the honest baseline."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice, product

import numpy as np

from kilotune.search.candidates import count_candidates, random_draw
from kilotune.search.encoding import encoding_of
from kilotune.search.key_table import KeyTable
from kilotune.search.own_strategies import Needs, OwnStrategy
from kilotune.search.space import Assignment, FlatSpace, Option, Space, State
from kilotune.search.strategy import UNKNOWN_BOUND, Outcome, Steps, batch_generator

BATCH = 64
BATCH_IN_TREE = 4  # a walk through states can take long, and the engine looks at its clock between batches
ENUMERABLE = 1 << 16  # up to so many candidates are shuffled, more are drawn
DRAWS_PER_CANDIDATE = 200
LONGEST_PROPOSAL_S = 0.2


class RandomSearch:
    """Shuffles a small space and draws from a large one."""

    bound = UNKNOWN_BOUND

    def __init__(self, space: Space, seed: int) -> None:
        self._space, self._seed = space, seed

    def steps(self) -> Steps:
        size = count_candidates(self._space)
        if size is not None and size <= ENUMERABLE:
            return self._shuffled()
        return self._drawn()

    def _shuffled(self) -> Steps:
        everything = list(all_candidates(self._space))
        order = np.random.default_rng(self._seed).permutation(len(everything))
        for start in range(0, len(everything), BATCH):
            yield [everything[i] for i in order[start : start + BATCH]]
        return Outcome.EXHAUSTED

    def _drawn(self) -> Steps:
        encode, draw = encoding_of(self._space).key, random_draw(self._space)
        size = BATCH if isinstance(self._space, FlatSpace) else BATCH_IN_TREE
        seen = KeyTable()
        while True:
            rng = batch_generator(self._seed, len(seen))
            batch: list[Assignment] = []
            new, begun_s = 0, time.monotonic()
            for _ in range(size * DRAWS_PER_CANDIDATE):
                candidate = draw(rng)
                key = encode(candidate)
                if key not in seen:
                    seen.put(key)
                    batch.append(candidate)
                    new += 1
                    if new == size:
                        break
                    # However the batch is cut up, the candidates are the same.
                    if time.monotonic() - begun_s > LONGEST_PROPOSAL_S:
                        yield batch
                        batch, begun_s = [], time.monotonic()
            if new < size:  # hardly any new ones are left to draw: a small space that does not know its size
                everything = list(islice(all_candidates(self._space), ENUMERABLE + 1))
                batch += [candidate for candidate in everything if encode(candidate) not in seen]
                yield batch
                return Outcome.EXHAUSTED if len(everything) <= ENUMERABLE else Outcome.STALLED
            yield batch


def all_candidates(space: Space) -> Iterator[dict[str, Option]]:
    """Every candidate once, depth first."""
    if isinstance(space, FlatSpace):
        names = [decision.name for decision in space.decisions]
        for answers in product(*(decision.options for decision in space.decisions)):
            yield dict(zip(names, answers, strict=True))
        return
    stack: list[State] = [space.start()]
    while stack:
        state = stack.pop()
        if state.decision is None:
            yield dict(state.assignment)
        else:
            stack.extend(state.take(option) for option in reversed(state.decision.options))


STRATEGY = OwnStrategy("RandomSearch", Needs.ANY, "the honest baseline", rank=90)
