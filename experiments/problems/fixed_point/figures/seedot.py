"""The space's own figure: the maxscale curve (SeeDot Section 7.5, Figure 13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import plotly.graph_objects as go

from kilotune.experiments.presentation.canvas import (
    Marked,
    empty_figure,
    hollow_marks,
    level_line,
    mark,
)
from kilotune.experiments.presentation.palette import BLUE, NEUTRAL, ORANGE, PINK
from kilotune.experiments.presentation.section import Figure, Paragraph, Section, Table
from kilotune.experiments.presentation.wording import counted, number
from kilotune.experiments.problems.fixed_point.figures.program_words import broken_lines, cost_lines, limit_words
from kilotune.experiments.problems.fixed_point.figures.quality import QualityMetric, quality_of
from kilotune.experiments.problems.paper_trials import papers_answer
from kilotune.experiments.problems.problem import Problem
from kilotune.search.front import Ranking
from kilotune.search.space import Trial
from kilotune.search.study import Study
from kilotune.search.telling_trials import told_trials
from kilotune.spaces.seedot.space import SeeDotSpace

BitsAndMaxscale = tuple[int, int]
"""Bitwidth B, maxscale P."""

LOOKS = ((8, PINK, "dashdot", "square"), (16, BLUE, "solid", "circle"), (32, ORANGE, "dash", "triangle-up"))
"""Bitwidth, colour, dash, marker."""


def draw(problem: Problem, study: Study) -> tuple[Section, ...]:
    """See `problems.drawing.Drawing`."""
    space, trials = cast(SeeDotSpace, study.space), told_trials(study)
    quality = quality_of(space.evaluator)
    curve = best_by_choice(space, trials)
    title = "Accuracy by maxscale" if quality.larger_is_better else "Precision loss by maxscale"
    if not curve:
        return (Section(title, (Paragraph(_nothing(trials)),)),)
    best, paper = study.front.best, papers_answer(study)
    figure = maxscale_figure(space, curve, paper, best)
    described = _description(space, curve, trials, paper, best)
    return (Section(title, (Figure(figure, described), _table(space, curve))),)


def best_by_choice(space: SeeDotSpace, trials: Sequence[Trial]) -> dict[BitsAndMaxscale, Trial]:
    """The best trial of every (B, P) over the decisions about exponential tables, in the study's own order: what keeps the
    limits goes before what does not. Trials without a measurement are left out."""
    ranking, quality = Ranking.of(space), quality_of(space.evaluator)
    found: dict[BitsAndMaxscale, tuple[tuple[float, ...], int, Trial]] = {}
    for trial in trials:
        if quality.of(trial.measurement) is None:
            continue
        choice = _choice(trial)
        entry = (ranking.rank(trial.measurement), trial.number, trial)
        if choice not in found or entry[:2] < found[choice][:2]:
            found[choice] = entry
    return {choice: found[choice][2] for choice in sorted(found)}


def maxscale_figure(
    space: SeeDotSpace, curve: Mapping[BitsAndMaxscale, Trial], paper: Trial | None, best: Trial | None
) -> go.Figure:
    """A line a bitwidth with a gap where nothing is measured; hollow marks break a limit."""
    ranking, quality = Ranking.of(space), quality_of(space.evaluator)
    figure = empty_figure(440)
    widest = max(bits for bits, _ in curve)
    for bits, colour, dash, symbol in LOOKS:
        if not any(b == bits for b, _ in curve):
            continue
        own = [curve.get((bits, scale)) for scale in range(bits)]
        hollow = [t is not None and ranking.violation(t.measurement) > 0 for t in own]
        figure.add_scatter(
            x=list(range(bits)),
            y=[None if t is None else quality.of(t.measurement) for t in own],
            text=["" if t is None else _hover(space, t) for t in own],
            mode="lines+markers",
            name=f"{bits} bits",
            connectgaps=False,
            line={"color": colour, "dash": dash, "width": 2},
            marker=hollow_marks(symbol, colour, hollow),
            hovertemplate="%{text}<extra></extra>",
        )
    reference = _float_accuracy(space)
    if reference is not None:
        hover = f"float model: {number(reference)} %"
        figure.add_trace(level_line("float model", hover, (-0.6, widest - 0.4), reference, "dot", NEUTRAL))
    for title, which, trial in (("paper's choice", Marked.PAPER, paper), ("best trial", Marked.BEST, best)):
        value = None if trial is None else quality.of(trial.measurement)
        if trial is not None and value is not None:
            hover = f"{title}<br>{_hover(space, trial)}"
            figure.add_trace(mark(title, which, _choice(trial)[1], value, hover))
    figure.update_xaxes(title="maxscale P", range=[-0.6, widest - 0.4], dtick=2 if widest > 16 else 1, zeroline=False)
    values = [t.measurement.metrics[quality.metric] for t in curve.values()]
    return figure.update_yaxes(**quality.axis(values))


def _choice(trial: Trial) -> BitsAndMaxscale:
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
    return space.evaluator.float_metrics.get(space.task.score.metric)


def _said(quality: QualityMetric, trial: Trial) -> str:
    return quality.said(trial.measurement.metrics[quality.metric])


def _in_bytes(quality: QualityMetric, trial: Trial) -> str:
    """A trial's quality and its memory in words: the smaller of equally precise programs is wanted."""
    return f"{_said(quality, trial)} in {number(trial.measurement.metrics['memory_bytes'])} bytes of flash and RAM"


