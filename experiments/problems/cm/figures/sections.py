"""The space's own figures: cores and link loads, what is busiest, the pipeline over time, and the paper's embedding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from typing import cast

from kilotune.codegen.cm.mapping import Mapping, sram_bytes
from kilotune.evaluators.cm.timing import simulate_whole
from kilotune.experiments.presentation.section import Block, Cell, Figure, Paragraph, Row, Section, Table
from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.cm.figures.busy_figures import busiest_figure, pipeline_figure
from kilotune.experiments.problems.cm.figures.mesh_figure import mesh_figure
from kilotune.experiments.problems.cm.mesh import mesh_of, node_name
from kilotune.experiments.problems.cm.pipeline_bars import DRAWN_IMAGES, pipeline_chart
from kilotune.experiments.problems.cm.utilisation import Usage, stages_of, usage_of
from kilotune.experiments.problems.paper_trials import ProcedureKey
from kilotune.experiments.problems.problem import Problem
from kilotune.search.candidates import first_candidate
from kilotune.search.space import Assignment, Measurement
from kilotune.search.study import Study
from kilotune.spaces.cm.bit_candidates import BitCandidates
from kilotune.spaces.cm.buffers import AS_HELD
from kilotune.spaces.cm.lowered import LoweredPipeline
from kilotune.spaces.cm.procedure import MOST_LINKS, embedded_cores, embedding_of, snake_candidate
from kilotune.spaces.cm.space import CmSpace

EMBEDDING_SECONDS = 2.0
EMBEDDING_LITERALS = 100_000
"""A report does not wait for a solver longer than that, nor does it write down larger formulas."""

NARROW_PX = 520
"""A mesh on a phone: as high as wide, and its legend."""

NAMED = 3
"""Cores or links that a sentence names."""

COMPARED = (
    ("ticks_per_image", "ticks per image"),
    ("latency_ticks", "latency, ticks"),
    ("cores", "cores"),
    ("sram_bytes", "SRAM bytes"),
    ("promised_ticks", "ticks of the busiest core or link"),
    ("longest_route_links", "links of the longest route"),
)


@dataclass(frozen=True)
class _Mapped:
    """A candidate as it is drawn."""

    space: CmSpace
    lowered: LoweredPipeline
    mapping: Mapping
    measurement: Measurement

    @property
    def ticks(self) -> float:
        """From one image to the next, as measured."""
        return self.measurement.metrics["ticks_per_image"]

    @property
    def usage(self) -> Usage:
        return usage_of(self.lowered, self.space.hardware, self.mapping, self.ticks)


def draw(problem: Problem, study: Study) -> tuple[Section, ...]:
    """See `problems.drawing.Drawing`."""
    result = study.result()
    best = result.best
    title = "Cores and links"
    if best is None or best.measurement.failure is not None or "ticks_per_image" not in best.measurement.metrics:
        why = "" if best is None or best.measurement.failure is None else f" {best.measurement.failure}"
        return (Section(title, (Paragraph(f"No candidate runs yet, so there is no mapping to draw.{why}"),)),)
    asked = problem.space
    space = asked.at(best.assignment) if isinstance(asked, BitCandidates) else cast(CmSpace, asked)
    mapped = _mapped(space, best.assignment, best.measurement)
    head: tuple[Block, ...] = ()
    if not result.feasible:
        head = (Paragraph("No mapping found keeps the constraints yet; the nearest is drawn."),)
    usage, hardware = mapped.usage, space.hardware
    mesh = _mesh(mapped, f"The best mapping, trial {best.number}", "Cores and links, best mapping")
    beside, paper = _paper(space, study, mapped)
    busiest = busiest_figure(mapped.lowered, hardware, usage, mapped.ticks, result.bound)
    return (
        Section(
            title,
            (*head, Row((mesh, *beside)), _stages(mapped)),
        ),
        Section("The busiest cores and links", (Figure(busiest, _busiest_words(mapped, result.bound)),)),
        Section("The pipeline over time", (_pipeline(mapped),)),
        Section("The paper's embedding", paper),
    )


def _mapped(space: CmSpace, assignment: Assignment, measurement: Measurement) -> _Mapped:
    lowered = space.lowered(space.replicas(assignment))
    return _Mapped(space, lowered, space.mapping(assignment), measurement)


def _mesh_words(mapped: _Mapped, what: str) -> str:
    usage, hardware = mapped.usage, mapped.space.hardware
    loaded = [use for use in usage.links if use.load]
    mean = 100 * sum(use.share for use in usage.cores) / len(usage.cores)
    cores = [f"core {use.core} ({stages_of(mapped.lowered, use)})" for use in usage.busiest_cores]
    core = usage.busiest_cores[0]
    mark = "A square is a core with the share of these ticks in which it is busy and the stage that it runs"
    if not hardware.grid_columns:
        mark = "A circle is a core"
    words = (
        f"{what}: {mapped.space.network.name} on {len(usage.cores)} of {counted(hardware.cores, 'core')} of {hardware.name}, "
        f"{mapped.ticks:g} "
        f"ticks per image. {mark}: the darker, the busier, {mean:.0f} % of these ticks on average. The busiest, outlined: "
        f"{_listed(cores)} with {core.ticks} ticks, {100 * core.share:.1f} %. "
    )
    if usage.busiest_links:
        link = usage.busiest_links[0]
        names = [f"{node_name(hardware, u.source)} to {node_name(hardware, u.target)}" for u in usage.busiest_links]
        words += (
            f"Arrows are links, on the right of their direction, the wider the busier; {len(loaded)} of {len(usage.links)} carry "
            f"something. The busiest, starred: {_listed(names)} with {link.load} {hardware.unit} per image, {100 * link.share:.1f} %."
        )
    return words


def _stages(mapped: _Mapped) -> Table:
    rows: list[Sequence[Cell]] = []
    lowered, mapping = mapped.lowered, mapped.mapping
    used = sram_bytes(lowered.streams, mapping.capacities, len(mapping.cores))
    for stage, core, ticks, size in zip(lowered.pipeline.stages, mapping.cores, lowered.image_ticks, used, strict=True):
        rows.append((stage.name, stage.layer, stage.replica, core, ticks, round(100 * ticks / mapped.ticks, 1), size))
    columns = ("stage", "layer", "replica", "core", "ticks per image", "busy, %", "SRAM bytes")
    return Table(columns, rows, f"What runs where: {counted(len(rows), 'stage')}.")


def _busiest_words(mapped: _Mapped, bound: float | None) -> str:
    usage = mapped.usage
    core = usage.busiest_cores[0].ticks
    link = usage.busiest_links[0].ticks if usage.busiest_links else 0.0
    most = max(core, link)
    which = "a core" if core > link else "a link" if link > core else "cores and links alike"
    words = (
        f"The busiest core takes {core} ticks per image, the busiest link {link:g}: what limits the pipeline is {which}. "
        f"Measured are {mapped.ticks:g} ticks per image"
    )
    waiting = mapped.ticks - math.ceil(most)
    words += (
        ", no more than that."
        if waiting <= 0
        else f": {waiting:g} more, for packets meet on links and buffers are finite."
    )
    return words if bound is None else f"{words} No mapping takes less than {bound:g}."


def _pipeline(mapped: _Mapped) -> Block:
    space, lowered = mapped.space, mapped.lowered
    finish, starts = simulate_whole(space.setting(lowered, mapped.mapping), DRAWN_IMAGES)
    stages = lowered.pipeline.stages
    finished = [int(tick) for tick in finish]
    later = [str(after - before) for before, after in pairwise(finished)]
    chart = pipeline_chart(lowered, starts)
    rows = len(chart.rows)
    shown = counted(len(stages), "stage") if rows == len(stages) else f"The {rows} busiest of {len(stages)} stages"
    words = (
        f"{shown}, a row each, over the first {DRAWN_IMAGES} images, which leave at ticks {', '.join(map(str, finished))}: the first "
        f"takes {finished[0]}, the others follow {' and '.join(later)} ticks later. "
        "A colour and a pattern are an image; where a bar is pale, the stage waits between its iterations."
    )
    return Figure(pipeline_figure(chart), words)


def _mesh(mapped: _Mapped, what: str, title: str, more: str = "") -> Figure:
    """A mapping on its accelerator; on a phone no higher than its width needs."""
    figure = mesh_figure(mesh_of(mapped.lowered, mapped.space.hardware, mapped.usage))
    return Figure(figure, _mesh_words(mapped, what) + more, title, min(figure.layout.height, NARROW_PX))


def _paper(space: CmSpace, study: Study, best: _Mapped) -> tuple[tuple[Figure, ...], tuple[Block, ...]]:
    """The mesh that stands beside that of the best mapping, and what its section says."""
    candidate = embedded_in(space, study) or paper_candidate(space)
    if candidate is None:
        text = (
            f"Left out: within {EMBEDDING_SECONDS:g} s no solver finds the paper's placement (cmnnc, Section 3.1: every layer once, "
            f"connected ones as near as possible) on {space.hardware.name}."
        )
        return (), (Paragraph(text),)
    measurement = study.book.measurement(candidate) or space.measure(candidate)
    if measurement.failure is not None:
        return (), (Paragraph(f"The paper's placement does not run: {measurement.failure}"),)
    paper = _mapped(space, candidate, measurement)
    rows = [(title, best.measurement.metrics.get(name), measurement.metrics.get(name)) for name, title in COMPARED]
    times = paper.ticks / best.ticks
    words = f"It takes {times:.3g} times the ticks of the best mapping ({best.ticks:g})."
    figure = _mesh(
        paper, "The paper's placement, every layer once", "Cores and links, the paper's placement", f" {words}"
    )
    drawn = Paragraph(f"The paper's placement is drawn beside the best mapping. {words}")
    table = Table(("metric", "best mapping", "paper's placement"), rows, "The best mapping beside the paper's.")
    return (figure,), (drawn, table)


def embedded_in(space: CmSpace, study: Study) -> Assignment | None:
    """The paper's placement as a study has found it, which began with the paper's procedure; None where that had no time, or found
    none. The procedure's trials come first, but for a short search's: its baselines, then the placement, unless that is a baseline
    itself."""
    if not study.procedure_first:
        return None
    once, balanced = snake_candidate(space, balanced=False), snake_candidate(space, balanced=True)
    before = [once] if balanced == once else [once, balanced]
    opening = [trial.assignment for trial in islice(study.each_trial(), len(before) + 2)]
    short = f"buffer {space.shapes[0].name}"  # a short search's has buffers as held, which no procedure has
    *first, following = [one for one in opening if one.get(short) != AS_HELD][: len(before) + 1]
    if first != before:  # not even the baselines, or nothing after them
        return None
    cores = _cores(space, following)
    if min(cores) >= 0 and following == space.candidate({}, cores) and following != first_candidate(space):
        return following
    cores = _cores(space, once)
    links = 1 if space.strict else MOST_LINKS
    in_order = cores == list(range(len(cores)))  # the one placement that is tried without a solver
    return once if in_order and embedding_of(space.lowered({}), space, links).holds(cores) else None


def _cores(space: CmSpace, candidate: Assignment) -> list[int]:
    """The cores of the stages without replicas; -1 for one that the candidate does not have."""
    return [int(candidate.get(f"core {stage.name}", -1)) for stage in space.lowered({}).pipeline.stages]


def paper_candidate(space: CmSpace) -> Assignment | None:
    """The paper's placement, where a solver finds one quickly."""
    return _paper_candidate(ProcedureKey.of(space))


@lru_cache(maxsize=16)
def _paper_candidate(asked: ProcedureKey[CmSpace]) -> Assignment | None:
    cores = embedded_cores(asked.space, EMBEDDING_SECONDS, EMBEDDING_LITERALS, refute_first=True)
    return None if cores is None else asked.space.candidate({}, cores)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
