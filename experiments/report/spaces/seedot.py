"""The space's own figure: the maxscale curve (SeeDot Section 7.5, Figure 13)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

import plotly.graph_objects as go

from kilotune.experiments.problem import Problem
from kilotune.experiments.report.palette import GREEN, LINE_COLOURS, NEUTRAL, VERMILLION
from kilotune.experiments.report.section import Figure, Paragraph, Section, Table
from kilotune.experiments.report.spaces.canvas import counted, empty_figure, level_line, number
from kilotune.experiments.report.spaces.paper_trials import papers_answer
from kilotune.search.front import Ranking
from kilotune.search.space import Trial
from kilotune.search.study import Study
from kilotune.spaces.seedot.space import SeeDotSpace

Choice = tuple[int, int]
"""Bitwidth B, maxscale P."""

LOOKS = (
    (8, LINE_COLOURS[3], "dashdot", "square"),
    (16, LINE_COLOURS[0], "solid", "circle"),
    (32, LINE_COLOURS[1], "dash", "triangle-up"),
)
"""Bitwidth, colour, dash, marker."""

LOG_FROM = 50.0
"""Losses whose largest is so many times the smallest stand on a logarithmic axis."""

LIMITED = (
    ("flash_bytes", "flash", "bytes"),
    ("ram_bytes", "RAM", "bytes"),
    ("cycles", "cycles", ""),
    ("latency_ms", "latency", "ms"),
)


def draw(problem: Problem, study: Study) -> tuple[Section, ...]:
    """See `report.section.Drawing`."""
    space = cast(SeeDotSpace, study.space)
    trials = study.trials()
    metric = space.objectives[0].metric
    curve = best_by_choice(space, trials)
    title = "Accuracy by maxscale" if metric == "accuracy_percent" else "Precision loss by maxscale"
    if not curve:
        return (Section(title, (Paragraph(_nothing(trials)),)),)
    best = study.front.best
    paper = papers_answer(study)
    figure = maxscale_figure(space, curve, paper, best)
    described = _description(space, curve, trials, paper, best)
    return (Section(title, (Figure(figure, described), _table(space, curve))),)


def best_by_choice(space: SeeDotSpace, trials: Sequence[Trial]) -> dict[Choice, Trial]:
    """The best trial of every (B, P) over the decisions about exponential tables, in the study's own order: what keeps the
    limits goes before what does not. Trials without a measurement are left out."""
    ranking, metric = Ranking.of(space), space.objectives[0].metric
    found: dict[Choice, tuple[tuple[float, ...], int, Trial]] = {}
    for trial in trials:
        value = trial.measurement.metrics.get(metric, math.nan)
        if trial.measurement.failure is not None or not math.isfinite(value):
            continue
        choice = _choice(trial)
        entry = (ranking.rank(trial.measurement), trial.number, trial)
        if choice not in found or entry[:2] < found[choice][:2]:
            found[choice] = entry
    return {choice: found[choice][2] for choice in sorted(found)}


def maxscale_figure(
    space: SeeDotSpace, curve: Mapping[Choice, Trial], paper: Trial | None, best: Trial | None
) -> go.Figure:
    """A line a bitwidth with a gap where nothing is measured; hollow marks break a limit."""
    metric, ranking = space.objectives[0].metric, Ranking.of(space)
    figure = empty_figure(440)
    widest = max(bits for bits, _ in curve)
    for bits, colour, dash, symbol in LOOKS:
        if not any(b == bits for b, _ in curve):
            continue
        own = [curve.get((bits, scale)) for scale in range(bits)]
        hollow = [t is not None and ranking.violation(t.measurement) > 0 for t in own]
        figure.add_scatter(
            x=list(range(bits)),
            y=[None if t is None else t.measurement.metrics[metric] for t in own],
            text=["" if t is None else _hover(space, t) for t in own],
            mode="lines+markers",
            name=f"{bits} bits",
            connectgaps=False,
            line={"color": colour, "dash": dash, "width": 2},
            marker={
                "symbol": [f"{symbol}-open" if h else symbol for h in hollow],
                "size": 8,
                "color": colour,
                "line": {"width": [2 if h else 0 for h in hollow], "color": colour},
            },
            hovertemplate="%{text}<extra></extra>",
        )
    float_accuracy = _float_accuracy(space)
    if float_accuracy is not None:
        name = f"float model: {number(float_accuracy)} %"
        figure.add_trace(level_line(name, (0, widest - 1), float_accuracy, "dot", NEUTRAL))
    for title, trial, symbol, colour, size in (
        ("paper's choice", paper, "diamond-open", VERMILLION, 19),
        ("best trial", best, "star", GREEN, 13),
    ):
        if trial is None or metric not in trial.measurement.metrics:
            continue
        figure.add_scatter(
            x=[_choice(trial)[1]],
            y=[trial.measurement.metrics[metric]],
            mode="markers",
            name=f"{title}: {_named(trial)}",
            marker={"symbol": symbol, "size": size, "color": colour, "line": {"width": 3 if "open" in symbol else 0}},
            hovertemplate=f"{title}<br>{_hover(space, trial)}<extra></extra>",
        )
    figure.update_xaxes(title="maxscale P", range=[-0.6, widest - 0.4], dtick=2 if widest > 16 else 1, zeroline=False)
    figure.update_yaxes(zeroline=False, title="training accuracy, %")
    if metric != "accuracy_percent":
        values = [t.measurement.metrics[metric] for t in curve.values()]
        wide = min(values) > 0 and max(values) > LOG_FROM * min(values)
        figure.update_yaxes(title="precision loss", exponentformat="power")
        if wide:
            figure.update_yaxes(type="log", dtick=1)
    return figure


def _choice(trial: Trial) -> Choice:
    return int(trial.assignment["bitwidth"]), int(trial.assignment["maxscale"])


def _named(trial: Trial) -> str:
    bits, scale = _choice(trial)
    return f"{bits} bits, P = {scale}"


def _whole(space: SeeDotSpace, trial: Trial) -> str:
    """With the decisions about tables."""
    if not space.exponentials:
        return _named(trial)
    return f"{_named(trial)} (T = {trial.assignment['table_index_bits']}, coverage {trial.assignment['coverage']})"


def _float_accuracy(space: SeeDotSpace) -> float | None:
    """In percent; None for a numerical model, whose losses are measured from the float model's outputs."""
    return space.evaluator.float_metrics.get("accuracy_percent") if _classifies(space) else None


