"""Fidelity A: what no schedule of a mapped pipeline can beat, in microseconds: the busiest core and the busiest link.

In steady state every image takes each core `iterations * ticks` ticks and each link the elements of the streams routed over it,
divided by its width; the largest of these is the ticks from one image to the next that a stream cannot go below. With
unbounded buffers, and GMEM sending at that pace, it is also reached (`timing` shows it).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.cm.hardware import Hardware, Link
from kilotune.codegen.cm.pipeline import Pipeline
from kilotune.codegen.cm.streams import Stream

LoadArray = NDArray[np.int64]


def compute_ticks(pipeline: Pipeline, hardware: Hardware) -> int:
    """Ticks per image of the busiest core."""
    return max(s.iterations * hardware.iteration_ticks(s) for s in pipeline.stages)


def link_loads(streams: Sequence[Stream], routes: Sequence[Sequence[int]], links: Sequence[Link]) -> LoadArray:
    """Elements per image, by link."""
    flat = [number for route in routes for number in route]
    weights = np.repeat([s.image_load for s in streams], [len(route) for route in routes])
    return np.bincount(np.array(flat, dtype=np.int64), weights, minlength=len(links)).astype(np.int64)


def link_ticks(loads: LoadArray, links: Sequence[Link]) -> int:
    """Ticks per image of the busiest link."""
    widths = np.array([link.width for link in links], dtype=np.int64)
    return int((-(-loads // widths)).max(initial=0))


def flow_ticks(streams: Sequence[Stream], hardware: Hardware, stages: int) -> int:
    """Ticks per image that no placement can beat: what enters or leaves a stage shares the links of one core, what enters
    or leaves GMEM its ports, and every stream takes at least one link of the network."""
    into, out_of = ([0] * (stages + 1) for _ in range(2))
    for stream in streams:
        into[stream.reader] += stream.image_load  # GMEM, -1, is the last place
        out_of[stream.writer] += stream.image_load
    width_in, width_out = ([0] * (hardware.cores + 1) for _ in range(2))
    for link in hardware.links:
        width_in[link.target] += link.width
        width_out[link.source] += link.width
    best = [max(width[: hardware.cores]) for width in (width_in, width_out)]
    found = [-(-flow // best[0]) for flow in into[:-1]] + [-(-flow // best[1]) for flow in out_of[:-1]]
    for flow, width in ((into[-1], width_in[-1]), (out_of[-1], width_out[-1])):
        found.append(-(-flow // width) if width else 0)
    total, everything = sum(s.image_load for s in streams), sum(k.width for k in hardware.links)
    return max([*found, -(-total // everything)])
