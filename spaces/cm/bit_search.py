"""Bits and mappings searched together: a walk over bits, ranked by what no mapping of their network beats, and annealing inside.

From most bits downwards: the decision goes on to fewer bits with which the accelerator is asked for least, as long as no more is lost than
may be; then from there two decisions at a time get more bits back at random, and others fewer for them. What the accelerator is asked for
is the bound of the leading objective and, as a bound changes only with the layer that sets it, half as much the work of all cores and
links. Each network that is the best so far is mapped by `joint_annealing`, which goes on with it while other bits are tried.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.cm.mapping import Mapping as CoreMapping
from kilotune.search.space import Assignment, Option
from kilotune.spaces.cm.bit_candidates import ACCURACY, NOISY_ERROR, BitCandidates
from kilotune.spaces.cm.joint import joint_annealing
from kilotune.spaces.cm.lowered import least_cores
from kilotune.spaces.cm.space import CmSpace

FIRST_STEPS, BETTER_STEPS, FURTHER_STEPS = 12, 30, 3
"""How long a network is annealed: the first one, one that is better, and the best one after another was tried in vain."""

WALKS_KEPT = 4
WIDENED = 2
FIRST_STRIDE = 2
"""Levels by which a decision goes on at first; one where that loses too much."""

WORK_SHARE = 0.5
"""Weight of all cores' and links' work beside the bound, in logarithms."""

Bits = dict[str, Option]
BitSteps = Generator[Assignment | None, None, Bits]
"""Candidates that are found on the way, and None, to the bits that are come to."""


def bits_annealing(space: BitCandidates, seed: int) -> Iterator[Assignment | None]:
    """Candidates of networks that lose no more than they may, but for the first, with most bits, which may. Without an end."""
    search = _BitSearch(space, seed)
    yield from search.mapped(space.widest, FIRST_STEPS)
    best = yield from search.narrowed(space.widest)
    yield from search.mapped(best, BETTER_STEPS)
    while True:
        other = yield from search.narrowed(search.widened(best))
        if search.rank(other) < search.rank(best):
            best = other
            yield from search.mapped(best, BETTER_STEPS)
        else:
            yield from search.mapped(best, FURTHER_STEPS)


@dataclass(frozen=True, order=True)
class _Rank:
    """How bits compare: by how far they lose more than they may, then by what leads."""

    violation: float
    leading: float
    demand: float


class _BitSearch:
    def __init__(self, space: BitCandidates, seed: int) -> None:
        self._space, self._seed = space, seed
        self._rng = np.random.default_rng(seed)
        self._options = {decision.name: decision.options for decision in space.bit_decisions}
        self._demands: dict[tuple[Option, ...], float] = {}
        self._walks: dict[tuple[Option, ...], Iterator[Assignment | None]] = {}

    def mapped(self, bits: Bits, steps: int) -> Iterator[Assignment | None]:
        """Mappings of the network with these bits, from where its annealing was left."""
        key = tuple(bits.values())
        if key not in self._walks:
            while len(self._walks) >= WALKS_KEPT:
                del self._walks[next(iter(self._walks))]
            self._walks[key] = joint_annealing(self._space.at(bits), self._seed)
        for _ in range(steps):
            found = next(self._walks[key], None)
            yield None if found is None else {**bits, **found}

    def rank(self, bits: Bits, most: float = math.inf) -> _Rank:
        """Smaller is better; bits that no network has are last. Those that lose more than `most` beyond what they may without any noise are
        not tried on noisy cells."""
        try:
            losses = self._space.exact_losses(bits)
            if self._violation(losses) > most:
                return _Rank(self._violation(losses), math.inf, math.inf)
            losses |= self._space.noisy_losses(bits)
        except ValueError:
            return _Rank(math.inf, math.inf, math.inf)
        violation = self._violation(losses)
        demand = self.demand(bits)
        return _Rank(violation, losses[NOISY_ERROR] if self._leads_accuracy else demand, demand)

    def demand(self, bits: Bits) -> float:
        """What the accelerator is asked for: see the module. inf where no network has these bits, or none fits."""
        key = tuple(bits.values())
        found = self._demands.get(key)
        if found is None:
            found = self._demands[key] = self._space.recalled("demand", bits, lambda: self._demand(bits))["demand"]
        return found

    def _demand(self, bits: Bits) -> dict[str, float]:
        try:
            return {"demand": _demand(self._space.outlined(bits))}
        except ValueError:
            return {"demand": math.inf}

    def narrowed(self, bits: Bits) -> BitSteps:
        """Fewer bits for one decision after the other, each time where that asks for least, as long as it loses no more than may be."""
        here, rank = dict(bits), self.rank(bits)
        strides = dict.fromkeys(here, FIRST_STRIDE)
        gains = dict.fromkeys(here, math.inf)  # as they were when last looked at
        while gains:
            yield None  # of a large network each look takes a second
            name = max(gains, key=lambda each: gains[each])
            further = self._narrower(here, name, strides[name])
            if further is None:
                del gains[name]
                continue
            gain = rank.demand - self.demand(further)
            if gain < max((other for each, other in gains.items() if each != name), default=0.0):
                gains[name] = gain
                continue
            found = self.rank(further, rank.violation)
            if found.violation <= rank.violation and found < rank:
                here, rank, gains[name] = further, found, gain
            elif strides[name] > 1:
                strides[name], gains[name] = 1, gain
            else:
                del gains[name]
        return here

    def widened(self, bits: Bits) -> Bits:
        """A few decisions, drawn, with more bits."""
        found = dict(bits)
        names = [name for name, options in self._options.items() if bits[name] != options[0]]
        for name in self._rng.permutation(names)[:WIDENED].tolist():
            options = self._options[name]
            found[name] = options[int(self._rng.integers(options.index(bits[name])))]
        return found

    def _violation(self, losses: Mapping[str, float]) -> float:
        """By how much more is lost than may be, of what has been counted."""
        return sum(c.violation(losses) for c in self._space.constraints if c.metric in losses)

    @property
    def _leads_accuracy(self) -> bool:
        return self._space.question.objective == ACCURACY

    def _narrower(self, bits: Bits, name: str, stride: int) -> Bits | None:
        """So many levels fewer for a decision, or the first one below that asks for less than these bits; None where none does."""
        options, demand = self._options[name], self.demand(bits)
        for place in range(options.index(bits[name]) + stride, len(options)):
            found = {**bits, name: options[place]}
            if self.demand(found) < demand:
                return found
        return None if stride == 1 else self._narrower(bits, name, 1)


def _demand(space: CmSpace) -> float:
    """See `_BitSearch.demand`; in logarithms."""
    once, links = space.lowered({}), space.hardware.links
    work = sum(once.image_ticks) / space.hardware.cores
    work += sum(stream.image_load for stream in once.streams) / sum(link.width for link in links)
    leading: float = space.least_objective
    if space.objective == "energy":
        cores = least_cores(space.costs, {}, space.cores)
        unmapped = CoreMapping(tuple(range(cores)), ((),) * len(once.streams), ())
        leading = sum((space.energy_nj(once, unmapped, space.least_ticks) or {}).values())
    return math.log(max(leading, 1e-9)) + WORK_SHARE * math.log(max(work, 1e-9))
