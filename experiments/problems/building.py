"""How a request becomes a problem."""

from __future__ import annotations

from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.problems.registry import find_entry
from kilotune.experiments.requests.request import TuneRequest

HANDED_OVER = "handed_over"
"""In a request's options: the class of a space that was no name."""


def build_problem(request: TuneRequest) -> Problem:
    """Load the input and make the space. InputError for an input that cannot be used, ValueError for an unknown space,
    for options that do not go with the input, or for a space that only Python has."""
    handed_over = request.options.get(HANDED_OVER)
    if handed_over is not None:
        raise ValueError(
            f"This study is of a {handed_over} that was handed over in Python, which no command can make: go on with it "
            f"there, by tune(..., study=NAME)."
        )
    family, _ = find_entry(request.space)
    return family.factory.build_problem(request)
