"""Replication and placement searched together.

Outside, a local search over replications: first the cheapest one for each speed of the cores, then more replicas for the
layers around the busiest links, or fewer for others. Inside, compiled annealing of cores and routes for each, warm from
the placement before, always asked for less than the best ticks known; one that the cores alone rule out is skipped.
Replicating for the cores alone can make a design slower: streams multiply, and links are what is short then.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Iterator, Mapping
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
from kilotune.spaces.cm.neighbours import neighbour
from kilotune.spaces.cm.replication import Replication
from kilotune.spaces.cm.room import crowded, roomier, spread_out, too_large
from kilotune.spaces.cm.sharing import balanced
from kilotune.spaces.cm.speeds import speeds
from kilotune.spaces.cm.worked_out import WorkedOut

FIRST_MOVES, LONG_MOVES, REPAIR_MOVES = 150_000, 1_000_000, 50_000
FIRST_LEVELS, EARLY_LEVELS, LONG_LEVELS = 2, 5, 3
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

EQUALLY_GOOD = 8
LOOKED_AT = 3
"""The best design, the one that is annealed, and the one that it was before."""

EARLY_ROUNDS, SPREADING_ROUNDS = 2, 3
"""The first brings most; what is left after three are single layers."""

SHOWN_BUFFERS = 2
"""The first options of `BUFFERS`, with which a design is measured during the search: now one is better, now the other."""

BUFFERS = (AS_HELD, ALL_OF_IT, 128, 32)
"""Options of the buffer decisions that are measured for every design. Less room slows most designs down."""


def joint_annealing(space: CmCandidates, seed: int) -> Iterator[Assignment | None]:
    """Candidates, each of fewer promised ticks than the one before; None in between. Ends soon after the space's bound."""
    search = _Joint(space, seed)
    if space.objective != "ticks":
        yield from _by_measurement(search)
        return
    best = yield from _by_levels(search)
    if best is None:
        return
    yield from search.shown(best, at_once=True)
    best = yield from _by_neighbours(search, best)
    yield from search.shown(best, at_once=True)
    yield from search.candidates(best)
    # Nothing promises less. Other placements as fast may settle sooner, or take less time, cores or memory.
    for _ in range(EQUALLY_GOOD):
        other = search.improve(search.laid_out(best.replicas), LONG_MOVES)
        if other.ticks == best.ticks and search.fits(other):
            yield from search.candidates(other)
        else:
            yield None


def _by_measurement(search: _Joint) -> Iterator[Assignment | None]:
    """For the other objectives, of which nothing is known before a candidate is measured: all speeds of the cores, then from the best
    design to its neighbours. Without an end, but where the bound is reached."""
    best, least = None, math.inf
    levels = speeds(search.space, search.rng)
    while least > search.space.least_objective:
        replicas = next(levels, None)
        start = None
        if replicas is not None:
            start = search.laid_out(replicas)
        elif best is not None:
            start = neighbour(search.space, best, search.rng)
        else:
            return
        design = None if start is None else search.improve(start, FIRST_MOVES)
        value = math.inf if design is None or not search.fits(design) else search.measured(design)
        if design is not None and value < least:
            best, least = design, value
            yield from search.candidates(design)
        else:
            yield None


