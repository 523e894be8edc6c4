"""Fidelity A: what no schedule of a mapped pipeline can beat, in microseconds: the busiest core and the busiest link.

In steady state every image takes each core `iterations * ticks` ticks for each of its stages, and each link the elements of the
streams routed over it, divided by its width; the largest of these is the ticks from one image to the next that a stream cannot go
below. With unbounded buffers, GMEM sending at that pace, and a core for each stage, it is also reached (`timing` shows it).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.cm.hardware import Link
from kilotune.codegen.cm.mapping import stages_by_core
from kilotune.codegen.cm.streams import Stream

LoadArray = NDArray[np.int64]


def core_ticks(image_ticks: Sequence[int], cores: Sequence[int]) -> int:
    """Ticks per image of the busiest core. image_ticks: per image, by stage. cores: by stage."""
    return max(sum(image_ticks[stage] for stage in stages) for stages in stages_by_core(cores).values())


def link_loads(streams: Sequence[Stream], routes: Sequence[Sequence[int]], links: Sequence[Link]) -> LoadArray:
    """Elements per image, by link."""
    flat = [number for route in routes for number in route]
    weights = np.repeat([s.image_load for s in streams], [len(route) for route in routes])
    return np.bincount(np.array(flat, dtype=np.int64), weights, minlength=len(links)).astype(np.int64)


def link_ticks(loads: LoadArray, links: Sequence[Link]) -> int:
    """Ticks per image of the busiest link."""
    widths = np.array([link.width for link in links], dtype=np.int64)
    return int((-(-loads // widths)).max(initial=0))
