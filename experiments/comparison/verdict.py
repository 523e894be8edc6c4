"""A comparison in a few sentences."""

from __future__ import annotations

import math

from kilotune.experiments.comparison.plan import ComparisonPlan
from kilotune.experiments.presentation.wording import counted, precise
from kilotune.search.anytime import RESOLUTION_S
from kilotune.search.comparison import (
    Comparison,
    ReferenceKind,
    Standing,
    indistinguishable,
    pairwise_test_of,
    seeds_needed,
    undecided,
)
from kilotune.search.result import as_metric
from kilotune.search.space import Objective


def seeds_sentence(plan: ComparisonPlan) -> str:
    """Before the runs: whether they can end in a verdict. Empty where there is nothing to compare."""
    cases = [case for case in plan.cases if len(case.strategies) > 1]
    if not cases:
        return ""
    most = max(len(case.strategies) for case in cases)
    needed = seeds_needed(most)
    said = f"A verdict between {most} strategies needs at least {needed} seeds"
    if plan.repeats >= needed:
        return f"{said}; there are {plan.repeats}."
    return f"{said}, and there {_are(plan.repeats)}: `--repeats {needed}` (now, or later to go on with it) makes up for that."


def left_out_sentence(plan: ComparisonPlan) -> str:
    """Before the runs: what is asked for and is no part of any. Empty where there is nothing."""
    if not any(case.options.get("trained") for case in plan.cases):
        return ""
    return "Searches are compared, which --trained is no part of: `tune --trained` trains what one of them has found."


def verdict(objective: Objective, comparison: Comparison, procedure: str) -> str:
    """How far the space's procedure is from the optimum, and which strategy to take. `procedure`: what it is called."""
    return f"{paper_sentence(objective, comparison, procedure)} {strategies_sentence(objective, comparison)}".strip()


def paper_sentence(objective: Objective, comparison: Comparison, procedure: str) -> str:
    """How the procedure of that name compares, in a sentence; empty where there is none."""
    loss, reference = comparison.paper_loss, comparison.reference
    if loss is None:
        return ""
    if math.isinf(loss):
        return f"The {procedure} has no answer that meets the limits."
    what = objective.metric.replace("_", " ")
    reached = f"{what} {amount(objective, loss)}"
    best = min(standing.best for standing in comparison.standings)
    if reference.kind is ReferenceKind.OPTIMUM:
        by = _names(reference.proved_by) or "the bound"
        if loss <= reference.loss:
            return f"The {procedure} is optimal: {reached}, proved by {by}."
        return (
            f"The {procedure} is not optimal: {reached}, and the optimum is {amount(objective, reference.loss)}"
            f"{_share(loss, reference.loss)}, proved by {by}."
        )
    bound = ""
    if reference.kind is ReferenceKind.BOUND:
        nearest = min(best, loss)
        bound = f" Nothing can be better than {amount(objective, reference.loss)}"
        if reference.loss:
            bound += f": {amount(objective, nearest)} is at most {percent(nearest, reference.loss)} off"
        bound += "."
    if loss <= best:
        return f"No strategy beats the {procedure}: {reached}.{bound}"
    return (
        f"The {procedure} is not optimal: {reached}, and {amount(objective, best)} was found"
        f"{_share(loss, best)}.{bound}"
    )


