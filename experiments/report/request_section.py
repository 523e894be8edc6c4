"""What was asked of a study."""

from __future__ import annotations

import datetime

from kilotune.experiments.presentation.section import Cell, Listing, Paragraph, Section, Table
from kilotune.experiments.problems.metric_names import metric_label
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.problems.problem_entry import entry_of, is_listed
from kilotune.experiments.report.command import command_line, described_device, given_options, input_name
from kilotune.search.budget import Budget
from kilotune.search.candidates import count_candidates
from kilotune.search.own_strategies import own_strategies
from kilotune.search.space import Constraint, FlatSpace, Objective
from kilotune.search.stored_rows import StudyRow


def request_section(problem: Problem, row: StudyRow) -> Section:
    """Space, input, strategy, limits, and the command that asks it again."""
    request, space = problem.request, problem.space
    family, entry = entry_of(problem)
    began = datetime.datetime.fromtimestamp(row.created, datetime.UTC)
    facts: list[tuple[str, Cell]] = [
        ("space", f"{request.space}: {entry.decides}"),
        ("input", ": ".join(dict.fromkeys(n for n in (input_name(request, family), problem.name) if n))),
        ("strategy", _strategy(request.strategy)),
        ("seed", request.seed),
        ("budget of the first run", row.budget),
        ("wanted", "; then ".join(_wanted(objective) for objective in space.objectives)),
    ]
    facts += [("must hold", _limit(constraint)) for constraint in space.constraints]
    options = given_options(request, family)
    if options:
        facts.append(("options", " ".join(options)))
    if isinstance(space, FlatSpace):
        facts.append(("decisions", len(space.decisions)))
    size = count_candidates(space)
    if size is not None:
        facts.append(("candidates", f"{size:.3g}" if size >= 1e6 else size))
    facts += [
        ("measured by", problem.measured_by),
        ("study", row.name),
        ("begun", f"{began:%Y-%m-%d %H:%M} UTC"),
    ]
    return Section(
        "What was asked",
        (
            Table(("what", "asked"), facts, "The search as it was asked for.", sortable=False),
            *_again(problem, row),
        ),
    )


def _again(problem: Problem, row: StudyRow) -> tuple[Paragraph | Listing, ...]:
    if not is_listed(problem):
        return (Paragraph(f"It was asked from Python, of a {type(problem.space).__name__}."),)
    blocks: tuple[Paragraph | Listing, ...] = (
        Paragraph("This command asks it again:"),
        Listing(command_line(problem.request, row.budget)),
    )
    if row.budget == str(Budget()):
        blocks += (
            Paragraph("It was asked without a budget, from Python; the command has one of 60 s unless it is told."),
        )
    described = described_device(problem.request)
    if described is not None:
        blocks += (Paragraph(f"The device is described by a file, {described[0]} here:"), Listing(described[1]))
    return blocks


def _strategy(name: str) -> str:
    own = own_strategies().get(name)
    return name if own is None else f"{name}: {own.what}"


def _wanted(objective: Objective) -> str:
    return f"{objective.direction.value} {metric_label(objective.metric)}"


def _limit(constraint: Constraint) -> str:
    return f"{metric_label(constraint.metric)} {'≥' if constraint.at_least else '≤'} {constraint.limit:.12g}"
