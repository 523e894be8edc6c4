"""The space's own figures: when each unit works, what it takes, and of how much of the whole that is."""

from __future__ import annotations

from collections.abc import Iterator

import plotly.graph_objects as go

from kilotune.codegen.rtl.plan import HardwarePlan
from kilotune.codegen.rtl.timeline import Timeline
from kilotune.codegen.rtl.units import Item, Repeat
from kilotune.evaluators.fpga.cost_model import unit_gates
from kilotune.experiments.presentation.palette import BLUE, ORANGE
from kilotune.experiments.presentation.section import Figure, Section
from kilotune.experiments.presentation.text import plotly_text
from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.fpga.figures.floor_plan import floor_plan_figure
from kilotune.experiments.problems.fpga.problem import HardwareProblem
from kilotune.experiments.problems.placing import kept_placing
from kilotune.experiments.problems.problem import Problem
from kilotune.search.study import Study

UnitBar = tuple[str, int, int]
"""A unit's name, its first cycle and its last one's end."""


def draw(problem: Problem, study: Study) -> tuple[Section, ...]:
    """The schedule of the candidate to be used (the one that the board has room for, where some were placed), and its look-up tables by
    operation."""
    placing = kept_placing(study)
    best = study.result().best if placing is None or placing.held is None else placing.held.trial
    if not isinstance(problem, HardwareProblem) or best is None or best.measurement.failure is not None:
        return ()
    plan = problem.space.plan(best.assignment)
    bars = tuple(schedule_bars(plan))
    said = (
        f"Cycles from the first feature to the result, {plan.cycles} in all; of a loop only the first time around is shown, and how often "
        "it goes around is said."
    )
    schedule = Figure(schedule_figure(bars), said, "Schedule of the best hardware")
    shares = Figure(
        gates_figure(plan, problem),
        "Look-up tables of each operation and its cycles, summed over all times around.",
        "LUTs by operation",
    )
    floor = Figure(
        floor_plan_figure(plan, problem.space.board),
        "Predicted look-up tables as areas: operations (blue), memories (orange), the controller (green). Where a tile lies means nothing.",
        "Floor plan by operation",
    )
    return (
        Section("The schedule", (schedule,)),
        Section("The floor plan", (floor,)),
        Section("Gates and cycles by operation", (shares,)),
    )


def schedule_bars(plan: HardwarePlan) -> Iterator[UnitBar]:
    """The input, then each unit in its first time around."""
    yield "input", 0, plan.input_beats
    yield from _bars(plan.items, plan.timeline, plan.input_beats)


def _bars(items: tuple[Item, ...], timeline: Timeline, begin: int) -> Iterator[UnitBar]:
    for number, (item, start) in enumerate(zip(items, timeline.starts, strict=True)):
        if isinstance(item, Repeat):
            yield f"loop {item.index}, {counted(item.count, 'time')}", begin + start.begin, begin + start.end
            yield from _bars(item.body, timeline.inner[number], begin + start.begin + 1)
        else:
            yield item.name, begin + start.begin, begin + start.end


def schedule_figure(bars: tuple[UnitBar, ...]) -> go.Figure:
    """A Gantt chart: a row a unit, the first on top."""
    figure = go.Figure(
        go.Bar(
            base=[first for _, first, _ in bars],
            x=[end - first for _, first, end in bars],
            y=list(range(len(bars))),
            orientation="h",
            marker={"color": [ORANGE if name.startswith("loop ") else BLUE for name, _, _ in bars]},
            hovertext=[plotly_text(f"{name}: cycles {first} to {end}") for name, first, end in bars],
            hoverinfo="text",
            showlegend=False,
        )
    )
    figure.update_yaxes(
        tickvals=list(range(len(bars))),
        ticktext=[plotly_text(name) for name, _, _ in bars],
        range=[len(bars) - 0.4, -0.6],
        fixedrange=True,
    )
    figure.update_xaxes(title="cycles", rangemode="tozero")
    figure.update_layout(height=18 * len(bars) + 130, bargap=0.2)
    return figure


def gates_figure(plan: HardwarePlan, problem: HardwareProblem) -> go.Figure:
    """Look-up tables beside cycles, a row a unit."""
    times = dict(_times(plan.items, 1))
    names = [unit.name for unit in plan.units]
    luts = [unit_gates(unit, plan, problem.space.board).luts for unit in plan.units]
    cycles = [unit.duration * times[unit.name] for unit in plan.units]
    figure = go.Figure()
    for values, title, colour, axis in ((luts, "LUTs", BLUE, "x"), (cycles, "cycles", ORANGE, "x2")):
        figure.add_bar(
            x=values,
            y=[plotly_text(name) for name in names],
            orientation="h",
            name=title,
            marker={"color": colour},
            xaxis=axis,
            offsetgroup=title,
        )
    figure.update_layout(
        xaxis={"title": "LUTs", "domain": [0, 0.47]},
        xaxis2={"title": "cycles", "domain": [0.53, 1], "anchor": "y"},
        yaxis={"autorange": "reversed"},
        height=22 * len(names) + 150,
    )
    return figure


def _times(items: tuple[Item, ...], around: int) -> Iterator[tuple[str, int]]:
    for item in items:
        if isinstance(item, Repeat):
            yield from _times(item.body, around * item.count)
        else:
            yield item.name, around
