"""What the picture of a mapped network shows, whatever draws it: a mark a core, an arrow a link, in steps of the grid."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kilotune.codegen.cm.hardware import Hardware
from kilotune.experiments.presentation.palette import BLACK, BLUE, NEUTRAL, ORANGE, SKY, VERMILLION
from kilotune.experiments.problems.cm.utilisation import (
    CoreUse,
    GridPosition,
    LinkUse,
    Usage,
    core_places,
    node_place,
    stages_of,
)
from kilotune.spaces.cm.lowered import LoweredPipeline

HALF = 0.38
"""Half the side of a core's square, in steps of the grid."""

BESIDE, BESIDE_RING = 0.11, 0.08
"""How far a link is drawn to the right of its direction."""

STUB = 0.85
"""How far GMEM lies beside the core that it is connected to."""

LINE_LENGTH = 7
"""Characters of a line on a core: of two such meshes beside one another on a screen of 1280 pixels they can still be read."""

MOST_NAMED, MOST_NUMBERED = 8, 16
"""Columns of a grid on whose cores names fit, and numbers."""

NUMBER_ABOVE = 0.21
"""Where the number stands above a name, in steps over the middle."""

DARK = 0.7
"""Cores busier than that are so dark that their numbers are white."""

MOST_LINKS, MOST_IDLE = 1900, 650
MOST_CARRIED = 6
"""Streams that are listed of a link."""

BUSY_COLOURS = ((0, "#D9EAF5"), (0.5, SKY), (1, BLUE))
"""The colours of cores by the share of the time in which they are busy, and linear in between."""


@dataclass(frozen=True)
class LinkStyle:
    """How links are drawn whose share is below `below`; `width` in pixels."""

    below: float
    title: str
    colour: str
    width: float


IDLE_LINK = LinkStyle(0, "idle link", NEUTRAL, 0.7)
LOADS = (
    LinkStyle(0.25, "link, under 25 %", SKY, 1.5),
    LinkStyle(0.5, "25 to 50 %", BLUE, 2.5),
    LinkStyle(0.75, "50 to 75 %", ORANGE, 3.5),
    LinkStyle(math.inf, "75 % and more", VERMILLION, 5.0),
)


def load_of(share: float) -> LinkStyle:
    """By the share of the ticks between two images in which a link is busy."""
    return next(load for load in LOADS if share < load.below)


@dataclass(frozen=True)
class CoreMark:
    """A core at its place (column, row; row 0 above). use: None where it is idle. number, name: what is written on it, the name in
    lines; empty where there is no room. said: what is to be known of it, a heading first."""

    core: int
    place: GridPosition
    use: CoreUse | None
    number: str
    name: tuple[str, ...]
    busiest: bool
    said: tuple[str, ...]

    @property
    def number_place(self) -> GridPosition:
        """The middle of the number: above the name, or of the core."""
        return self.place[0], self.place[1] - (NUMBER_ABOVE if self.name else 0.0)

    @property
    def ink(self) -> str:
        """The colour of what is written on it."""
        return "#FFFFFF" if self.use is not None and self.use.share > DARK else BLACK


@dataclass(frozen=True)
class LinkArrow:
    """A link from `start` to `end`. said: what is to be known of it, a heading first."""

    use: LinkUse
    style: LinkStyle
    start: GridPosition
    end: GridPosition
    busiest: bool
    said: tuple[str, ...]

    @property
    def middle(self) -> GridPosition:
        """Half-way."""
        return (self.start[0] + self.end[0]) / 2, (self.start[1] + self.end[1]) / 2


@dataclass(frozen=True)
class Mesh:
    """columns: of the grid; None where cores lie in none. cores: by number. links: the busiest first. ports: where GMEM is drawn.
    width, height: the last column and row of a core."""

    columns: int | None
    cores: tuple[CoreMark, ...]
    links: tuple[LinkArrow, ...]
    ports: tuple[GridPosition, ...]
    width: float
    height: float

    @property
    def stages(self) -> list[tuple[CoreMark, CoreUse]]:
        """The cores in use, by stage."""
        used = [(mark, mark.use) for mark in self.cores if mark.use is not None]
        return sorted(used, key=lambda one: one[1].stage)

    @property
    def idle(self) -> list[CoreMark]:
        """The cores that are not in use."""
        return [mark for mark in self.cores if mark.use is None]

    @property
    def arrows(self) -> list[tuple[LinkStyle, list[LinkArrow]]]:
        """What is drawn of the links, in the order of drawing: the heaviest on top. Of very many idle ones only some."""
        groups = [(style, [arrow for arrow in self.links if arrow.style is style]) for style in (IDLE_LINK, *LOADS)]
        return [(style, found[:MOST_IDLE] if style is IDLE_LINK else found) for style, found in groups if found]


def mesh_of(lowered: LoweredPipeline, hardware: Hardware, usage: Usage) -> Mesh:
    """What is shown of a mapping; of very many links the least busy are left out."""
    places = core_places(hardware)
    links = sorted(usage.links, key=lambda use: -use.ticks)[:MOST_LINKS]
    busiest = {use.number for use in usage.busiest_links}
    arrows = tuple(
        LinkArrow(
            use,
            load_of(use.share) if use.load else IDLE_LINK,
            *_ends(hardware, places, use),
            use.number in busiest,
            _said_of_link(hardware, use),
        )
        for use in links
    )
    width, height = (max(axis) for axis in zip(*places, strict=True))
    cores = tuple(_cores(lowered, hardware, usage, places))
    return Mesh(hardware.grid_columns, cores, arrows, _ports(hardware, places), width, height)


