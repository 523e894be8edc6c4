"""What the picture of a placement shows, whatever draws it: a panel a bank, in it a rectangle for each residence of a buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kilotune.experiments.presentation.palette import BLUE, LINE_COLOURS, NEUTRAL, VERMILLION
from kilotune.spaces.memory.banks import Bank
from kilotune.spaces.memory.bounds import largest_live_sum
from kilotune.spaces.memory.candidates import MemoryLayout
from kilotune.spaces.memory.checker import Migration, Residence
from kilotune.spaces.memory.instance import Buffer, Instance
from kilotune.spaces.memory.ordered_space import OrderedSpace
from kilotune.spaces.memory.priced_space import PricedSpace
from kilotune.spaces.memory.space import MemorySpace

MOST_LABELS, SMALLEST_LABELLED = 40, 0.004
"""Rectangles that carry their name: how many, and the share of the panel's area that is enough."""

MANY = 1500
"""Edges of more rectangles are thin lines, so that their colours show."""

FEW_MOVES = 40
"""Buffers of so few moves have thick edges."""

FAR = 1.6
"""A capacity so many times the peak is not drawn: the rectangles would be flat."""


@dataclass(frozen=True)
class NamedLayout:
    """A placement under its name; `best`: the best trial's, which is drawn first."""

    name: str
    layout: MemoryLayout
    best: bool


@dataclass(frozen=True)
class Panel:
    """What one placement puts in one bank. Sizes in bytes; `least_bytes`: no placement of these buffers has a lower peak."""

    placed: NamedLayout
    bank: Bank
    residences: tuple[Residence, ...]
    migrations: tuple[Migration, ...]
    peak_bytes: int
    least_bytes: int

    @property
    def extent(self) -> str:
        """How far it is filled: `addresses up to 288 of 512`."""
        of = "" if self.bank.capacity_bytes is None else f" of {self.bank.capacity_bytes}"
        return f"addresses up to {self.peak_bytes}{of}"


def panels_of(instance: Instance, banks: Sequence[Bank], placements: Sequence[NamedLayout]) -> list[Panel]:
    """Banks in their order, in each the placements; banks that hold nothing in any of them are left out."""
    size = {b.id: b.size for b in instance.buffers}
    first, last = time_span(instance)
    found = []
    for bank in banks:
        if not any(r.bank == bank.name for placed in placements for r in placed.layout.residences):
            continue
        for placed in placements:
            own = [r for r in placed.layout.residences if r.bank == bank.name]
            buffers = _as_placed(instance, own)
            if bank.read_only:  # what is there stays for the whole program
                own = [replace(r, lower=first, upper=last) for r in own]
                buffers = tuple(replace(b, lower=first, upper=last) for b in buffers)
            moves = tuple(m for m in placed.layout.migrations if m.bank == bank.name)
            peak = max((r.offset + size[r.id] for r in own), default=0)
            least = largest_live_sum(Instance(instance.name, buffers)).peak_bytes
            found.append(Panel(placed, bank, tuple(own), moves, peak, least))
    return found


def _as_placed(instance: Instance, residences: Sequence[Residence]) -> tuple[Buffer, ...]:
    """The buffers of these residences, alive as they are: an order of execution may have changed when that is."""
    lives: dict[str, tuple[int, int]] = {}
    for r in residences:
        lower, upper = lives.get(r.id, (r.lower, r.upper))
        lives[r.id] = (min(lower, r.lower), max(upper, r.upper))
    return tuple(replace(b, lower=lives[b.id][0], upper=lives[b.id][1]) for b in instance.buffers if b.id in lives)


@dataclass(frozen=True)
class BufferRectangle:
    """A residence of a buffer that takes bytes: program points [lower, upper), addresses [base, base + size). `edge`: the width of
    its line in pixels."""

    id: str
    lower: int
    upper: int
    base: int
    size: int
    colour: str
    labelled: bool
    edge: float

    @property
    def said(self) -> tuple[str, ...]:
        """Lines about it, besides its name."""
        return (
            f"{self.size} bytes",
            f"addresses {self.base} to {self.base + self.size} (excluded)",
            f"live in [{self.lower}, {self.upper})",
        )


def rectangles_of(panel: Panel, instance: Instance, top: float) -> list[BufferRectangle]:
    """What is drawn of a panel whose address axis ends at `top`, in the order of the residences."""
    size = {b.id: b.size for b in instance.buffers}
    colour_of = {b.id: LINE_COLOURS[i % len(LINE_COLOURS)] for i, b in enumerate(instance.buffers)}
    first, last = time_span(instance)
    shown = [r for r in panel.residences if size[r.id]]
    areas = np.array([(r.upper - r.lower) * size[r.id] for r in shown], dtype=np.float64)
    large = set(np.argsort(-areas, kind="stable")[:MOST_LABELS].tolist())
    large = {k for k in large if areas[k] >= SMALLEST_LABELLED * (last - first) * top}
    moved = {m.id for m in panel.migrations}
    thin = 0.7 if len(shown) <= MANY else 0.2
    thick = moved if len(moved) <= FEW_MOVES else set[str]()
    return [
        BufferRectangle(
            *(r.id, r.lower, r.upper, r.offset, size[r.id], colour_of[r.id], k in large),
            2.2 if r.id in thick else thin,
        )
        for k, r in enumerate(shown)
    ]


def time_span(instance: Instance) -> tuple[int, int]:
    """First program point and one past the last."""
    first = min((b.lower for b in instance.buffers), default=0)
    return first, max((b.upper for b in instance.buffers), default=first + 1)


def top_of(panels: Sequence[Panel]) -> float:
    """Where the address axis of a bank ends: above the peaks, and above the capacity where that is not far."""
    peak = max(p.peak_bytes for p in panels)
    capacity = panels[0].bank.capacity_bytes
    if capacity is not None and capacity <= FAR * peak:
        peak = max(peak, capacity)
    return 1.06 * max(peak, 1)


def levels_of(panel: Panel, top: float) -> list[tuple[str, int, str, str]]:
    """Lines across a panel: name, bytes, dash, colour."""
    lines = [("peak", panel.peak_bytes, "solid", VERMILLION), ("largest live sum", panel.least_bytes, "dot", BLUE)]
    capacity = panel.bank.capacity_bytes
    if capacity is not None and capacity <= top:
        lines.append(("capacity", capacity, "longdash", NEUTRAL))
    return lines


def banks_of(space: MemorySpace | OrderedSpace | PricedSpace) -> tuple[Bank, ...]:
    """A plain placement has one bank without a name."""
    if isinstance(space, PricedSpace):
        return space.memory.banks
    return (Bank("", space.capacity_bytes),)
