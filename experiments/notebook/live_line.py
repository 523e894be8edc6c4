"""How a search says where it stands: a line that is redrawn in a notebook, the command's lines elsewhere, or a function."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.studies.command_time import unheard
from kilotune.experiments.terminal.progress import ProgressDisplay, describe
from kilotune.search.result import Progress
from kilotune.search.space import Objective
from kilotune.search.study import Study

Report = Callable[[Progress], object]
Watch = bool | Report | None
"""What `progress=` takes."""


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"


@contextlib.contextmanager
def watching(watch: Watch, problem: Problem, study: Study) -> Iterator[Report | None]:
    """What is to be called with every `Progress`; None for nothing."""
    if callable(watch):
        yield watch
    elif watch is False or (watch is None and not in_notebook()):
        yield None
    elif in_notebook():
        yield NotebookLine(study.space.objectives)
    else:
        with ProgressDisplay(problem, study, quiet=False) as display:
            yield display


def conclusion_of(report: Report | None) -> Callable[[str], None]:
    """Who hears of what is done after the search: who shows how it stands; a function of the caller's hears of the search alone."""
    return report.conclude if isinstance(report, ProgressDisplay | NotebookLine) else unheard


class NotebookLine:
    """One line of text below the cell, replaced every time."""

    def __init__(self, objectives: tuple[Objective, ...]) -> None:
        self._objectives = objectives
        self._display = sys.modules["IPython"].display.display({"text/plain": ""}, raw=True, display_id=True)

    def __call__(self, progress: Progress) -> None:
        self._show(describe(progress, self._objectives))

    def conclude(self, doing: str) -> None:
        """Say what is being done after the search."""
        self._show(f"after the search: {doing}")

    def _show(self, line: str) -> None:
        self._display.update({"text/plain": line}, raw=True)
