"""The space's own figure: the order of demotion, with accuracy and bytes."""

from __future__ import annotations

from kilotune.experiments.problem import Problem
from kilotune.experiments.report.section import Section
from kilotune.search.study import Study


def draw(problem: Problem, study: Study) -> tuple[Section, ...]:
    """See `report.section.Drawing`."""
    return ()
