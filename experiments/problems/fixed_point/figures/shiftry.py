"""The space's own figures: the order of demotion with accuracy and bytes (Shiftry Algorithms 11 to 14), and all trials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from kilotune.experiments.presentation.section import Block, Cell, Figure, Paragraph, Section, Table
from kilotune.experiments.presentation.wording import counted, number
from kilotune.experiments.problems.fixed_point.figures.accuracy_scatter import (
    accuracy_scatter,
    front_of,
    points_of,
    view_of,
)
from kilotune.experiments.problems.fixed_point.figures.demotion import DemotionOrder, demotion_order
from kilotune.experiments.problems.fixed_point.figures.demotion_figure import demotion_figure, is_far
from kilotune.experiments.problems.fixed_point.figures.program_words import broken_lines, limit_words
from kilotune.experiments.problems.fixed_point.figures.quality import QualityMetric, quality_of
from kilotune.experiments.problems.paper_trials import measure_beside
from kilotune.experiments.problems.problem import Problem
from kilotune.search.front import Ranking
from kilotune.search.space import Measurement, Option, Trial
from kilotune.search.study import Study
from kilotune.search.telling_trials import told_trials
from kilotune.spaces.shiftry.fitted_space import FittedSpace
from kilotune.spaces.shiftry.formats import parse_format
from kilotune.spaces.shiftry.pruned_space import PrunedSpace
from kilotune.spaces.shiftry.space import ShiftrySpace

NAMED = 8
"""How many variables a sentence lists."""


def draw(problem: Problem, study: Study) -> tuple[Section, ...]:
    """See `problems.drawing.Drawing`."""
    whole, trials = cast(ShiftrySpace | FittedSpace | PrunedSpace, study.space), told_trials(study)
    whole = whole.whole if isinstance(whole, PrunedSpace) else whole
    space = whole.formats if isinstance(whole, FittedSpace) else whole
    best = study.front.best
    order = demotion_order(space, measure_beside(study))
    blocks: tuple[Block, ...] = (
        Paragraph("The paper's order is not known yet: it takes longer to measure than a page may."),
    )
    if order is not None and order.names:
        figure = Figure(demotion_figure(space, order, best), _order_in_words(space, order, best))
        blocks = (figure, _table(space, order, best))
    elif order is not None:
        blocks = (Paragraph("The program has no variable whose width could be decided."),)
    title = f"{'Accuracy' if quality_of(space.evaluator).larger_is_better else 'Precision'} against memory"
    return (
        Section("Demotion, variable by variable", blocks),
        Section(title, _scatter(space, trials, None if order is None else order.answer, best)),
    )


def _scatter(
    space: ShiftrySpace, trials: Sequence[Trial], paper: Trial | None, best: Trial | None
) -> tuple[Block, ...]:
    quality, ranking = quality_of(space.evaluator), Ranking.of(space)
    points = points_of(quality, trials)
    if not points:
        reason = f" The first: {trials[0].measurement.failure}" if trials else ""
        return (
            Paragraph(
                f"There is nothing to draw: {counted(len(trials), 'trial')}, and none could be measured.{reason}"
            ),
        )
    inside = [p for p in points if ranking.violation(p[2].measurement) == 0]
    front = front_of(quality, inside)
    sentences = [f"{counted(len(trials), 'trial')} by flash + RAM and {quality.label.removesuffix(', %')}."]
    if front:
        ends = [f"{number(p[0])} bytes with {quality.said(p[1])}" for p in (front[0], front[-1])][: len(front)]
        sentences.append(f"The front has {counted(len(front), 'point')}: {' to '.join(ends)}.")
    else:
        sentences.append("None keeps the limits.")
    broken = sum(ranking.violation(t.measurement) > 0 for t in trials)
    if broken and front:
        sentences.append(
            f"{broken} break a limit ({', '.join(map(limit_words, space.constraints))}); they are crosses."
        )
    sentences += _compared(space, quality, paper, best)
    view = view_of(space, front, paper, best)
    below = 0 if view is None else sum(p[1] < view[0] for p in points)
    if below:
        sentences.append(f"{counted(below, 'point')} of lower accuracy lie below the view; a double click shows them.")
    return (Figure(accuracy_scatter(space, trials, paper, best), " ".join(sentences)),)


def _order_in_words(space: ShiftrySpace, order: DemotionOrder, best: Trial | None) -> str:
    """What is seen, in numbers."""
    quality, count = quality_of(space.evaluator), len(order.names)
    sentences = [
        f"Variables in the order in which the paper's procedure demotes them to 8 bits: it demotes {order.kept} of {count}.",
        *_stop(space, order, quality),
        *_compared(space, quality, order.answer, best),
        *_far_limits(space, order),
    ]
    if best is not None and best.measurement.failure is None:
        paper = order.answer.assignment
        other = [n for n in order.names if _bits(paper[n]) != _bits(best.assignment[n])]
        same_width = [n for n in order.names if n not in other and paper[n] != best.assignment[n]]
        named = ", ".join(other[:NAMED]) + (f" and {len(other) - NAMED} more" if len(other) > NAMED else "")
        widths = f"in the width of {named}" if other else ""
        scales = f"in the scale of {counted(len(same_width), 'other' if other else 'variable')}" if same_width else ""
        differs = " and ".join(filter(None, (widths, scales)))
        sentences.append(f"The best trial differs {differs}." if differs else "The best trial has the same formats.")
    return " ".join(sentences)


def _stop(space: ShiftrySpace, order: DemotionOrder, quality: QualityMetric) -> list[str]:
    """Why the procedure stops where it does."""
    count = len(order.names)
    kept_limits = not broken_lines(space.constraints, order.steps[order.kept])
    if space.options.precision_leads:
        return ["There the limits hold." if kept_limits else "The limits do not hold even so."]
    if order.kept == count:
        return []
    why = "; ".join(broken_lines(space.constraints, order.steps[order.kept + 1])) or "it could not be measured"
    return [f"With {order.names[order.kept]} as well: {why}."]


def _far_limits(space: ShiftrySpace, order: DemotionOrder) -> list[str]:
    """Those that the figure leaves out."""
    far = [limit_words(constraint) for constraint in space.constraints if is_far(constraint, order)]
    return [f"Too far above to be drawn: {', '.join(far)}."] if far else []


def _compared(space: ShiftrySpace, quality: QualityMetric, paper: Trial | None, best: Trial | None) -> list[str]:
    """The paper's result and the best trial."""
    sentences = []
    if paper is not None and quality.of(paper.measurement) is not None:
        sentences.append(f"The paper's result {_result(quality, paper.measurement)}{_over(space, paper)}.")
    if best is not None and quality.of(best.measurement) is not None:
        sentences.append(f"The best trial {_result(quality, best.measurement)}{_over(space, best)}.")
    return sentences


