"""Real studies of a few trials for the figures' tests."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments import tuning
from kilotune.experiments.problem import Problem
from kilotune.experiments.report.section import Figure, Section
from kilotune.experiments.request import TuneRequest
from kilotune.search.budget import Budget
from kilotune.search.store import Store
from kilotune.search.study import Study

NASTY = "<script>alert(1)</script>"


def study_of(
    folder: Path, space: str, source: str, strategy: str, trials: int, options: dict[str, Any] | None = None
) -> tuple[Problem, Study]:
    """A study in a file of that folder, run for that many trials."""
    request = TuneRequest(space, source, strategy, 0, options or {})
    budget = Budget(trials=trials)
    problem, study = tuning.start_or_resume(Store(str(folder / "studies.db")), None, request, budget)
    study.run(InProcessExecutor(problem.space), budget, handle_interrupts=False)
    return problem, study


def figures(sections: tuple[Section, ...]) -> list[Figure]:
    """All figures, in order."""
    return [block for section in sections for block in section.blocks if isinstance(block, Figure)]


def strings(figure: Figure) -> Iterator[str]:
    """Every text that Plotly would get."""
    pending: list[Any] = [json.loads(figure.figure.to_json())]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, list):
            pending += value
