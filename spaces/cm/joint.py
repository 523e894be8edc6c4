"""Replication and placement searched together.

Outside, a local search over replications: first the cheapest one for each speed of the cores, then more replicas for the
layers around the busiest links, or fewer for others. Inside, compiled annealing of cores and routes for each, warm from
the placement before, always asked for less than the best ticks known; one that the cores alone rule out is skipped.
Replicating for the cores alone can make a design slower: streams multiply, and links are what is short then.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Iterator

from kilotune.search.space import Assignment
from kilotune.spaces.cm.candidates import CmCandidates
from kilotune.spaces.cm.designer import FIRST_MOVES, LONG_MOVES, Designer
from kilotune.spaces.cm.designs import Design
from kilotune.spaces.cm.neighbours import neighbour
from kilotune.spaces.cm.speeds import speeds

FIRST_LEVELS, EARLY_LEVELS, LONG_LEVELS = 2, 5, 3
WALKS_A_LEVEL = 2
"""An arrangement and an annealing, where its buffers fit."""

EQUALLY_GOOD = 8
EARLY_ROUNDS, SPREADING_ROUNDS = 2, 3
"""The first brings most; what is left after three are single layers."""


def joint_annealing(space: CmCandidates, seed: int) -> Iterator[Assignment | None]:
    """Candidates, each of fewer promised ticks than the one before; None in between. Ends soon after the space's bound."""
    search = Designer(space, seed)
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


def first_paced(space: CmCandidates) -> Assignment | None:
    """The joint search's first design with replicas, which keep the fastest pace, by its walks of seed 0: near to the bound mostly, after
    as little work as a design takes. None where its buffers do not fit."""
    search = Designer(space, 0, WALKS_A_LEVEL)
    replicas = list(itertools.islice(speeds(space, search.rng), 2))[-1]
    design = search.laid_out(replicas)
    design = search.improve(search.roomier(design) or design, FIRST_MOVES)
    return next(search.candidates(design)) if search.fits(design) else None


def _by_measurement(search: Designer) -> Iterator[Assignment | None]:
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


def _by_levels(search: Designer) -> Generator[Assignment | None, None, Design | None]:
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
    search: Designer, annealed: list[Design], count: int, best: Design | None
) -> Generator[Assignment | None, None, Design | None]:
    """The best design after so many of the most promising have been annealed for longer; these are taken out of the list."""
    for _ in range(min(count, len(annealed))):
        annealed.sort(key=lambda design: design.ticks)
        promising = annealed.pop(0)
        if best is None or search.floor(promising) < best.ticks:
            design = search.improve(search.laid_out(promising.replicas), LONG_MOVES)
            best = yield from _finished(search, design, best)
    return best


def _finished(
    search: Designer, design: Design, best: Design | None
) -> Generator[Assignment | None, None, Design | None]:
    """The best design from now on; this one, annealed, gets replicas enough for its buffers. The first one whose buffers fit is shown at
    once."""
    waiting = best is not None and not search.fits(best)
    design = _with_room(search, design)
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


def _with_room(search: Designer, design: Design) -> Design:
    """With replicas enough for its buffers, where there are cores for them; annealed anew then."""
    for last in (False, True):
        roomier = search.roomier(design)
        if roomier is None:
            break
        # Other ways make other buffers: what annealing makes of it may be too large again, as it came it is not.
        design = search.repaired(roomier, design)
        if last and not search.fits(design):
            design = search.improve(roomier, 0)
    return design


def _by_neighbours(search: Designer, best: Design) -> Generator[Assignment | None, None, Design]:
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
        if design.ticks < best.ticks:
            design = _with_room(search, design)
        if search.is_better(design, best):
            spread = search.uncrowded(design, SPREADING_ROUNDS, LONG_MOVES)
            here = best = spread if search.is_better(spread, best) else design
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
