"""How a request becomes a problem."""

from __future__ import annotations

import os
from collections.abc import Callable

from kilotune.experiments.problems.family import TellsProgress
from kilotune.experiments.problems.input_formats import refuse_other_formats
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.problems.registry import find_entry
from kilotune.experiments.requests.request import TuneRequest

HANDED_OVER = "handed_over"
"""In a request's options: the class of a space that was no name."""


def build_problem(request: TuneRequest, tell: Callable[[str], None] | None = None) -> Problem:
    """Load the input and make the space. InputError for an input that cannot be used, ValueError for an unknown space,
    for options that do not go with the input, or for a space that only Python has. tell: see `TellsProgress`."""
    handed_over = request.options.get(HANDED_OVER)
    if handed_over is not None:
        raise ValueError(
            f"This study is of a {handed_over} that was handed over in Python, which no command can make: go on with it "
            f"there, by tune(..., study=NAME)."
        )
    family, _ = find_entry(request.space)
    if os.path.isabs(request.input):  # others are names
        refuse_other_formats(family, request.input)
    factory = family.factory
    if tell is not None and isinstance(factory, TellsProgress):
        return factory.build_telling(request, tell)
    return factory.build_problem(request)