def _by_levels(search: _Joint) -> Generator[Assignment | None, None, Design | None]:
    """The best design of all speeds that the cores can be brought to: a short annealing of each, then a long one of the most promising,
    of the first few by themselves so that something good is known early. All is done for a design at once until something fits, where it
    promises the bound, or far less than what is known by all cores, and where measuring it takes no longer than a few annealings; where
    nothing among the first two is so, for the better of them."""
    best: Design | None = None
    first: Design | None = None
    annealed: list[Design] = []
    for number, replicas in enumerate(speeds(search.space, search.rng)):
        design = search.laid_out(replicas)
        if best is not None and search.floor(design) >= best.ticks:
            continue
        # What lacks room as it is laid out mostly lacks it annealed as well, and would have to be annealed anew.
        design = search.improve(search.roomier(design) or design, FIRST_MOVES)
        waits = best is not None and search.fits(best) and design.ticks > search.space.least_ticks
        if waits:
            annealed.append(design)
        if waits and not search.is_quickly_measured(design) and not search.is_far_better(design, best):
            yield None
        else:
            best = yield from _finished(search, design, best)
        first = best if number == 0 else first
        if number == FIRST_LEVELS and annealed and best is first and not search.is_quickly_measured(design):
            # A long annealing and the room that it asks for once more would take a large network all of a minute.
            best = yield from _finished(search, min(annealed, key=lambda one: one.ticks), best)
        if number == EARLY_LEVELS:
            best = yield from _long_annealed(search, annealed, 1, best)
    return (yield from _long_annealed(search, annealed, LONG_LEVELS, best))


def _long_annealed(
    search: _Joint, annealed: list[Design], count: int, best: Design | None
) -> Generator[Assignment | None, None, Design | None]:
    """The best design after so many of the most promising have been annealed for longer; these are taken out of the list."""
    for _ in range(min(count, len(annealed))):
        annealed.sort(key=lambda design: design.ticks)
        promising = annealed.pop(0)
        if best is None or search.floor(promising) < best.ticks:
            design = search.improve(search.laid_out(promising.replicas), LONG_MOVES)
            best = yield from _finished(search, design, best)
    return best


def _finished(search: _Joint, design: Design, best: Design | None) -> Generator[Assignment | None, None, Design | None]:
    """The best design from now on; this one, annealed, gets replicas enough for its buffers. The first one whose buffers fit is shown at
    once."""
    waiting = best is not None and not search.fits(best)
    for last in (False, True):
        roomier = search.roomier(design)
        if roomier is None:
            break
        # Other ways make other buffers: what annealing makes of it may be too large again, as it came it is not.
        design = search.repaired(roomier, design)
        if last and not search.fits(design):
            design = search.improve(roomier, 0)
    if best is not None and not waiting and search.is_better(design, best):
        early = search.is_far_better(design, best) and not search.is_quickly_measured(design)
        if early:
            yield search.sketched(design)
        design = search.uncrowded(design, *((EARLY_ROUNDS, 0) if early else (SPREADING_ROUNDS, LONG_MOVES)))
    if best is None or (search.fits(design) and (waiting or design.ticks < best.ticks)):
        yield from search.shown(design, at_once=waiting)
        return design
    yield None
    return best


def _by_neighbours(search: _Joint, best: Design) -> Generator[Assignment | None, None, Design]:
    """From design to design, a layer more or less often there each time, until one promises the space's bound."""
    here, in_vain = best, 0
    while best.ticks > search.space.least_ticks:
        again = search.rng.random() < 0.3
        other = here if again else neighbour(search.space, here, search.rng)
        if other is None or search.floor(other) >= best.ticks:
            here, in_vain = best, in_vain + 1
            yield None
            continue
        design = search.improve(other, LONG_MOVES if again else FIRST_MOVES << min(in_vain // 12, 2))
        if search.is_better(design, best):
            here = best = design
            in_vain = 0
            yield from search.shown(best)
        else:
            in_vain += 1
            # Designs a little behind are worth a look around them too; after a while it is back to the best one.
            if design.ticks <= here.ticks or design.ticks < best.ticks * (1 + 0.1 * search.rng.random()):
                here = design
            if in_vain % 24 == 0:
                here = best
            yield from search.shown(best)
    return best


class _Joint:
    def __init__(self, space: CmCandidates, seed: int) -> None:
        self.space, self.seed = space, seed
        self._worked_out = WorkedOut(space.work_memory, space.fingerprint, seed)
        self.rng = np.random.default_rng(seed)
        self._runs = 0
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
