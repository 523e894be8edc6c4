"""A comparison as tables in a terminal."""

from __future__ import annotations

import math

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from kilotune.experiments.comparison.outcome import CaseOutcome, ComparisonOutcome
from kilotune.experiments.comparison.verdict import amount, cpu_time, regret_area
from kilotune.experiments.presentation.wording import counted, precise
from kilotune.experiments.problems.problem_entry import procedure_name
from kilotune.search.anytime import RESOLUTION_S
from kilotune.search.budget import Budget
from kilotune.search.comparison import Reached, ReferenceKind, Standing, pairwise_test_of

WIDE = 150
"""Columns where nobody says how many there are: a file, a pipe."""


def console(to_stderr: bool) -> Console:
    """For tables that are wider than the usual 80 columns."""
    shown = Console(stderr=to_stderr, highlight=False, markup=False)
    if not shown.is_terminal:
        shown.width = max(shown.width, WIDE)
    return shown


def print_comparison(outcome: ComparisonOutcome, console: Console) -> None:
    """Every case; `console` without markup, since names may hold brackets."""
    long = not console.is_terminal  # whoever reads a file wraps its lines, a terminal would break words
    for case in outcome.cases:
        console.print(heading(case), soft_wrap=long)
        console.print(standings_table(case, console.width))
        console.print(case.verdict, soft_wrap=long)
        if case.unfinished:
            console.print(case.unfinished, soft_wrap=long)
        console.print()
    if outcome.unfinished:
        console.print(outcome.unfinished, soft_wrap=long)
    console.print(legend(outcome), soft_wrap=long)


def heading(case: CaseOutcome) -> str:
    """What is compared on what, and the two marks that everything is measured by."""
    objective, compared = case.objective, case.comparison
    marks = [f"{compared.reference.kind.value} {amount(objective, compared.reference.loss)}"]
    if math.isinf(compared.reference.loss):
        proved = compared.reference.kind is ReferenceKind.OPTIMUM
        marks = ["proved: nothing meets the limits" if proved else "nothing found that meets the limits"]
    reference = case.reference_point
    if reference is not None:
        at = ", ".join(f"{name} {precise(value)}" for name, value in reference.items())
        marks.append(f"reference point {at}")
    if case.paper is not None:
        marks.append(f"{procedure_name(case.problem)} {amount(objective, case.paper.loss)}")
    return f"{case.title}: {case.case.space} on {case.problem.name}, {objective.metric} ({', '.join(marks)})"


def standings_table(case: CaseOutcome, width: int) -> Table | Group:
    """One row a strategy, best first; where that is wider than `width` columns, a line or two for each instead."""
    names, rows = _standings(case)
    widths = [max(len(row[at]) for row in (names, *rows)) for at in range(len(names))]
    if sum(widths) + 3 * (len(widths) - 1) > width:
        lines = []
        for strategy, *cells in rows:
            told = ", ".join(f"{name} {cell}" for name, cell in zip(names[1:], cells, strict=True) if cell)
            lines.append(Text(f"{strategy}: {told}"))
        return Group(*lines)
    table = Table(show_edge=False, pad_edge=False)
    for name in names:
        table.add_column(name, justify="left" if name == names[0] else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def _standings(case: CaseOutcome) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Names of columns, and rows."""
    objective, compared = case.objective, case.comparison
    leader = compared.standings[0].strategy
    optimum = compared.reference.kind is ReferenceKind.OPTIMUM
    names = (
        *("strategy", "best", "median", "gap %", "proved", "to the paper's"),
        *(["to the optimum"] if optimum else []),
        *("regret %", f"against {leader}"),
    )
    rows = []
    for standing in compared.standings:
        low, high = standing.quartiles
        row = (
            standing.strategy,
            amount(objective, standing.best),
            amount(objective, standing.median)
            + ("" if low == high else f" [{amount(objective, low)}, {amount(objective, high)}]"),
            "" if standing.gap is None else f"{100 * standing.gap:.3g}",
            f"{standing.proved}/{len(standing.runs)}",
            reached(standing.paper, standing),
            *([reached(standing.optimum, standing)] if optimum else []),
            regret_area(compared, standing),
            _pairwise(case, leader, standing.strategy),
        )
        rows.append(row)
    return names, rows


def reached(found: Reached | None, standing: Standing) -> str:
    """`12 ev, 0.31 s` when most runs got there, with the share of the runs unless all did."""
    if found is None:
        return ""
    share = "" if found.runs == len(standing.runs) else f" ({found.runs}/{len(standing.runs)})"
    if found.seconds is None or found.evaluations is None:
        return f"-{share}"
    return f"{found.evaluations:.0f} ev, {cpu_time(found.seconds)} s{share}"


def legend(outcome: ComparisonOutcome) -> str:
    """What the columns mean."""
    plan = outcome.plan
    seeds = f"{plan.repeats} paired seeds from {plan.seed}" if plan.repeats > 1 else f"one seed, {plan.seed}"
    horizon = "the budget's CPU-s" if math.isfinite(plan.limits.seconds) else "the CPU-s of the longest run"
    return (
        f"{seeds}, {_budget(plan.limits)} a run, no measurements shared. median: with the quartiles where they differ. gap: of the "
        "median to the optimum, the bound or the best known, in % of that (of 1 where it is 0). to ...: medians of evaluations and "
        f"CPU-s. regret: best so far above that, in % of it, averaged over {horizon}. against: wins-ties-losses of the leader "
        "at the end, Wilcoxon's p adjusted after Holm, effect (rank-biserial); where all ends are the same, of the regret ('sooner'). "
        "needs ... seeds: so many can show that difference, these cannot; the same on every seed: nothing random to test. "
        f"Times closer than {1000 * RESOLUTION_S:g} ms are no different."
    )


def _budget(limits: Budget) -> str:
    parts = []
    if math.isfinite(limits.seconds):
        parts.append(f"{Budget(seconds=limits.seconds)} of CPU time")
    if math.isfinite(limits.trials):
        parts.append(counted(limits.trials, "trial"))
    return " or ".join(parts)


def _pairwise(case: CaseOutcome, leader: str, other: str) -> str:
    if leader == other:
        return ""
    pairwise = pairwise_test_of(case.comparison, leader, other)
    if pairwise is None:
        return "no common seed yet"
    if not (pairwise.final.wins or pairwise.final.losses or pairwise.area.wins or pairwise.area.losses):
        return "alike"
    soon = pairwise.final.wins == pairwise.final.losses == 0
    test, p, needs = pairwise.final, pairwise.adjusted_final, pairwise.needs_final
    if soon:
        test, p, needs = pairwise.area, pairwise.adjusted_area, pairwise.needs_area
    shown = ", the same on every seed" if p is None else ", p < 0.001" if p < 0.001 else f", p = {p:.2g}"
    if needs is not None:
        shown = f", needs {needs} seeds"
    return f"{'sooner ' if soon else ''}{test.wins}-{test.ties}-{test.losses}{shown}, {test.effect:+.2f}"
