"""The mapping problem with bits as decisions of its own (`--joint bits`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kilotune.search.space import Assignment, Procedure
from kilotune.spaces.cm.bit_candidates import BitCandidates
from kilotune.spaces.cm.bit_search import bits_annealing
from kilotune.spaces.cm.bit_state import BitsState


class BitsSpace(BitCandidates):
    """Fewest ticks per image, or what else the objective names, under a permitted loss."""

    name = "cm"

    def start(self) -> BitsState:
        """Nothing decided."""
        return BitsState(self)

    def procedure(self) -> Procedure:
        """The paper's, of the network with most bits."""
        inner, widest = self.at(self.widest).procedure(), self.widest
        batch = next(inner, None)
        while batch is not None:
            trials = yield [{**widest, **assignment} for assignment in batch]
            try:
                batch = inner.send([replace(trial, assignment=dict(trial.assignment)) for trial in trials])
            except StopIteration:
                batch = None

    def anneal(self, seed: int) -> Iterator[Assignment | None]:
        """Bits and mappings searched together; see `spaces.cm.bit_search`."""
        return bits_annealing(self, seed)
