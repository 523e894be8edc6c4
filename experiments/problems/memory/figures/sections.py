"""The space's own figure: the address map of the best placement, beside that of the paper's allocator (Shiftry Section 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from kilotune.experiments.presentation.section import Block, Cell, Figure, Paragraph, Row, Section, Table
from kilotune.experiments.presentation.wording import counted, number
from kilotune.experiments.problems.memory.figures.address_map import address_map, profile_of
from kilotune.experiments.problems.memory.panels import NamedLayout, Panel, banks_of, panels_of
from kilotune.experiments.problems.paper_trials import papers_answer
from kilotune.experiments.problems.problem import Problem
from kilotune.search.front import Ranking
from kilotune.search.space import Trial
from kilotune.search.study import Study
from kilotune.spaces.memory.candidates import MemoryLayout
from kilotune.spaces.memory.ordered_space import OrderedSpace
from kilotune.spaces.memory.priced_space import PricedSpace
from kilotune.spaces.memory.space import MemorySpace

BEST, PAPER = "best placement", "paper's allocator"

MOST_ROWS = 100
"""The most buffers that the table lists, the largest ones."""


def draw(problem: Problem, study: Study) -> tuple[Section, ...]:
    """See `problems.drawing.Drawing`."""
    space = cast(MemorySpace | OrderedSpace | PricedSpace, study.space)
    best, paper = study.front.best, papers_answer(study)
    placements, missing = _placements(space, best, paper)
    blocks: list[Block] = [Paragraph(sentence) for sentence in missing]
    if placements and space.instance.buffers:
        trials = {BEST: best, PAPER: paper}
        blocks.insert(0, Row(tuple(_map(space, placed, placements, trials) for placed in placements)))
        blocks += _spilled(space, placements)
        blocks.append(_table(space, placements))
    elif placements:
        blocks.append(Paragraph("The instance has no buffers: nothing takes any byte."))
    return (Section("Address map", tuple(blocks)),)


def _placements(
    space: MemorySpace | OrderedSpace | PricedSpace, best: Trial | None, paper: Trial | None
) -> tuple[list[NamedLayout], list[str]]:
    """What can be drawn, and a sentence for each that cannot."""
    found: list[NamedLayout] = []
    missing: list[str] = []
    for name, trial in ((BEST, best), (PAPER, paper)):
        if trial is None:
            continue
        reason = trial.measurement.failure
        if reason is None:  # so the placement has been made and checked before
            found.append(NamedLayout(name, space.layout(trial.assignment), best=name == BEST))
        elif name == BEST:
            missing.append(f"No trial has a placement. The best one: {reason}")
        else:
            missing.append(f"The paper's allocator has no placement: {reason}")
    if len(found) == 2 and _same(found[0].layout, found[1].layout):
        found = [replace(found[0], name=f"{BEST}, the paper's")]
    return found, missing


def _same(one: MemoryLayout, other: MemoryLayout) -> bool:
    return set(one.residences) == set(other.residences)


def _map(
    space: MemorySpace | OrderedSpace | PricedSpace,
    placed: NamedLayout,
    placements: Sequence[NamedLayout],
    trials: Mapping[str, Trial | None],
) -> Figure:
    """One of the placements that stand side by side."""
    trial = trials[BEST if placed.best else PAPER]
    beside = [other for other in placements if other is not placed]
    if placed.best or len(placements) == 1:
        words = _description(space, trials[BEST])
    else:
        words = ["The same of the paper's allocator, with the same scales."]
    sentences = [*words, _peaks(space, placed, beside, trial), *_moved(placed), _profile(space, placed)]
    figure = address_map(space.instance, banks_of(space), placed, beside)
    return Figure(figure, " ".join(sentences), f"Address map, {placed.name}")


def _description(space: MemorySpace | OrderedSpace | PricedSpace, best: Trial | None) -> list[str]:
    """What is seen, whatever the placement."""
    sentences = [
        f"Time across, addresses up, a rectangle for each of {counted(len(space.instance.buffers), 'buffer')}."
    ]
    largest = space.largest_sum
    if isinstance(space, OrderedSpace):
        sentences.append(f"{space.sentence()[:1].upper()}{space.sentence()[1:]}.")
    elif len(banks_of(space)) == 1 and largest.buffers:
        live = counted(len(largest.buffers), "live buffer")
        takes = "takes" if len(largest.buffers) == 1 else "together take"
        sentences.append(
            f"At program point {largest.point}, {live} {takes} {counted(largest.peak_bytes, 'byte')}: no placement has a "
            "lower peak."
        )
    ranking = Ranking.of(space)
    if best is not None and best.measurement.failure is None and ranking.violation(best.measurement) > 0:
        sentences.append("No placement found keeps the limits; this is the nearest.")
    return sentences


def _moved(placed: NamedLayout) -> list[str]:
    moves = placed.layout.migrations
    if not moves:
        return []
    total = sum(m.size for m in moves)
    return [f"The {placed.name} moves {counted(total, 'byte')} in {counted(len(moves), 'move')}, the arrows."]


def _peaks(
    space: MemorySpace | OrderedSpace | PricedSpace,
    placed: NamedLayout,
    beside: Sequence[NamedLayout],
    trial: Trial | None,
) -> str:
    """The bytes of every bank, and the cost where there are prices."""
    panels = panels_of(space.instance, banks_of(space), (placed, *beside))
    cost = ""
    if isinstance(space, PricedSpace) and trial is not None:
        cost = f", a cost of {number(trial.measurement.metrics['cost'])}"
    peaks = " and ".join(_peak(panel) for panel in panels if panel.placed is placed)
    return f"The {placed.name} has a peak of {peaks}{cost}."


def _peak(panel: Panel) -> str:
    capacity = panel.bank.capacity_bytes
    of = "" if capacity is None else f" of {capacity}"
    where = f" in {panel.bank.name}" if panel.bank.name else ""
    return f"{panel.peak_bytes}{of} bytes{where}"


def _profile(space: MemorySpace | OrderedSpace | PricedSpace, placed: NamedLayout) -> str:
    """The lowest panel."""
    size = {b.id: b.size for b in space.instance.buffers}
    live, used = profile_of(size, banks_of(space), placed)
    return f"The lowest panel: at most {live.largest} bytes are live at a time, and at most {used.largest} in use."


def _spilled(space: MemorySpace | OrderedSpace | PricedSpace, placements: Sequence[NamedLayout]) -> list[Block]:
    """Constants in read-only banks."""
    read_only = {bank.name for bank in banks_of(space) if bank.read_only}
    if not read_only:
        return []
    homes = [{r.id: r.bank for r in placed.layout.residences} for placed in placements]
    rows: list[tuple[Cell, ...]] = [
        (b.id, b.size, *(home[b.id] for home in homes))
        for b in space.instance.buffers
        if any(home.get(b.id) in read_only for home in homes)
    ]
    if not rows:
        return [Paragraph("No constant stays in a read-only bank.")]
    columns = ("constant", "bytes", *(f"bank, {placed.name}" for placed in placements))
    return [Table(columns, rows, f"{counted(len(rows), 'constant')} in read-only memory")]


def _table(space: MemorySpace | OrderedSpace | PricedSpace, placements: Sequence[NamedLayout]) -> Table:
    """A row a buffer: where it lies; where it moves, its first address."""
    where: list[dict[str, list[str]]] = []
    for placed in placements:
        own: dict[str, list[str]] = {}
        for r in sorted(placed.layout.residences, key=lambda r: r.lower):
            own.setdefault(r.id, []).append(f"{r.bank} {r.offset}".strip())
        where.append(own)
    buffers = sorted(space.instance.buffers, key=lambda b: -b.size)
    rows: list[tuple[Cell, ...]] = []
    for b in buffers[:MOST_ROWS]:
        rows.append((b.id, b.size, b.lower, b.upper, *(_address(own.get(b.id, [])) for own in where)))
    columns = ("buffer", "bytes", "live from", "until before", *(f"address, {placed.name}" for placed in placements))
    most = len(buffers) > MOST_ROWS
    which = f"The {MOST_ROWS} largest of {len(buffers)} buffers" if most else "All buffers"
    return Table(columns, rows, which)


def _address(places: Sequence[str]) -> Cell:
    """One plain address as a number, so that the column sorts as such."""
    if len(places) == 1 and places[0].isdigit():
        return int(places[0])
    return f"{places[0]}, moves {counted(len(places) - 1, 'time')}" if len(places) > 1 else ", ".join(places)
