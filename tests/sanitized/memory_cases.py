"""Questions to the searches for placements: one buffer and hundreds, bytes and terabytes, lives that are alike and that never meet."""

from __future__ import annotations

from random import Random

import numpy as np

from kilotune.spaces.memory.arrays import BufferArrays
from kilotune.spaces.memory.ejecting import Ejection
from kilotune.spaces.memory.fitting import fits_within
from kilotune.spaces.memory.instance import Buffer, Instance
from kilotune.spaces.memory.orders import Fit, place_in_order
from kilotune.spaces.memory.regluing import RegluingLimits, can_reglue, reglued
from kilotune.spaces.memory.separating import SeparationSearch, is_separable
from kilotune.spaces.memory.skyline import SkylineSearch
from kilotune.spaces.memory.skyline_beam import BeamSearch

LARGEST = 1 << 40
"""Bytes of a buffer, and points of time, that files may have."""


def _buffers(random: Random, most: int) -> BufferArrays:
    """Of positive sizes; each third time alike in size, life or both."""
    count, points = random.choice((1, 2, random.randint(1, most), most)), random.choice((1, 3, 20, 300, LARGEST))
    size, life = random.choice((1, 2, 64, LARGEST)), random.choice((1, 2, points))
    alike, aligned = random.random() < 0.3, random.choice(((1,), (1, 1, 2, 8), (64,), (1, LARGEST)))
    rows = []
    for number in range(count):
        lower = random.choice((number, random.randrange(points), -random.randrange(points)))
        rows.append(
            (lower, lower + random.randint(1, life), size if alike else random.randint(1, size), random.choice(aligned))
        )
    return BufferArrays.of(Instance("made", tuple(Buffer(f"b{number}", *row) for number, row in enumerate(rows))))


def _connected(random: Random, most: int) -> BufferArrays:
    whole = _buffers(random, most)
    return whole.subset(max(whole.components(), key=len))


def placing_case(random: Random) -> None:
    buffers = _connected(random, random.choice((8, 60)))
    rank = np.array(random.sample(range(len(buffers)), len(buffers)), dtype=np.int32)
    live = int(buffers.section_bytes.max())
    for capacity in (live, live + random.choice((0, 1, live)), 1 << 62):
        fits_within(buffers, rank, capacity, random.choice((1, 20_000)))


def order_case(random: Random) -> None:
    buffers = _buffers(random, random.choice((8, 600)))
    order = np.array(random.sample(range(len(buffers)), len(buffers)))
    for fit in Fit:
        place_in_order(buffers, order, fit)


def ejecting_case(random: Random) -> None:
    buffers = _connected(random, random.choice((8, 200)))
    offsets = place_in_order(buffers, np.arange(len(buffers)), Fit.ABOVE)
    search = Ejection(buffers, random.getrandbits(60), 50_000)
    for _ in range(3):
        offsets = (
            found if (found := search.improve(offsets, int(buffers.section_bytes.max()), 1.0)) is not None else offsets
        )


def separating_case(random: Random) -> None:
    buffers = _connected(random, random.choice((8, 200)))
    if not is_separable(buffers):
        return
    offsets = place_in_order(buffers, np.arange(len(buffers)), Fit.ABOVE)
    search = SeparationSearch(buffers, random.getrandbits(60))
    search.suggest(offsets + random.choice((0, 1)) * buffers.alignment)
    for _ in range(3):
        offsets = (
            found if (found := search.improve(offsets, int(buffers.section_bytes.max()), 0.1)) is not None else offsets
        )


def skyline_case(random: Random) -> None:
    search = SkylineSearch(_buffers(random, random.choice((8, 600))), random.getrandbits(60))
    for _ in range(3):
        search.placement(1.0)


def beam_case(random: Random) -> None:
    buffers = _buffers(random, random.choice((8, 80)))
    search, offsets = BeamSearch(buffers, random.getrandbits(60)), place_in_order(buffers, np.arange(len(buffers)))
    if buffers.sections[2] > 60:
        return
    for _ in range(2):
        offsets = found if (found := search.placement(offsets, 1.0)) is not None else offsets


def regluing_case(random: Random) -> None:
    buffers = _buffers(random, random.choice((8, 300)))
    if can_reglue(buffers):
        most = random.choice((float(buffers.section_bytes.max()), float("inf")))
        reglued(
            buffers,
            RegluingLimits(random.choice((10, 100_000)), most, 1.0),
            random.getrandbits(60),
            random.choice((0.5, 1.0)),
        )


CASES = (placing_case, order_case, ejecting_case, separating_case, skyline_case, beam_case, regluing_case)
