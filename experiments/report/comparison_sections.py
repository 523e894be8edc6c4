"""The sections of a comparison's report: all cases at a glance, then one after the other."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator

import plotly.graph_objects as go

from kilotune.experiments.comparison.outcome import CaseOutcome, ComparisonOutcome
from kilotune.experiments.comparison.verdict import resolved, resolved_regret
from kilotune.experiments.presentation.palette import BLUE, ORANGE
from kilotune.experiments.presentation.section import (
    Block,
    Cell,
    Figure,
    Paragraph,
    Row,
    Section,
    Table,
)
from kilotune.experiments.presentation.text import plotly_text
from kilotune.experiments.problems.metric_names import metric_label
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.problems.problem_entry import procedure_name
from kilotune.experiments.report.command import input_name
from kilotune.experiments.report.regret import final_figure, regret_figure, regret_percent, zero_scale
from kilotune.experiments.report.study_sections import drawn_sections
from kilotune.search.anytime import RESOLUTION_S
from kilotune.search.comparison import Comparison, Reached, ReferenceKind
from kilotune.search.result import as_metric
from kilotune.search.space import Objective
from kilotune.search.study import Study

StudyOf = Callable[[CaseOutcome], tuple[Problem, Study]]
"""The best run of a case, from the store."""


def comparison_title(outcome: ComparisonOutcome) -> str:
    """The title of a comparison's page."""
    return f"Comparison {outcome.name}"


def comparison_sections(outcome: ComparisonOutcome, study_of: StudyOf) -> tuple[Section, ...]:
    """A table and a figure of all cases, then a chapter for each."""
    if not outcome.cases:
        return (Section("All cases", (Paragraph("This comparison holds no finished case yet."),)),)
    return (
        overview_section(outcome),
        *(section for case in outcome.cases for section in case_sections(case, study_of)),
    )


def overview_section(outcome: ComparisonOutcome) -> Section:
    """Where the papers' procedures are optimal, where they are not, by how much, and what was better."""
    plan = outcome.plan
    strategies = dict.fromkeys(strategy for case in plan.cases for strategy in case.strategies)
    asked = (
        f"{len(strategies)} strategies ({', '.join(strategies)}) on {len(plan.cases)} cases; {plan.repeats} runs of each, seeds "
        f"{plan.seeds[0]} to {plan.seeds[-1]}, with a budget of {plan.budget} a run. All start from nothing and share no "
        f"measurements; seconds are CPU seconds. A regret, or a gap, is how far a result is above the proved optimum, else "
        f"above the best bound, else above the best that is known, in % of it (of 1 where it is 0)."
    )
    columns = (
        *("space", "input", "in", "reference", "the reference is", "paper's procedure", "regret, %"),
        *("which is", "best strategy", "median's regret, %"),
    )
    rows = [_overview(case) for case in outcome.cases]
    blocks: list[Block] = [Paragraph(asked)]
    if not outcome.complete:
        began = len(outcome.cases)
        blocks.append(
            Paragraph(
                f"This comparison is not complete ({began} of {len(plan.cases)} cases have runs): "
                f"`tune compare --name {outcome.name}` goes on with it."
            )
        )
    blocks.append(Table(columns, rows, "Every case: what the paper's own procedure reaches, and what can be reached."))
    figure = _gaps(outcome)
    if figure is not None:
        description = (
            "How far the paper's procedure and the best strategy's median run are above the reference of each case, in % "
            "of it. The reference is the proved optimum where there is one (else the bound, or the best that is known)."
        )
        blocks.append(Figure(figure, description, "How far above the reference the cases are"))
    return Section("All cases", tuple(blocks))


def _overview(case: CaseOutcome) -> tuple[Cell, ...]:
    comparison, objective = case.comparison, case.objective
    reference, paper, best = comparison.reference, comparison.paper_loss, comparison.standings[0]
    return (
        case.problem.request.space,
        input_name(case.problem.request),
        metric_label(objective.metric),
        as_metric(reference.loss, objective),
        reference.kind.value,
        None if paper is None else as_metric(paper, objective),
        _regret(paper, comparison),
        _standing_of_paper(comparison),
        best.strategy,
        _regret(best.median, comparison),
    )


def _standing_of_paper(comparison: Comparison) -> str | None:
    """In a word or two; None where there is no procedure."""
    paper, best = comparison.paper_loss, min(standing.best for standing in comparison.standings)
    if paper is None:
        return None
    if math.isinf(paper):
        return "infeasible"
    if paper > best:
        return "not optimal"
    return "optimal" if comparison.reference.kind is ReferenceKind.OPTIMUM else "not beaten"