def _hover(space: SeeDotSpace, trial: Trial) -> str:
    lines = [f"{_named(trial)}: {_said(quality_of(space.evaluator), trial)}"]
    if space.exponentials:
        lines.append(f"exp tables: T = {trial.assignment['table_index_bits']}, coverage {trial.assignment['coverage']}")
    lines += cost_lines(trial.measurement)
    return "<br>".join([*lines, *(f"over: {line}" for line in broken_lines(space.constraints, trial.measurement))])


def _description(
    space: SeeDotSpace,
    curve: Mapping[BitsAndMaxscale, Trial],
    trials: Sequence[Trial],
    paper: Trial | None,
    best: Trial | None,
) -> str:
    """What is seen, in numbers."""
    ranking, quality = Ranking.of(space), quality_of(space.evaluator)
    what = "Training accuracy" if quality.larger_is_better else "Precision loss (the largest error of an output)"
    over = ", the best over the decisions about exponential tables" if space.exponentials else ""
    sentences = [f"{what} by maxscale P, a line a bitwidth{over}.", *_answers(space, paper, best)]
    reference = _float_accuracy(space)
    if reference is not None:
        sentences.append(f"The float model reaches {number(reference)} %.")
    possible = sum(space.options.bitwidths)
    if len(curve) < possible:
        sentences.append(f"{len(curve)} of {possible} pairs of B and P are measured; the others are gaps.")
    broken = sum(ranking.violation(t.measurement) > 0 for t in curve.values())
    if broken:
        limits = ", ".join(limit_words(constraint) for constraint in space.constraints)
        sentences.append(f"Hollow marks: {counted(broken, 'pair')} over a limit ({limits}).")
    failed = sum(t.measurement.failure is not None for t in trials)
    if failed:
        sentences.append(f"{counted(failed, 'trial')} failed.")
    return " ".join(sentences)


def _answers(space: SeeDotSpace, paper: Trial | None, best: Trial | None) -> list[str]:
    """The paper's choice and the best trial."""
    ranking, quality = Ranking.of(space), quality_of(space.evaluator)
    same = paper is not None and best is not None and dict(best.assignment) == dict(paper.assignment)
    sentences = []
    if paper is None:
        sentences.append("The paper's choice is not known yet: its brute force takes longer than a page may.")
    elif quality.of(paper.measurement) is not None:
        over = "" if ranking.violation(paper.measurement) == 0 else ", over a limit"
        also = ", and no trial is better" if same else ""
        said = _in_bytes(quality, paper)
        sentences.append(f"The paper's choice, {_whole(space, paper)}, {quality.verb} {said}{over}{also}.")
    if best is not None and not same and quality.of(best.measurement) is not None:
        inside = ranking.violation(best.measurement) == 0
        title = "The best trial" if inside else "No trial keeps the limits; the nearest"
        sentences.append(f"{title}, {_whole(space, best)}, {quality.verb} {_in_bytes(quality, best)}.")
    return sentences


def _table(space: SeeDotSpace, curve: Mapping[BitsAndMaxscale, Trial]) -> Table:
    """The best P of every bitwidth, and how much P matters."""
    ranking, quality = Ranking.of(space), quality_of(space.evaluator)
    rows = []
    for bits in sorted({b for b, _ in curve}):
        own = [t for (b, _), t in curve.items() if b == bits]
        top = min(own, key=lambda t: (ranking.rank(t.measurement), t.number))
        worst = max((t.measurement.metrics[quality.metric] for t in own), key=quality.loss)
        inside = "yes" if ranking.violation(top.measurement) == 0 else "no"
        best, memory = top.measurement.metrics[quality.metric], int(top.measurement.metrics["memory_bytes"])
        rows.append((bits, len(own), _choice(top)[1], round(best, 4), round(worst, 4), memory, inside))
    label = quality.label
    columns = ("bits", "P measured", "best P", label, f"worst {label}", "flash + RAM, bytes", "within the limits")
    return Table(columns, rows, "The best maxscale of every bitwidth")


def _nothing(trials: Sequence[Trial]) -> str:
    """Where no trial has a measurement."""
    if not trials:
        return "No candidate has been measured yet."
    reason = trials[0].measurement.failure or "it has no finite precision"
    return f"There is nothing to draw: {counted(len(trials), 'trial')}, and none could be measured. The first: {reason}"
