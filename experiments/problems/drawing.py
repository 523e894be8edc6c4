"""What draws the figures that only one space has."""

from __future__ import annotations

from typing import Protocol

from kilotune.experiments.presentation.section import Section
from kilotune.experiments.problems.problem import Problem
from kilotune.search.study import Study


class Drawing(Protocol):
    """What a module of a space's figures (see `SpaceEntry.drawing`) defines as a function `draw`."""

    def __call__(self, problem: Problem, study: Study) -> tuple[Section, ...]:
        """The space's own figures of a study with at least one trial, which may still be running. Takes a second or two
        at most, also for 10 000 trials."""
