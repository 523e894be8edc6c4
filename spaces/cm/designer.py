"""The work on single designs that a search of replications asks for: laying out, annealing, giving room, measuring."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from kilotune.evaluators.cm.bound import core_ticks
from kilotune.search.space import Assignment
from kilotune.spaces.cm.annealing import COLD, COLD_SHARED, HOT, AnnealedPlacement, Annealer
from kilotune.spaces.cm.arrangement import arranged
from kilotune.spaces.cm.baselines import snake_placement
from kilotune.spaces.cm.buffers import ALL_OF_IT, AS_HELD, HELD_IMAGES
from kilotune.spaces.cm.candidates import OBJECTIVES, CmCandidates
from kilotune.spaces.cm.designs import Design
from kilotune.spaces.cm.lowered import LoweredPipeline, cores_needed
from kilotune.spaces.cm.replication import Replication
from kilotune.spaces.cm.room import crowded, roomier, spread_out, too_large
from kilotune.spaces.cm.sharing import balanced
from kilotune.spaces.cm.worked_out import WorkedOut

FIRST_MOVES, LONG_MOVES, REPAIR_MOVES = 150_000, 1_000_000, 50_000
FEW = 10
FAR_FEWER = 0.5
"""A design that promises at most this share of the best ticks, and takes all cores but `FEW_CORES`, is measured before others are."""

FEW_CORES = 0.01
SIMULATED_IMAGES = 24
MOVED_STAGES = 1.3  # a move
WITHIN_REACH = 1.3
"""Where annealing aims at first, by how many times the ticks of the busiest core or the thickest stream. At that pace itself, which few
placements come near to, the least change of a busy link is many temperatures."""

MUCH_FEWER = 0.9
LOOSE = 1.01
"""By how many times as much as the busiest shared core, when all are filled evenly, one may do when stages are laid out."""

LOOKED_AT = 3
"""The best design, the one that is annealed, and the one that it was before."""

SHOWN_BUFFERS = 2
"""The first options of `BUFFERS`, with which a design is measured during the search: now one is better, now the other."""

BUFFERS = (AS_HELD, ALL_OF_IT, 128, 32)
"""Options of the buffer decisions that are measured for every design. Less room slows most designs down."""


class Designer:
    """Works on single designs of one space: lays them out, anneals them, gives them room, and says which are worth measuring. What chance
    decides hangs on the seed and on how many walks there were before. walks: those that count as done."""

    def __init__(self, space: CmCandidates, seed: int, walks: int = 0) -> None:
        self.space, self.seed = space, seed
        self._worked_out = WorkedOut(space.work_memory, space.fingerprint, seed)
        self.rng = np.random.default_rng(seed)
        self._runs = walks
        self._annealed = math.inf
        self._shown: Design | None = None
        self._looked_at: list[tuple[Design, dict[str, float]]] = []

    def laid_out(self, replicas: Mapping[str, Replication]) -> Design:
        """Stages near to those that they talk with, on first routes; the placement's ticks are not known yet."""
        lowered, hardware = self.space.lowered(replicas), self.space.hardware
        needs, shared = lowered.needs, hardware.stages_per_core > 1
        begin = balanced(hardware, needs) if shared else snake_placement(lowered, hardware)
        assert begin is not None  # replications that need more cores are never asked for
        self._runs += 1
        tick_room = math.ceil(LOOSE * core_ticks(lowered.image_ticks, begin))
        seed, shapes = (self.seed << 20) + self._runs, (0,) * len(lowered.streams)
        start = Design(dict(replicas), lowered, AnnealedPlacement(tuple(begin), shapes, 1 << 60))
        cores = self._worked_out.arrangement(
            start, self._runs, lambda: arranged(lowered.streams, needs, hardware, begin, seed, tick_room)
        )
        return Design(start.replicas, lowered, AnnealedPlacement(cores, shapes, 1 << 60))

    def floor(self, design: Design) -> int:
        """Ticks that no placement of the design beats."""
        costs = self.space.costs
        alone = max(math.ceil(cost.ticks(design.replicas[cost.shape.name])) for cost in costs)
        return max(design.lowered.compute_ticks, alone, self.space.least_ticks)

    def improve(self, design: Design, moves: int, *, cold: bool = False) -> Design:
        """Anneal towards as few ticks as its cores and its thickest stream take, whatever can be reached of that. cold: at the last
        temperature from the first move on."""
        lowered = design.lowered
        self._runs += 1
        run = self._runs
        placement = self._worked_out.placement(
            design, run, moves, lambda: self._annealed_placement(design, run, moves, cold)
        )
        self._annealed += _annealing_work(lowered, moves)
        return Design(design.replicas, lowered, placement)

    def repaired(self, wider: Design, before: Design) -> Design:
        """A design that has been given more replicas: after a short cold walk where that brings it back to the ticks of the one before it,
        which leaves its ways, and so its buffers, much as they were; annealed otherwise."""
        cold = self.improve(wider, REPAIR_MOVES, cold=True)
        return cold if cold.ticks <= before.ticks else self.improve(wider, FIRST_MOVES)

    def is_quickly_measured(self, design: Design) -> bool:
        """Whether its measurement takes no more work than a few short annealings, about as many as there are speeds of the cores."""
        return self._measuring_work(design) <= FEW * _annealing_work(design.lowered, FIRST_MOVES)

    def _measuring_work(self, design: Design) -> int:
        """By packets: with all buffers that are shown."""
        return SHOWN_BUFFERS * SIMULATED_IMAGES * sum(stream.packets for stream in design.lowered.streams)

    def _annealed_placement(self, design: Design, run: int, moves: int, cold: bool) -> AnnealedPlacement:
        lowered = design.lowered
        annealer = Annealer(lowered.streams, lowered.needs, self.space.hardware, self.space.strict)
        floor = self.floor(design)
        here = annealer.run(design.placement, 1 << 60, 0, 1, 1, 0) or design.placement
        thickest = max(stream.image_load for stream in lowered.streams)
        widest = max(link.width for link in self.space.hardware.links)
        target, shared = max(-(-thickest // widest), floor), self.space.hardware.stages_per_core > 1
        if not shared:
            target = min(math.ceil(WITHIN_REACH * target), here.ticks - 1)
        seed = (self.seed << 20) + run
        hot = HOT if not cold else COLD_SHARED if shared else COLD
        return annealer.run(here, here.ticks, moves, max(target, floor), floor, seed, hot=hot) or here

    def is_better(self, design: Design, best: Design) -> bool:
        """Fewer ticks, and its least buffers fit into the cores."""
        return design.ticks < best.ticks and self.fits(design)

    def is_far_better(self, design: Design, best: Design | None) -> bool:
        """Whether it promises so much fewer ticks, and takes so many cores, that what others like it promise matters little beside."""
        far_fewer = best is not None and design.ticks <= FAR_FEWER * best.ticks
        return far_fewer and self.fills_cores(design)

    def fits(self, design: Design) -> bool:
        """Whether no core's buffers exceed its SRAM when they have no room to spare."""
        return not self._too_large(design)

    def _too_large(self, design: Design) -> dict[str, float]:
        """See `spaces.cm.room`; of the last designs it is remembered, for several steps ask one after the other."""
        for seen, found in self._looked_at:
            if seen is design:
                return found
        self._looked_at = [*self._looked_at[1 - LOOKED_AT :], (design, too_large(self.space, design))]
        return self._looked_at[-1][1]

    def roomier(self, design: Design) -> Design | None:
        """With replicas enough for its least buffers; None: they fit, or cannot: see `spaces.cm.room`."""
        return roomier(self.space, design, self._too_large(design), self.rng)

    def uncrowded(self, design: Design, rounds: int, moves: int) -> Design:
        """With more replicas of the layers that would hold up others, annealed anew each time; the design itself where there are none,
        and the last one whose buffers fit where cores or rounds end first. moves: more, where that has made it slower."""
        found = design
        for _ in range(rounds):
            crowds = self._worked_out.crowds(found, partial(crowded, self.space, found))
            self._annealed += HELD_IMAGES * sum(stream.packets for stream in found.lowered.streams)
            wider = spread_out(self.space, found, crowds, self.rng) if crowds else None
            if wider is None:
                break
            repaired = self.repaired(wider, found)
            if not self.fits(repaired):
                break
            found = repaired
        if moves and found.ticks > design.ticks:
            longer = self.improve(found, moves)
            found = longer if self.is_better(longer, found) else found
        return found

    def shown(self, design: Design, *, at_once: bool = False) -> Iterator[Assignment | None]:
        """The design with roomy buffers, of two kinds, when it has not been seen and promises much fewer ticks than the one before it, or
        as much work has gone into annealing since then as its measurement will take, by counts of both: measuring every improvement would
        leave large networks no time for others."""
        at_once = at_once or (self._shown is not None and design.ticks < MUCH_FEWER * self._shown.ticks)
        if design is self._shown or (self._annealed < self._measuring_work(design) and not at_once):
            yield None
            return
        self._annealed, self._shown = 0.0, design
        candidates = itertools.islice(self.candidates(design), SHOWN_BUFFERS)
        yield next(candidates)
        if self.measured(design) > design.ticks:  # else no buffers are better
            yield from candidates

    def fills_cores(self, design: Design) -> bool:
        """Whether hardly a core is left with which room could be given."""
        cores = self.space.hardware.cores
        return cores - cores_needed(self.space.costs, design.replicas, self.space.cores) < FEW_CORES * cores

    def sketched(self, design: Design) -> Assignment:
        """With buffers that can be told without a simulation of what streams hold."""
        return self.space.candidate(design.replicas, design.placement.cores, design.placement.shapes, ALL_OF_IT)

    def measured(self, design: Design) -> float:
        """The leading objective of a design; infinity for one that fails."""
        metric = OBJECTIVES[self.space.objective]

        def work() -> float:
            return self.space.measure(next(self.candidates(design))).metrics.get(metric, math.inf)

        return self._worked_out.objective(design, work)

    def candidates(self, design: Design) -> Iterator[Assignment]:
        """As the space's decisions say it: with room for all that is held up, then with less."""
        for buffer in BUFFERS:
            yield self.space.candidate(design.replicas, design.placement.cores, design.placement.shapes, buffer)


def _annealing_work(lowered: LoweredPipeline, moves: int) -> float:
    """By streams that are moved, which take about as long as packets in a simulation."""
    return moves * (MOVED_STAGES * 2 * len(lowered.streams) / len(lowered.pipeline.stages) + 1)