def _classifies(space: SeeDotSpace) -> bool:
    return space.objectives[0].metric == "accuracy_percent"


def _quality(space: SeeDotSpace, trial: Trial) -> str:
    value = number(trial.measurement.metrics[space.objectives[0].metric])
    return f"{value} %" if _classifies(space) else f"a precision loss of {value}"


def _hover(space: SeeDotSpace, trial: Trial) -> str:
    metrics = trial.measurement.metrics
    lines = [f"{_named(trial)}: {_quality(space, trial)}"]
    if space.exponentials:
        lines.append(f"exp tables: T = {trial.assignment['table_index_bits']}, coverage {trial.assignment['coverage']}")
    lines.append(f"flash {number(metrics['flash_bytes'])} bytes, RAM {number(metrics['ram_bytes'])} bytes")
    if "cycles" in metrics:
        lines.append(f"{number(metrics['cycles'])} cycles, {number(metrics['latency_ms'])} ms (predicted)")
    lines += [f"over the limit: {text}" for text in _broken(space, trial)]
    return "<br>".join(lines)


def _broken(space: SeeDotSpace, trial: Trial) -> list[str]:
    """The limits that a trial breaks."""
    metrics, units = trial.measurement.metrics, {metric: (label, unit) for metric, label, unit in LIMITED}
    broken = []
    for constraint in space.constraints:
        if constraint.violation(metrics) > 0:
            label, unit = units[constraint.metric]
            broken.append(f"{label} {number(metrics[constraint.metric])} of {number(constraint.limit)} {unit}".strip())
    return broken