def _regret(loss: float | None, comparison: Comparison) -> float | None:
    """In %; None for no result, or where nothing is known to measure from."""
    regret = math.inf if loss is None else regret_percent(loss, comparison.reference.loss)
    return regret if math.isfinite(regret) else None


def _gaps(outcome: ComparisonOutcome) -> go.Figure | None:
    """Two markers a case: the paper's procedure, the best strategy."""
    if len(outcome.cases) < 2:
        return None
    names = [plotly_text(case.title) for case in outcome.cases]
    paper = [_regret(case.comparison.paper_loss, case.comparison) for case in outcome.cases]
    best = [_regret(case.comparison.standings[0].median, case.comparison) for case in outcome.cases]
    known = [value for value in (*paper, *best) if value is not None]
    scale = zero_scale(known)
    figure = go.Figure()
    for said, values, colour, symbol, size in (
        ("paper's procedure", paper, ORANGE, "square-open", 15),
        ("best strategy (median)", best, BLUE, "circle", 9),
    ):
        figure.add_scatter(
            x=values if scale is None else [None if value is None else scale.placed(value) for value in values],
            y=names,
            customdata=values,
            mode="markers",
            name=said,
            cliponaxis=False,
            marker={"color": colour, "symbol": symbol, "size": size, "line": {"width": 3 if size > 9 else 0}},
            hovertemplate=f"%{{y}}<br>{said}: %{{customdata:.3g}} % above the reference<extra></extra>",
        )
    top = max(known, default=0.0)
    figure.update_layout(height=130 + 30 * len(names))
    figure.update_xaxes(title={"text": "% above the reference"})
    figure.update_xaxes(
        **({"range": [-0.04 * (top or 1.0), 1.06 * (top or 1.0)]} if scale is None else scale.axis(1.4 * top))
    )
    figure.update_yaxes(type="category", autorange="reversed", ticklabelstandoff=12)
    return figure


def case_sections(case: CaseOutcome, study_of: StudyOf) -> tuple[Section, ...]:
    """One case: the verdict, standings, pairwise tests, regret, final values, and the domain's own figures of the best run."""
    comparison, objective, procedure = case.comparison, case.objective, procedure_name(case.problem)
    blocks: list[Block] = [Paragraph(case.verdict), Paragraph(_reference(comparison, objective, procedure))]
    blocks.append(_standings(comparison, objective))
    if comparison.pairwise_tests:
        blocks.append(_pairwise_tests(comparison))
    label = metric_label(objective.metric)
    seeds = max(len(standing.runs) for standing in comparison.standings)
    curves: list[Figure] = []
    for by_time, unit in ((True, "CPU seconds"), (False, "evaluations")):
        regret = regret_figure(comparison, by_time)
        if regret is not None:
            description = (
                f"Regret in {label}, how far the best so far is above the {comparison.reference.kind.value}, over {unit}: "
                f"lines are medians of {seeds} runs, bands go from quartile to quartile."
            )
            curves.append(Figure(regret, description, f"{case.title}: regret over {unit}"))
    if curves:
        blocks.append(Row(tuple(curves)))
    final = final_figure(comparison, objective, procedure)
    if final is not None:
        description = f"{label.capitalize()} at the end of every run, one mark a seed; boxes from quartile to quartile."
        nothing = sum(math.isinf(run.curve.loss) for standing in comparison.standings for run in standing.runs)
        if nothing:
            found = "run found nothing that meets the constraints, and has no mark"
            if nothing > 1:
                found = "runs found nothing that meets the constraints, and have no mark"
            description += f" {nothing} {found}."
        blocks.append(Figure(final, description, f"{case.title}: where every run ended"))
    if case.unfinished:
        blocks.insert(0, Paragraph(case.unfinished))
    return (Section(case.title, tuple(blocks)), *_best_run(case, study_of))


def _reference(comparison: Comparison, objective: Objective, procedure: str) -> str:
    reference = comparison.reference
    value = as_metric(reference.loss, objective)
    if value is None and reference.kind is ReferenceKind.OPTIMUM:
        return f"Nothing is feasible (proved by {', '.join(reference.proved_by)})."
    if value is None:
        return "Nothing feasible was found, and nothing is known about the optimum."
    by = (
        f" by {', '.join(reference.proved_by)}"
        if reference.kind is ReferenceKind.OPTIMUM and reference.proved_by
        else ""
    )
    paper = comparison.paper_loss
    metric = None if paper is None else as_metric(paper, objective)
    said = "has no feasible result" if metric is None else f"reaches {metric:.6g}"
    beside = "" if paper is None else f" The {procedure} {said}."
    known = {
        ReferenceKind.OPTIMUM: f"proved{by}",
        ReferenceKind.BOUND: "the best bound: no candidate is better, and whether one is as good is open",
        ReferenceKind.BEST_KNOWN: "the best that is known; no bound is",
    }[reference.kind]
    return f"Regret is measured from {metric_label(objective.metric)} {value:.6g} ({known}).{beside}"


