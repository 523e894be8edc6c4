"""A comparison as Markdown: a table over all cases, then one a case."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kilotune.experiments.comparison.outcome import CaseOutcome, ComparisonOutcome
from kilotune.experiments.comparison.table import legend, reached
from kilotune.experiments.comparison.verdict import amount, cpu_time, percent, regret_area
from kilotune.search.comparison import ReferenceKind, Standing

HEADLINE = (
    "space",
    "input",
    "metric",
    "the paper's heuristic",
    "optimum",
    "off by",
    "always at the optimum (evaluations, CPU-s)",
)


def as_markdown(outcome: ComparisonOutcome) -> str:
    """Headings of the second level."""
    parts = [headline(outcome)]
    for case in outcome.cases:
        parts += [f"## {_text(case.title)}", _text(case.verdict), _standings(case), _text(case.unfinished)]
    parts += [_text(outcome.unfinished), _text(legend(outcome))]
    return "\n\n".join(part for part in parts if part) + "\n"


def headline(outcome: ComparisonOutcome) -> str:
    """One row a case: where the paper's heuristic is optimal, and by how much it is not. A bound has >= or <= before it."""
    return _table(HEADLINE, [_row(case) for case in outcome.cases])


def _row(case: CaseOutcome) -> list[str]:
    objective, reference = case.objective, case.comparison.reference
    best = min(standing.best for standing in case.comparison.standings)
    mark = amount(objective, reference.loss)
    if math.isinf(reference.loss):
        mark = "nothing meets the limits" if reference.kind is ReferenceKind.OPTIMUM else "nothing found"
    elif reference.kind is ReferenceKind.BOUND:
        mark = f"{amount(objective, best)} found, bound {mark}"
    elif reference.kind is ReferenceKind.BEST_KNOWN:
        mark = f"{mark} found"
    always = [s for s in case.comparison.standings if s.optimum is not None and s.optimum.runs == len(s.runs)]
    return [
        _text(case.case.space),
        _text(case.title.removeprefix(f"{case.case.space}-")),
        objective.metric.replace("_", " "),
        "" if case.paper is None else amount(objective, case.paper.loss),
        mark,
        _off(case, min(best, reference.loss) if reference.kind is ReferenceKind.OPTIMUM else best),
        "; ".join(map(_always, always)) or ("none" if reference.kind is ReferenceKind.OPTIMUM else "not known"),
    ]


def _off(case: CaseOutcome, best: float) -> str:
    """How far the paper's procedure is from the best that is known."""
    if case.paper is None:
        return ""
    if math.isinf(case.paper.loss):
        return "breaks a limit"
    if case.paper.loss <= best:
        return "**optimal**" if case.comparison.reference.kind is ReferenceKind.OPTIMUM else "nothing better found"
    return percent(case.paper.loss, best) if best else "all of it"


def _always(standing: Standing) -> str:
    found = standing.optimum
    if found is None or found.evaluations is None or found.seconds is None:
        return _text(standing.strategy)
    return f"{_text(standing.strategy)} ({found.evaluations:.0f}, {_text(cpu_time(found.seconds))})"


def _standings(case: CaseOutcome) -> str:
    objective = case.objective
    columns = (
        "strategy",
        "best",
        "median",
        "quartiles",
        "gap %",
        "proved",
        "to the paper's",
        "to the optimum",
        "regret %",
    )
    rows = [
        [
            _text(standing.strategy),
            amount(objective, standing.best),
            amount(objective, standing.median),
            " to ".join(amount(objective, loss) for loss in standing.quartiles),
            "" if standing.gap is None else f"{100 * standing.gap:.3g}",
            f"{standing.proved}/{len(standing.runs)}",
            _text(reached(standing.paper, standing)),
            _text(reached(standing.optimum, standing)),
            _text(regret_area(case.comparison, standing)),
        ]
        for standing in case.comparison.standings
    ]
    return _table(columns, rows)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _text(raw: str) -> str:
    """Names are shown as they are, whatever they hold, on one line."""
    return "".join(f"\\{sign}" if sign in "\\`*_{}[]<>#|~&$" else sign for sign in " ".join(raw.split()))