def _description(
    space: SeeDotSpace, curve: Mapping[Choice, Trial], trials: Sequence[Trial], paper: Trial | None, best: Trial | None
) -> str:
    """What is seen, in numbers."""
    what = "Training accuracy" if _classifies(space) else "Precision loss (the largest error of an output)"
    over = ", the best over the decisions about exponential tables" if space.exponentials else ""
    sentences = [f"{what} by maxscale P, a line a bitwidth{over}."]
    sentences += _answers(space, paper, best)
    reference = _float_accuracy(space)
    if reference is not None:
        sentences.append(f"The float model reaches {number(reference)} %.")
    possible = sum(space.options.bitwidths)
    if len(curve) < possible:
        sentences.append(f"{len(curve)} of {possible} pairs of B and P are measured; the others are gaps.")
    ranking = Ranking.of(space)
    broken = sum(ranking.violation(t.measurement) > 0 for t in curve.values())
    if broken:
        limits = ", ".join(
            f"{label} of {number(c.limit)} {unit}".strip()
            for c in space.constraints
            for m, label, unit in LIMITED
            if m == c.metric
        )
        sentences.append(f"Hollow marks: {counted(broken, 'pair')} over a limit ({limits}).")
    failed = sum(t.measurement.failure is not None for t in trials)
    if failed:
        sentences.append(f"{counted(failed, 'trial')} failed.")
    return " ".join(sentences)


def _answers(space: SeeDotSpace, paper: Trial | None, best: Trial | None) -> list[str]:
    """The paper's choice and the best trial."""
    verb = "keeps" if _classifies(space) else "has"
    metric, ranking = space.objectives[0].metric, Ranking.of(space)
    same = paper is not None and best is not None and dict(best.assignment) == dict(paper.assignment)
    sentences = []
    if paper is None:
        sentences.append("The paper's choice is not known yet: its brute force takes longer than a page may.")
    elif metric in paper.measurement.metrics:
        over = "" if ranking.violation(paper.measurement) == 0 else ", over a limit"
        also = ", and no trial is better" if same else ""
        sentences.append(f"The paper's choice, {_whole(space, paper)}, {verb} {_quality(space, paper)}{over}{also}.")
    if best is not None and not same and metric in best.measurement.metrics:
        title = (
            "The best trial" if ranking.violation(best.measurement) == 0 else "No trial keeps the limits; the nearest"
        )
        sentences.append(f"{title}, {_whole(space, best)}, {verb} {_quality(space, best)}.")
    return sentences


def _table(space: SeeDotSpace, curve: Mapping[Choice, Trial]) -> Table:
    """The best P of every bitwidth, and how much P matters."""
    metric, ranking = space.objectives[0].metric, Ranking.of(space)
    label = "accuracy, %" if _classifies(space) else "precision loss"
    rows = []
    for bits in sorted({b for b, _ in curve}):
        own = [t for (b, _), t in curve.items() if b == bits]
        top = min(own, key=lambda t: (ranking.rank(t.measurement), t.number))
        values = [t.measurement.metrics[metric] for t in own]
        worst = min(values) if _classifies(space) else max(values)
        inside = "yes" if ranking.violation(top.measurement) == 0 else "no"
        memory = int(top.measurement.metrics["memory_bytes"])
        rows.append(
            (
                bits,
                len(own),
                _choice(top)[1],
                round(top.measurement.metrics[metric], 4),
                round(worst, 4),
                memory,
                inside,
            )
        )
    columns = ("bits", "P measured", "best P", label, f"worst {label}", "flash + RAM, bytes", "within the limits")
    return Table(columns, rows, "The best maxscale of every bitwidth")


def _nothing(trials: Sequence[Trial]) -> str:
    """Where no trial has a measurement."""
    if not trials:
        return "No candidate has been measured yet."
    reason = trials[0].measurement.failure or "it has no finite precision"
    return f"There is nothing to draw: {counted(len(trials), 'trial')}, and none could be measured. The first: {reason}"
