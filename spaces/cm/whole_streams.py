"""Ticks that no mapping beats because streams between layers are not split either: a linear programme over replicas.

Two stages that talk with each other are on different cores where cores are not shared, and their stream takes one route. So within T
ticks an image no stream carries more than a link does in T: one of two neighbouring layers has to be there so often that the thickest
stream between two of their replicas is thin enough. Which one, is decided for all layers together, with as few cores as can be. Where
the linear relaxation of that question takes more cores than there are, no mapping keeps T, wherever stages and routes are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kilotune.codegen.cm.access import Rectangle, read_pixels
from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.pipeline import GMEM
from kilotune.codegen.cm.programs import LoweredNetwork
from kilotune.codegen.cm.replicas import CHANNELS, replica_rectangles
from kilotune.codegen.cm.streams import Stream
from kilotune.codegen.onnx.graph import Window
from kilotune.spaces.cm.lowered import LayerCost
from kilotune.spaces.cm.replication import LayerShape

ReplicaCut = tuple[int, str]
"""Replicas of a layer and the axis that they cut: what streams to and from a layer depend on, chained or not."""

TOLERANCE = 0.01
"""By how much of a core a solution in floating point has to exceed all cores before they are said to be too few."""

WIDENING = 1.25
"""By how much a number of ticks that is too few is raised until it is not."""


@dataclass(frozen=True, eq=False)
class LayerStream:
    """What stages of one layer send to stages of another one by one window. load: of a packet, the largest between two of their
    stages, in elements or bits. width: of the widest link."""

    writer: LayerShape
    reader: LayerShape
    window: Window
    load: int
    width: int

    @cached_property
    def _most(self) -> dict[tuple[int, int, int], int]:
        return {}

    def ticks(self, writer: ReplicaCut, reader: ReplicaCut) -> float:
        """Ticks of an image that the thickest stream between two replicas takes a link. 0 where channels are shared out, for each
        replica is sent other ones then."""
        if CHANNELS in (writer[1], reader[1]):
            return 0.0
        counts = [[cut[0] if cut[1] == axis else 1 for cut in (writer, reader)] for axis in ("rows", "columns")]
        pixels = self._pixels(0, *counts[0]) * self._pixels(1, *counts[1])
        return pixels * self.load / self.width

    def _pixels(self, axis: int, writers: int, readers: int) -> int:
        """Rows (axis 0) or columns (1) that one replica reads of another at most, with so many of both."""
        found = self._most.get((axis, writers, readers))
        if found is None:
            ends = [_starts(shape, axis, count) for shape, count in ((self.writer, writers), (self.reader, readers))]
            by_reader = np.logical_or.reduceat(self._reads[axis], ends[1], axis=0)
            found = int(np.add.reduceat(by_reader, ends[0], axis=1, dtype=np.int64).max())
            self._most[axis, writers, readers] = found
        return found

    @cached_property
    def _reads(self) -> list[np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
        whole = [Rectangle(0, shape.height, 0, shape.width) for shape in (self.reader, self.writer)]
        return [read_pixels(self.window, axis, *whole) for axis in (0, 1)]


def _starts(shape: LayerShape, axis: int, count: int) -> list[int]:
    """Where the replicas of a layer begin along an axis."""
    cut = replica_rectangles(shape.height, shape.width, count, ("rows", "columns")[axis])
    return [rectangle.left if axis else rectangle.top for rectangle in cut]


def layer_streams(
    once: LoweredNetwork, streams: Sequence[Stream], shapes: Sequence[LayerShape], hardware: Hardware
) -> tuple[LayerStream, ...]:
    """Between all layers that talk with each other. Where iterations read in several windows, each is looked at by itself, so that
    streams may be thicker. None where stages may share a core, and need no link between them. once, streams: without replicas."""
    width = max((link.width for link in hardware.links if hardware.gmem not in (link.source, link.target)), default=1)
    by_name = {shape.name: shape for shape in shapes}
    found: dict[tuple[str, str, Window], int] = {}
    for stream in streams if hardware.stages_per_core == 1 else ():
        if GMEM in (stream.writer, stream.reader) or stream.edge is None:
            continue
        writer, reader = (once.pipeline.stages[end].layer for end in (stream.writer, stream.reader))
        for window in once.readings[stream.edge].windows if writer != reader else ():
            found[writer, reader, window] = max(stream.load, found.get((writer, reader, window), 0))
    return tuple(LayerStream(by_name[a], by_name[b], window, load, width) for (a, b, window), load in found.items())


def whole_stream_ticks(costs: Sequence[LayerCost], streams: Sequence[LayerStream], cores: int, least: int) -> int:
    """Whole ticks an image that no mapping beats, with a core for each stage: `least`, which is known of, or more.
    streams: none where stages may share a core, and nothing is added to what is known.

    Each T is either shown to be too few or not, and what is too few for T is so for less; so the T between is halved. Where a link
    carries at most T of width in T ticks, and an image takes a core at most T, ticks an image are a whole number of T + 1 or more
    where T is too few.
    """
    if not streams or not _too_few(costs, streams, cores, least):
        return least
    low, high = least, int(least * WIDENING) + 1
    while _too_few(costs, streams, cores, high):
        low, high = high, int(high * WIDENING) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if _too_few(costs, streams, cores, middle):
            low = middle
        else:
            high = middle
    return high


def _too_few(costs: Sequence[LayerCost], streams: Sequence[LayerStream], cores: int, ticks: int) -> bool:
    """Whether so many ticks are shown to be too few for so many cores."""
    tight = [stream for stream in streams if stream.ticks((1, "rows"), (1, "rows")) > ticks]
    options = {cost.shape.name: list(_cuts(cost, tight, ticks)) for cost in costs}
    if not all(options.values()):
        return True
    least = {name: cuts[0] for name, cuts in options.items()}
    taken = sum(cost.shape.cores * least[cost.shape.name][0] for cost in costs)
    if taken > cores:
        return True
    if all(stream.ticks(least[stream.writer.name], least[stream.reader.name]) <= ticks for stream in tight):
        return False
    ends = {shape.name for stream in tight for shape in (stream.writer, stream.reader)}
    others = sum(cost.shape.cores * least[cost.shape.name][0] for cost in costs if cost.shape.name not in ends)
    sizes = {cost.shape.name: cost.shape.cores for cost in costs if cost.shape.name in ends}
    fewest = _fewest_cores(sizes, {name: options[name] for name in sizes}, tight, ticks)
    return fewest is None or others + fewest > cores + TOLERANCE


def _cuts(cost: LayerCost, tight: Sequence[LayerStream], ticks: int) -> Iterator[ReplicaCut]:
    """Those that a layer may have within so many ticks, the fewest replicas first. Along each axis none beyond the first
    with which all of its streams are thin enough, however often the other layer is there: more only take more cores."""
    name, done = cost.shape.name, set[str]()
    for cut in dict.fromkeys((r.count, r.axis) for r in cost.shape.replications() if cost.ticks(r) <= ticks):
        if cut[1] not in done:
            yield cut
            once = (1, "rows")
            ends = ((cut if s.writer.name == name else once, cut if s.reader.name == name else once, s) for s in tight)
            if all(
                stream.ticks(a, b) <= ticks for a, b, stream in ends if name in (stream.writer.name, stream.reader.name)
            ):
                done.add(cut[1])


def _fewest_cores(
    sizes: Mapping[str, int], options: Mapping[str, Sequence[ReplicaCut]], tight: Sequence[LayerStream], ticks: int
) -> float | None:
    """Cores that those layers take at least, by a linear programme: shares of every cut of a layer, which add up to one, and a share of a
    cut is at most that of all cuts of a neighbour between which and it the thickest stream is thin enough. None: there are none."""
    from ortools.linear_solver import pywraplp  # only where streams are too thick

    solver = pywraplp.Solver.CreateSolver("GLOP")
    shares = {(name, cut): solver.NumVar(0, 1, "") for name, cuts in options.items() for cut in cuts}
    for name, cuts in options.items():
        solver.Add(solver.Sum([shares[name, cut] for cut in cuts]) == 1)
    for stream in tight:
        writer, reader = stream.writer.name, stream.reader.name
        thin = {(a, b) for a in options[writer] for b in options[reader] if stream.ticks(a, b) <= ticks}
        for a in options[writer]:
            solver.Add(shares[writer, a] <= solver.Sum([shares[reader, b] for b in options[reader] if (a, b) in thin]))
        for b in options[reader]:
            solver.Add(shares[reader, b] <= solver.Sum([shares[writer, a] for a in options[writer] if (a, b) in thin]))
    solver.Minimize(solver.Sum([sizes[name] * cut[0] * share for (name, cut), share in shares.items()]))
    status = solver.Solve()
    if status == pywraplp.Solver.INFEASIBLE:
        return None
    return float(solver.Objective().Value()) if status == pywraplp.Solver.OPTIMAL else 0.0