def node_name(hardware: Hardware, node: int) -> str:
    """A core, or the global memory."""
    return "GMEM" if node == hardware.gmem else f"core {node}"


def busy_colour(share: float) -> str:
    """The colour of a core that is busy for this share of the time, as #rrggbb."""
    share = min(max(share, 0.0), 1.0)
    (low, first), (high, last) = next(pair for pair in pairwise(BUSY_COLOURS) if share <= pair[1][0])
    part = (share - low) / (high - low)
    channels = [(int(first[at : at + 2], 16), int(last[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * part):02X}" for a, b in channels)


def name_lines(name: str) -> tuple[str, ...]:
    """A stage's name in at most two lines of `LINE_LENGTH`, which part at a sign where they can; of a longer one the end."""
    if len(name) <= LINE_LENGTH:
        return (name,)
    name = name if len(name) <= 2 * LINE_LENGTH else f"…{name[1 - 2 * LINE_LENGTH :]}"
    cuts = range(len(name) - LINE_LENGTH, LINE_LENGTH + 1)
    cut = min(cuts, key=lambda at: (name[at - 1].isalnum(), abs(2 * at - len(name))))
    return name[:cut], name[cut:]


def _cores(
    lowered: LoweredPipeline, hardware: Hardware, usage: Usage, places: Sequence[GridPosition]
) -> Iterator[CoreMark]:
    by_core = {use.core: use for use in usage.cores}
    busiest = {use.core for use in usage.busiest_cores}
    columns = hardware.grid_columns or math.inf  # in no grid, cores are too small
    for core, place in enumerate(places):
        use = by_core.get(core)
        if use is None:
            yield CoreMark(core, place, None, "", (), False, (f"core {core}: idle",))
            continue
        number = f"{100 * use.share:.0f}" if columns <= MOST_NUMBERED else ""
        name = name_lines(stages_of(lowered, use)) if columns <= MOST_NAMED else ()
        yield CoreMark(core, place, use, number, name, core in busiest, _said_of_core(lowered, hardware, use))


def _said_of_core(lowered: LoweredPipeline, hardware: Hardware, use: CoreUse) -> tuple[str, ...]:
    stage = lowered.pipeline.stages[use.stage]
    if use.others:
        shown = [(n, lowered.pipeline.stages[n].name) for n in (use.stage, *use.others[: MOST_CARRIED - 1])]
        more = len(use.others) + 1 - len(shown)
        return (
            f"core {use.core}: {len(use.others) + 1} stages",
            *(f"{name}: {lowered.image_ticks[n]} ticks per image" for n, name in shown),
            *([f"and {more} more"] if more else []),
            f"{use.ticks} ticks per image: {100 * use.share:.1f} % busy",
            f"{use.sram_bytes} of {hardware.sram_bytes} bytes of SRAM",
        )
    matrix = f", matrix {stage.crossbar_rows} x {stage.crossbar_columns}" if stage.crossbar_rows else ""
    return (
        f"core {use.core}: {stage.name}",
        f"layer {stage.layer}, replica {stage.replica}{matrix}",
        f"{use.ticks} ticks per image ({stage.iterations} iterations of {lowered.ticks[use.stage]}): {100 * use.share:.1f} % busy",
        f"{use.sram_bytes} of {hardware.sram_bytes} bytes of SRAM",
    )


def _said_of_link(hardware: Hardware, use: LinkUse) -> tuple[str, ...]:
    heaviest = sorted(use.carried, key=lambda one: -one[1])
    more = len(heaviest) - MOST_CARRIED
    return (
        f"{node_name(hardware, use.source)} to {node_name(hardware, use.target)}",
        f"{use.load} {hardware.unit} per image, {use.ticks:g} ticks: {100 * use.share:.1f} % busy",
        *(f"{name}: {elements}" for name, elements in heaviest[:MOST_CARRIED]),
        *([f"and {more} more"] if more > 0 else []),
    )


def _ends(hardware: Hardware, places: Sequence[GridPosition], use: LinkUse) -> tuple[GridPosition, GridPosition]:
    """From border to border of what it joins, beside the line between the middles."""
    ax, ay = node_place(hardware, places, use.source, use.target, STUB)
    bx, by = node_place(hardware, places, use.target, use.source, STUB)
    length = math.hypot(bx - ax, by - ay) or 1.0
    dx, dy = (bx - ax) / length, (by - ay) / length
    out = (HALF + 0.02) / max(abs(dx), abs(dy), 0.1) if hardware.grid_columns else 0.1
    start = 0.0 if use.source == hardware.gmem else out
    end = 0.0 if use.target == hardware.gmem else out
    ox, oy = (-dy * BESIDE, dx * BESIDE) if hardware.grid_columns else (-dy * BESIDE_RING, dx * BESIDE_RING)
    return (ax + dx * start + ox, ay + dy * start + oy), (bx - dx * end + ox, by - dy * end + oy)


def _ports(hardware: Hardware, places: Sequence[GridPosition]) -> tuple[GridPosition, ...]:
    joined = [link for link in hardware.links if hardware.gmem in (link.source, link.target)]
    cores = [link.target if link.source == hardware.gmem else link.source for link in joined]
    return tuple({node_place(hardware, places, hardware.gmem, core, STUB) for core in cores})