def _standings(comparison: Comparison, objective: Objective) -> Table:
    columns = (
        *(
            "strategy",
            "best",
            "median",
            "better quartile",
            "worse quartile",
            "median's regret, %",
            "runs",
            "runs proved",
        ),
        *("runs to paper's result", "evaluations to it", "CPU s to it"),
        *("runs to the optimum", "evaluations to it ", "CPU s to it "),
        "regret area, %",
    )
    rows = [
        (
            standing.strategy,
            as_metric(standing.best, objective),
            as_metric(standing.median, objective),
            as_metric(standing.quartiles[0], objective),
            as_metric(standing.quartiles[1], objective),
            _regret(standing.median, comparison),
            len(standing.runs),
            standing.proved,
            *_reached(standing.paper),
            *_reached(standing.optimum),
            resolved_regret(comparison, standing),
        )
        for standing in comparison.standings
    ]
    caption = (
        f"Strategies in {metric_label(objective.metric)}, best first. Evaluations and CPU seconds are medians over all "
        f"runs, where more than half of them got so far; the regret area is the mean regret over {comparison.horizon_s:.6g} CPU s, "
        f"to the decimal place that times to {1000 * RESOLUTION_S:g} ms can tell."
    )
    return Table(columns, rows, caption)


def _reached(reached: Reached | None) -> tuple[Cell, Cell, Cell]:
    if reached is None:
        return (None, None, None)
    return (reached.runs, reached.evaluations, None if reached.seconds is None else resolved(reached.seconds))


def _pairwise_tests(comparison: Comparison) -> Table:
    columns = (
        *("first", "second", "wins", "ties", "losses", "p", "p, adjusted", "needs seeds", "effect"),
        *("sooner", "later", "p of that", "adjusted", "needs seeds ", "effect of that"),
    )
    rows = [
        (
            *(pairwise.first, pairwise.second, pairwise.final.wins, pairwise.final.ties, pairwise.final.losses),
            *(pairwise.final.p, pairwise.adjusted_final, pairwise.needs_final, pairwise.final.effect),
            *(pairwise.area.wins, pairwise.area.losses, pairwise.area.p),
            *(pairwise.adjusted_area, pairwise.needs_area, pairwise.area.effect),
        )
        for pairwise in comparison.pairwise_tests
    ]
    caption = (
        "Pairs of strategies, seed by seed: what the runs ended with, and on the right how soon (their regret areas). p is of "
        "Wilcoxon's signed-rank test, adjusted after Holm; the effect is the matched-pairs rank-biserial correlation, from -1 "
        "(the first is always worse) to 1 (always better). Where pairs do not vary there is nothing to test. "
        "A number of seeds stands where those there are could not have shown any difference. "
        f"Times closer than {1000 * RESOLUTION_S:g} ms are no different."
    )
    return Table(columns, rows, caption)


def _best_run(case: CaseOutcome, study_of: StudyOf) -> tuple[Section, ...]:
    """The domain's own figures, as parts of the case's chapter."""
    run = case.best_run()
    try:
        problem, study = study_of(case)
    except Exception as error:
        sentence = f"The best run ({run.strategy}, seed {run.seed}) could not be read: {error}"
        return (Section("The best run", (Paragraph(sentence),), level=3),)
    drawn = drawn_sections(problem, study) if len(study.book) else ()
    what = Paragraph(f"Of the best run: {run.strategy}, seed {run.seed}.")
    return tuple(dataclasses.replace(s, blocks=(what, *_of_case(case, s)), level=3) for s in drawn)


def _of_case(case: CaseOutcome, section: Section) -> Iterator[Block]:
    """Its blocks, with figures that say of which case they are: every case has such figures."""

    def named(figure: Figure) -> Figure:
        return dataclasses.replace(figure, title=f"{case.title}: {figure.title or section.title}")

    for block in section.blocks:
        if isinstance(block, Figure):
            yield named(block)
        elif isinstance(block, Row):
            yield Row(tuple(map(named, block.figures)))
        else:
            yield block
