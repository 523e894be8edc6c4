"""The paper's own heuristic: Shiftry Algorithms 10 to 14, in four stages.

Evaluate is a batch that this generator yields and whose trials it is sent. The algorithms' ArgMax does not say which of
equals it takes: here the scale nearest to the data-driven one wins for X, and the lowest one (no risk of overflow) for a
demoted variable; variables of equal precision are demoted in the order of the program.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from kilotune.codegen.ir import Role
from kilotune.search.space import Assignment, Decision, Option, Procedure, Trial
from kilotune.spaces.shiftry.candidates import ShiftryCandidates
from kilotune.spaces.shiftry.formats import DEFAULT_BITS, DEMOTED_BITS, parse_format

FLASH = frozenset(("flash_bytes", "linked_bytes"))
"""Metrics of which a limit is kept sooner by large parameters of 8 bits."""


def perform_search(space: ShiftryCandidates) -> Procedure:
    """Algorithm 11, PerformSearch. The last candidate yielded is its answer."""
    start: Assignment = {d.name: d.options[0] for d in space.decisions}  # Stage I: data-driven scales, Algorithm 10
    start = yield from explore_scale_for_x(space, start)
    demoted = yield from partial_demote(space, start)
    yield from cumulative_demote(space, start, demoted)


def explore_scale_for_x(
    space: ShiftryCandidates, start: Assignment
) -> Generator[list[Assignment], list[Trial], Assignment]:
    """Algorithm 12, ExploreScaleForX: the 16-bit scale of X with the best precision."""
    inputs = [d for d in space.format_decisions if space.task.program.variable(d.name).role is Role.INPUT]
    if not inputs:
        yield [start]
        return start
    decision = inputs[0]
    candidates: list[Assignment] = [{**start, decision.name: o} for o in decision.options if _bits(o) == DEFAULT_BITS]
    trials = yield candidates
    return _best(space, trials).assignment  # options stand nearest to the data-driven scale first


def partial_demote(
    space: ShiftryCandidates, start: Assignment
) -> Generator[list[Assignment], list[Trial], list[tuple[float, str, Option]]]:
    """Algorithm 13, PartialDemote: (loss of precision, variable, demoted format), best first (Algorithm 14, line 1)."""
    ranked = []
    for decision in _as_measured(space):
        least = parse_format(str(start[decision.name])).scale - DEFAULT_BITS // 2
        options = [o for o in decision.options if _papers(o) and parse_format(str(o)).scale >= least]
        options = sorted(options, key=lambda o: parse_format(str(o)).scale)
        if not options:  # every scale that 8 bits may have lies below: it keeps its 16 bits
            continue
        trials = yield [{**start, decision.name: option} for option in options]
        best = _best(space, trials)
        ranked.append((_loss(space, best), decision.name, best.assignment[decision.name]))
    places = {decision.name: place for place, decision in enumerate(space.format_decisions)}
    return sorted(ranked, key=lambda entry: (entry[0], places[entry[1]]))


def _as_measured(space: ShiftryCandidates) -> list[Decision]:
    """Decisions in the program's order; under a limit of flash the largest parameters first, one of which alone may keep it, so that a
    search whose time ends early has something. Whatever the order, the answer is the same."""
    decisions, program = list(space.format_decisions), space.task.program
    if not any(constraint.metric in FLASH for constraint in space.constraints):
        return decisions
    sizes = {v.name: v.size for v in program.variables if v.role is Role.PARAMETER}
    return sorted(decisions, key=lambda decision: -sizes.get(decision.name, 0))


def cumulative_demote(
    space: ShiftryCandidates, start: Assignment, ranked: Sequence[tuple[float, str, Option]]
) -> Procedure:
    """Algorithm 14, CumulativeDemoteVariables; with memory limits, stop as soon as they hold (Section 3's first strategy)."""
    accepted = current = start
    for _, name, option in ranked:
        if space.options.precision_leads:
            (trial,) = yield [current]
            if _violation(space, trial) == 0.0:
                return
        current = {**current, name: option}
        if not space.options.precision_leads:
            (trial,) = yield [current]
            if _violation(space, trial) > 0.0:
                break
            accepted = current
    yield [current if space.options.precision_leads else accepted]


def _papers(option: Option) -> bool:
    """Whether it is one of the demoted formats of Algorithm 13."""
    form = parse_format(str(option))
    return form.bits == DEMOTED_BITS and form.plain


def _bits(option: Option) -> int:
    return parse_format(str(option)).bits


def _loss(space: ShiftryCandidates, trial: Trial) -> float:
    return trial.measurement.metrics.get(space.procedure_metric, float("inf"))


def _violation(space: ShiftryCandidates, trial: Trial) -> float:
    return sum(constraint.violation(trial.measurement.metrics) for constraint in space.constraints)


def _best(space: ShiftryCandidates, trials: Sequence[Trial]) -> Trial:
    return min(trials, key=lambda trial: _loss(space, trial))
