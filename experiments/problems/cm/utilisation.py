"""How busy a mapped network keeps an accelerator: its cores, its links, and its stages over time. Numbers for pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kilotune.codegen.cm.hardware import Hardware
from kilotune.codegen.cm.mapping import Mapping, core_sram_bytes, stages_by_core
from kilotune.codegen.cm.streams import stream_name
from kilotune.evaluators.cm.bound import link_loads
from kilotune.evaluators.cm.ticks import TickArray
from kilotune.spaces.cm.lowered import LoweredPipeline

GridPosition = tuple[float, float]

LEAST_RADIUS, ARC = 1.0, 0.64
"""The measures of a ring of cores, in steps of a grid: its radius, and how far apart neighbours are."""


@dataclass(frozen=True)
class CoreUse:
    """stage: that runs on it, the one that does most where several do; others: those. ticks: per image, of all of them. share: of the ticks
    from one image to the next. sram_bytes: of all their buffers."""

    core: int
    stage: int
    ticks: int
    share: float
    sram_bytes: int
    others: tuple[int, ...] = ()


@dataclass(frozen=True)
class LinkUse:
    """load: per image, in the hardware's unit. ticks: that it takes per image. share: of the ticks from one image to the next.
    carried: names and loads of the streams that are routed over it."""

    number: int
    source: int
    target: int
    load: int
    ticks: float
    share: float
    carried: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Usage:
    """cores: those in use, by the first of their stages. links: all, by number."""

    cores: tuple[CoreUse, ...]
    links: tuple[LinkUse, ...]

    @property
    def busiest_cores(self) -> tuple[CoreUse, ...]:
        """All that are as busy as the busiest."""
        most = max((use.ticks for use in self.cores), default=0)
        return tuple(use for use in self.cores if use.ticks == most)

    @property
    def busiest_links(self) -> tuple[LinkUse, ...]:
        """All that are as busy as the busiest; none where nothing is carried."""
        most = max((use.ticks for use in self.links), default=0.0)
        return tuple(use for use in self.links if use.ticks == most > 0)


def stages_of(lowered: LoweredPipeline, use: CoreUse) -> str:
    """The stage that does most on a core, and how many there are besides."""
    name = lowered.pipeline.stages[use.stage].name
    return f"{name} +{len(use.others)}" if use.others else name


def usage_of(lowered: LoweredPipeline, hardware: Hardware, mapping: Mapping, ticks_per_image: float) -> Usage:
    """`ticks_per_image`: what counts as wholly busy."""
    used_bytes, cores = core_sram_bytes(lowered.streams, mapping), []
    for core, stages in stages_by_core(mapping.cores).items():
        first, *others = sorted(stages, key=lambda stage: -lowered.image_ticks[stage])
        ticks = sum(lowered.image_ticks[stage] for stage in stages)
        cores.append(CoreUse(core, first, ticks, ticks / ticks_per_image, used_bytes[core], tuple(others)))
    loads = link_loads(lowered.streams, mapping.routes, hardware.links)
    carried: list[list[tuple[str, int]]] = [[] for _ in hardware.links]
    for stream, route in zip(lowered.streams, mapping.routes, strict=True):
        for number in route:
            carried[number].append((stream_name(lowered.pipeline, stream), stream.image_load))
    links = []
    for number, (link, load) in enumerate(zip(hardware.links, loads.tolist(), strict=True)):
        ticks_taken = load / link.width
        share = ticks_taken / ticks_per_image
        links.append(LinkUse(number, link.source, link.target, load, ticks_taken, share, tuple(carried[number])))
    return Usage(tuple(cores), tuple(links))


@dataclass(frozen=True)
class Bar:
    """Iterations of a stage that follow one another closely: first tick, end, share of it that is busy."""

    first: int
    end: int
    busy: float


def bars_of(begun: TickArray, ticks: int, gap: float) -> list[Bar]:
    """Runs of iterations that start at most `gap` ticks apart. begun: start ticks; ticks: of an iteration."""
    if not len(begun):
        return []
    cuts = np.flatnonzero(np.diff(begun) > gap) + 1
    runs = np.split(begun, cuts)
    return [Bar(int(r[0]), int(r[-1]) + ticks, len(r) * ticks / (int(r[-1]) + ticks - int(r[0]))) for r in runs]


def core_places(hardware: Hardware) -> list[GridPosition]:
    """Column and row of every core, row 0 above; on a ring where they lie in no grid."""
    columns = hardware.grid_columns
    if columns:
        return [(float(core % columns), float(core // columns)) for core in range(hardware.cores)]
    radius = max(LEAST_RADIUS, hardware.cores * ARC / (2 * math.pi))
    angles = [2 * math.pi * core / hardware.cores for core in range(hardware.cores)]
    return [(radius * (1 + math.cos(a)), radius * (1 + math.sin(a))) for a in angles]


def node_place(hardware: Hardware, places: Sequence[GridPosition], node: int, other: int, stub: float) -> GridPosition:
    """The place of a node at one end of a link to `other`; GMEM is so many steps beside the core at the other end, outwards."""
    if node != hardware.gmem:
        return places[node]
    x, y = places[other]
    return x + (-stub if 2 * x < max(place[0] for place in places) else stub), y
