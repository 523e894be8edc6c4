"""What the trials of a study say: which decisions mattered, what failed, which were the best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import plotly.graph_objects as go

from kilotune.experiments.presentation.palette import BLUE
from kilotune.experiments.presentation.section import Cell, Figure, Paragraph, Section, Table
from kilotune.experiments.presentation.text import cell_text, plotly_text
from kilotune.experiments.problems.metric_names import metric_label
from kilotune.experiments.report.report_data import ReportData
from kilotune.search.importance import MainEffect, main_effects
from kilotune.search.space import Option, Trial

MOST_BARS = 20
BEST_TRIALS = 50
MOST_DECISIONS_SHOWN = 12
LEAST_TRIALS = 30
LEAST_SHARE = 0.005
"""Less of the variance is not told from nothing."""


def decisions_sections(reported: ReportData) -> tuple[Section, ...]:
    """Which decisions mattered; nothing where there are too few trials to say."""
    if len(reported.trials) < LEAST_TRIALS:
        return ()
    effects = main_effects(reported.trials, reported.ranking)
    leading = [effect for effect in effects if effect.share >= LEAST_SHARE][:MOST_BARS]
    if not leading:
        if not effects:
            return ()
        text = "No decision by itself explains which candidates were better: they matter together, or equally little."
        return (Section("Which decisions mattered", (Paragraph(text),)),)
    best = reported.outcome.result.best
    rows = [
        (effect.decision, 100 * effect.share, effect.options, None if best is None else _cell(best, effect.decision))
        for effect in leading
    ]
    note = (
        "How much of the order of the candidates a decision explains by itself: the share of the variance of their ranks "
        "that lies between its options, corrected for chance. The candidates are those that the strategy chose, no "
        "uniform sample; decisions that matter only together with others show little."
    )
    top = leading[0]
    which = "decision" if len(leading) == 1 else f"{len(leading)} decisions"
    most = "explains" if len(leading) == 1 else "explain"
    description = (
        f"The {which} of {len(effects)} that {most} most; {top.decision} leads with {100 * top.share:.1f} % of the variance of "
        f"ranks."
    )
    columns = ("decision", "explains, %", "options tried", "in the best")
    return (
        Section(
            "Which decisions mattered",
            (Paragraph(note), Figure(_bars(leading), description), Table(columns, rows, "The same in figures.")),
        ),
    )


def _bars(effects: Sequence[MainEffect]) -> go.Figure:
    figure = go.Figure()
    names = [plotly_text(effect.decision) for effect in effects]
    figure.add_bar(
        x=[100 * effect.share for effect in effects],
        y=names,
        orientation="h",
        marker={"color": BLUE},
        text=[f"{100 * effect.share:.1f}" for effect in effects],
        textposition="outside",
        cliponaxis=False,
        customdata=[effect.options for effect in effects],
        hovertemplate="%{y}: %{x:.2f} % of the variance of ranks<br>%{customdata} options tried<extra></extra>",
    )
    figure.update_layout(
        height=90 + 24 * len(effects),
        xaxis={"title": {"text": "% of the variance of ranks"}, "rangemode": "tozero"},
        yaxis={"type": "category", "autorange": "reversed", "showgrid": False},
        bargap=0.3,
    )
    return figure


def failures_sections(reported: ReportData) -> tuple[Section, ...]:
    """What failed, and which constraints were missed; nothing where all went well."""
    censored = sum(t.measurement.censored for t in reported.trials)
    failures = Counter(
        t.measurement.failure
        for t in reported.trials
        if t.measurement.failure is not None and not t.measurement.censored
    )
    measured = [t for t in reported.trials if t.measurement.failure is None]
    missed = [
        (c, sum(c.violation(t.measurement.metrics) > 0 for t in measured)) for c in reported.problem.space.constraints
    ]
    count = len(reported.trials)
    rows: list[tuple[Cell, ...]] = [
        (
            f"{metric_label(c.metric)} {'below' if c.at_least else 'above'} {c.limit:.12g}",
            missing,
            100 * missing / count,
        )
        for c, missing in missed
        if missing
    ]
    if censored:
        rows.append(("stopped early, when it could no longer be better", censored, 100 * censored / count))
    rows += [(str(reason), times, 100 * times / count) for reason, times in failures.most_common(BEST_TRIALS)]
    if not rows:
        return ()
    feasible = sum(reported.feasible_metric(trial) is not None for trial in measured)
    sentence = (
        f"Of {reported.counted_trials} {feasible} met every constraint; {failures.total()} could not be measured."
    )
    if censored:
        sentence += f" {censored} were stopped early, when they could neither be an improvement nor enter the front."
    if len(failures) > BEST_TRIALS:
        sentence += f" The {BEST_TRIALS} most frequent reasons of {len(failures)} are shown."
    return (
        Section(
            "What failed", (Paragraph(sentence), Table(("reason", "candidates", "%"), rows, "Reasons, by how often."))
        ),
    )


def best_trials_section(reported: ReportData) -> Section:
    """The best trials with their metrics, and those decisions in which they differ. Of those with the same metrics the first
    stands for all."""
    ordered = sorted(reported.trials, key=lambda trial: (reported.ranking.rank(trial.measurement), trial.number))
    alike: dict[Hashable, list[Trial]] = {}
    for trial in ordered:
        alike.setdefault(_shown(trial), []).append(trial)
    groups = list(alike.values())[:BEST_TRIALS]
    best = [group[0] for group in groups]
    several = len(alike) < len(ordered)
    leading = [objective.metric for objective in reported.problem.space.objectives]
    metrics = list(dict.fromkeys([*leading, *(m for trial in best for m in trial.metrics)]))
    decisions = _telling(best)
    feasibility = any(reported.feasible_metric(trial) is None for trial in best)
    rows: list[tuple[Cell, ...]] = [
        (
            place,
            trial.number,
            *(("no" if reported.feasible_metric(trial) is None else "yes",) if feasibility else ()),
            *(trial.metrics.get(metric) for metric in metrics),
            *((len(group),) if several else ()),
            trial.elapsed_s,
            *(_cell(trial, name) for name in decisions),
        )
        for place, (trial, group) in enumerate(zip(best, groups, strict=True), start=1)
    ]
    columns = (
        "place",
        "trial",
        *(("feasible",) if feasibility else ()),
        *(metric_label(metric) for metric in metrics),
        *(("candidates like it",) if several else ()),
        "after s",
        *decisions,
    )
    caption = f"The best {len(best)} of {reported.counted_trials}, by objectives in their order, then by number."
    if several:
        caption += f" Of candidates with the same metrics the first stands for all: {len(alike)} of {len(ordered)} differ in them."
    if decisions:
        caption += f" Decisions in which they differ stand on the right{_of_how_many(best, decisions)}."
    return Section("The best candidates", (Table(columns, rows, caption),))


def _shown(trial: Trial) -> Hashable:
    """What a reader sees of its measurement: candidates that differ in less look the same."""
    measurement = trial.measurement
    return measurement.failure, tuple((name, cell_text(value)) for name, value in sorted(trial.metrics.items()))


def _telling(best: Sequence[Trial]) -> list[str]:
    """Decisions that are not the same in all of these trials."""
    names = dict.fromkeys(name for trial in best for name in trial.assignment)
    return [n for n in names if len({trial.assignment.get(n) for trial in best}) > 1][:MOST_DECISIONS_SHOWN]


def _of_how_many(best: Sequence[Trial], shown: Sequence[str]) -> str:
    names = {name for trial in best for name in trial.assignment}
    differing = sum(len({trial.assignment.get(name) for trial in best}) > 1 for name in names)
    return "" if differing == len(shown) else f" ({len(shown)} of {differing})"


def _cell(trial: Trial, decision: str) -> Cell:
    option: Option | None = trial.assignment.get(decision)
    return ("yes" if option else "no") if isinstance(option, bool) else option