def strategies_sentence(objective: Objective, comparison: Comparison) -> str:
    """Which strategy is best, and which are not worse for all that one can tell, in a sentence."""
    leader, reference = comparison.standings[0], comparison.reference
    if reference.kind is ReferenceKind.OPTIMUM and math.isinf(reference.loss):
        return f"Nothing meets the limits, proved by {_names(reference.proved_by)}."
    if math.isinf(leader.median):
        return _rarely_feasible(objective, comparison)
    everywhere = [s for s in comparison.standings if s.optimum is not None and s.optimum.runs == len(s.runs)]
    if everywhere:
        ways = "; ".join(_way(standing) for standing in everywhere)
        never = [s.strategy for s in comparison.standings if s.optimum is not None and s.optimum.runs == 0]
        rest = f" Never: {_names(never)}." if never else ""
        return f"Always at the optimum, with the medians of what it took: {ways}.{rest}"
    if len(comparison.standings) == 1:
        return f"{leader.strategy}: median {amount(objective, leader.median)}."
    open_ones = undecided(comparison)
    level = [name for name in indistinguishable(comparison)[1:] if name not in open_ones]
    worse = [s.strategy for s in comparison.standings[1:] if s.strategy not in level and s.strategy not in open_ones]
    seeds = counted(len(leader.runs), "seed")
    text = f"Best median: {leader.strategy}, {amount(objective, leader.median)}"
    if open_ones:
        wanted = [
            f"{_names([name for name, needed in open_ones.items() if needed == count])} (needs {count} seeds)"
            for count in sorted(set(open_ones.values()))
        ]
        text += f"; {seeds} cannot tell whether it is better than {_names(wanted)}"
    if level:
        text += f"; {_names(level)} {'is' if len(level) == 1 else 'are'} not worse for all that {seeds} can tell"
    if worse:
        text += f"; worse: {', '.join(_worse(comparison, leader.strategy, name) for name in worse)}"
    return f"{text}."


def _rarely_feasible(objective: Objective, comparison: Comparison) -> str:
    """Where the best strategy has no median."""
    best = min(comparison.standings, key=lambda standing: standing.best)
    if math.isinf(best.best):
        return "No run finds anything that meets the limits."
    whose = "every strategy's" if len(comparison.standings) > 1 else f"{best.strategy}'s"
    return (
        f"At least half of {whose} runs find nothing that meets the limits; the best that one finds is "
        f"{amount(objective, best.best)} ({best.strategy})."
    )


def amount(objective: Objective, loss: float) -> str:
    """A loss as a metric."""
    value = as_metric(loss, objective)
    if value is None:
        return "none"
    return precise(value)


def percent(loss: float, better: float) -> str:
    """How far a loss is from a better one that is not 0, in per cent of that."""
    share = 100 * (loss - better) / abs(better)
    return f"{share:.3g} %" if share < 100 else f"{share:.0f} %"


def cpu_time(seconds: float) -> str:
    """To the resolution of what is measured, and to two digits, without a unit."""
    if seconds < RESOLUTION_S:
        return f"< {RESOLUTION_S:g}"
    return f"{float(f'{resolved(seconds):.2g}'):g}"


def resolved(seconds: float) -> float:
    """To the resolution of what is measured."""
    return round(round(seconds / RESOLUTION_S) * RESOLUTION_S, 9)


def resolved_regret(comparison: Comparison, standing: Standing) -> float | None:
    """The regret area in %, to the decimal place that the resolution of times can tell; None where there is none."""
    area, least = standing.regret_area, comparison.area_resolution
    if area is None or not least:
        return None if area is None else 100 * area
    return round(100 * area, -math.floor(math.log10(100 * least)))


def regret_area(comparison: Comparison, standing: Standing) -> str:
    """In %, without a sign; what less than the resolution of times makes is not told apart."""
    area, least = standing.regret_area, comparison.area_resolution
    if area is None:
        return ""
    return f"< {100 * least:.1g}" if least is not None and 0 < area < least else f"{100 * area:.3g}"


def _are(count: int) -> str:
    return f"{'is' if count == 1 else 'are'} {count}"


def _way(standing: Standing) -> str:
    reached = standing.optimum
    if reached is None or reached.seconds is None or reached.evaluations is None:
        return standing.strategy
    return f"{standing.strategy} ({counted(reached.evaluations, 'evaluation')}, {cpu_time(reached.seconds)} CPU-s)"


def _worse(comparison: Comparison, leader: str, name: str) -> str:
    pairwise = pairwise_test_of(comparison, leader, name)
    if pairwise is None or pairwise.adjusted_final is None:
        return name
    p = "p < 0.001" if pairwise.adjusted_final < 0.001 else f"p = {pairwise.adjusted_final:.2g}"
    return f"{name} ({p}, effect {pairwise.final.effect:.2f})"


def _share(loss: float, better: float) -> str:
    """How far from it, in per cent of it."""
    return f" ({percent(loss, better)} off)" if better else ""


def _names(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1] if names else ""