def _result(quality: QualityMetric, measurement: Measurement) -> str:
    metrics = measurement.metrics
    flash, ram = number(metrics["flash_bytes"]), number(metrics["ram_bytes"])
    said = quality.said(metrics[quality.metric])
    return f"{quality.verb} {said} in {number(metrics['memory_bytes'])} bytes (flash {flash}, RAM {ram})"


def _over(space: ShiftrySpace, trial: Trial) -> str:
    return " and breaks a limit" if broken_lines(space.constraints, trial.measurement) else ""


def _bits(option: Option) -> int:
    return parse_format(str(option)).bits


def _table(space: ShiftrySpace, order: DemotionOrder, best: Trial | None) -> Table:
    """A row a variable."""
    quality, paper = quality_of(space.evaluator), order.answer.assignment
    rows: list[tuple[Cell, ...]] = []
    for k, name in enumerate(order.names, 1):
        value, memory = quality.of(order.steps[k]), order.steps[k].metrics.get("memory_bytes")
        formats = [str(paper[name]), None if best is None else str(best.assignment[name])]
        differs = "" if best is None or formats[0] == formats[1] else "differs"
        shown = None if value is None else round(value, 4)
        rows.append((k, name, shown, None if memory is None else int(memory), *formats, differs))
    columns = (
        "order",
        "variable",
        quality.label,
        "flash + RAM, bytes",
        "paper",
        "best",
        "differs",
    )
    caption = "Every variable: what demoting it as well leads to, and its format as bits@scale"
    return Table(columns, rows, caption)
