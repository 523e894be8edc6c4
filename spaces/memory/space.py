"""The placement problem: where each buffer lives in RAM (Shiftry Section 7).

A candidate is one of three things: offsets given buffer by buffer in ascending order (each at the lowest offset above
all that it conflicts with: canonical offsets, which every optimum can be pushed down to), the paper's allocator, or,
as the flat view decides, six weights of a sort key for first fit. All of them are measured by the placement that they
lead to, and every placement goes through the checker.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from kilotune.search.fingerprint import fingerprint
from kilotune.search.flat_state import FlatView
from kilotune.search.space import (
    Assignment,
    CandidateModel,
    Decision,
    ExactStep,
    Option,
    Procedure,
    Trial,
)
from kilotune.spaces.memory.candidates import ALLOCATOR, SHIFTRY, MemoryCandidates
from kilotune.spaces.memory.exact import first_placement, minimise_peak
from kilotune.spaces.memory.orders import FEATURES, is_compiled
from kilotune.spaces.memory.placement_state import PlacementState

MANY_BUFFERS = 2000
WEIGHTS: tuple[int, ...] = (0, 1, 2, 4, -1, -2)
SORT_KEY = tuple(
    Decision(feature, (4, *(w for w in WEIGHTS if w != 4)) if feature == "size" else WEIGHTS) for feature in FEATURES
)
"""The decisions of the flat view: the weights of six features in the key that first fit sorts by."""

SEMANTICS = 1
"""Version of what a placement problem means; part of its fingerprint."""


class MemorySpace(MemoryCandidates):
    """Offsets, buffer by buffer; see the module's text."""

    name = "memory"
    prefers_flat = False  # changes of one offset lead somewhere; samplers are hopeless at them

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the buffers and the capacity."""
        rows = tuple((b.id, b.lower, b.upper, b.size, b.alignment) for b in self.instance.buffers)
        return fingerprint(self.name, SEMANTICS, rows, self.capacity_bytes)

    def start(self) -> PlacementState:
        """Nothing decided."""
        return PlacementState(self)

    def flat_view(self) -> FlatView:
        """Placements by first fit in the order of a weighted sort key."""
        return FlatView(self, SORT_KEY, self.loss_of(self.least_peak_bytes))

    def in_order(self, answers: Assignment) -> dict[str, Option]:
        """The answers of a candidate in the order in which they were asked: the allocator and the numbered buffers, or the
        weights of the sort key."""
        if ALLOCATOR not in answers:
            return {decision.name: answers[decision.name] for decision in SORT_KEY}
        return {name: answers[name] for name in sorted(answers, key=lambda n: 0 if n == ALLOCATOR else int(n))}

    def fallback(self) -> Assignment | None:
        """Where the paper's allocator takes seconds, what the exact search begins with; without a compiler the order by size alone, which
        is placed when it is measured."""
        if len(self.arrays) < MANY_BUFFERS:
            return None
        if not is_compiled():
            return {decision.name: decision.options[0] for decision in SORT_KEY}
        return self.candidate(first_placement(self.arrays))

    def procedure(self) -> Procedure:
        """Algorithms 15-17; without a capacity there is no limit, so nothing migrates."""
        yield [{ALLOCATOR: SHIFTRY}]

    def model(self, trials: Sequence[Trial]) -> CandidateModel:
        """The placement as a CP-SAT model; see `spaces.memory.model`."""
        from kilotune.spaces.memory.model import PlacementModel  # OR-tools takes a second to import

        return PlacementModel(self, trials)

    def exact_search(self, seed: int = 0, seconds_left: Callable[[], float] = lambda: math.inf) -> Iterator[ExactStep]:
        """Branch and bound; see `spaces.memory.exact`."""
        best = None
        for standing in minimise_peak(self.arrays, self.least_peak_bytes, self.capacity_bytes, seed, seconds_left):
            better = best is None or standing.peak_bytes < best
            best = standing.peak_bytes if better else best
            candidate = self.candidate(standing.offsets) if better else None
            yield ExactStep(candidate, self.loss_of(standing.bound_bytes), standing.done)
