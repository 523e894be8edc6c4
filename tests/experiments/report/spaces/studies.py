"""Real studies of bundled models and small files, in a store of their own."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.presentation.section import Figure, Paragraph, Section, Table, figures_in
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.problems.registry import find_entry
from kilotune.experiments.requests.request import TuneRequest
from kilotune.experiments.studies import joining
from kilotune.experiments.studies.command_time import CommandTime
from kilotune.search.budget import Budget
from kilotune.search.space import Assignment, Measurement, Space
from kilotune.search.store import Store
from kilotune.search.study import Study

NASTY = "<script>alert(1)</script>"


def study_of(
    folder: Path,
    space: str,
    given: str,
    strategy: str,
    trials: int,
    fails: bool = False,
    procedure_first: bool = False,
    **options: Any,
) -> tuple[Problem, Study]:
    """A study as `tune report` finds it: run for so many trials, then read from its store. `fails`: nothing can be measured."""
    family, _ = find_entry(space)
    request = TuneRequest(space, str(family.factory.resolve_input(given)), strategy, 0, options)
    request = dataclasses.replace(request, procedure_first=procedure_first)
    store = Store(str(folder / "studies.db"))
    problem = CommandTime(Budget()).build(request)
    study = joining.join(store, "study", problem, Budget())
    executor = InProcessExecutor(Failing(problem.space) if fails else problem.space)
    study.run(executor, Budget(trials=trials), handle_interrupts=False)
    problem, study, _ = joining.resume(store, "study")
    return problem, study


class Failing:
    """A space whose candidates cannot be measured."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def __getattr__(self, name: str) -> Any:
        if name == "_space":
            raise AttributeError(name)
        return getattr(self._space, name)

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        return [Measurement(failure="the machine is on fire") for _ in batch]


def figure_blocks(sections: Sequence[Section]) -> list[Figure]:
    """With their descriptions, in order."""
    return [figure for section in sections for figure in figures_in(section.blocks)]


def of_best(sections: Sequence[Section]) -> list[Figure]:
    """Without those of the paper's result that stand beside them."""
    return [figure for figure in figure_blocks(sections) if "the paper's" not in figure.title]


def figures(sections: Sequence[Section]) -> list[go.Figure]:
    return [block.figure for block in figure_blocks(sections)]


def strings(figure: go.Figure) -> Iterator[str]:
    """Every text that Plotly would get."""
    pending: list[Any] = [json.loads(figure.to_json())]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, list):
            pending += value


def said(sections: Sequence[Section]) -> str:
    """All paragraphs and descriptions."""
    texts = [block.text for section in sections for block in section.blocks if isinstance(block, Paragraph)]
    return " ".join([*texts, *(figure.description for figure in figure_blocks(sections))])


def tables(sections: Sequence[Section]) -> list[Table]:
    return [block for section in sections for block in section.blocks if isinstance(block, Table)]


def trace(figure: go.Figure, name: str) -> Any:
    """The one of that name."""
    (found,) = [t for t in figure.data if t.name == name]
    return found
