"""How a request becomes a problem."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.file_kinds import kind_of_file
from kilotune.experiments.problems.family import SpaceFamily, TellsProgress
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.problems.registry import FAMILIES, find_entry
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
    _refuse_other_kinds(family, request.input)
    factory = family.factory
    if tell is not None and isinstance(factory, TellsProgress):
        return factory.build_telling(request, tell)
    return factory.build_problem(request)


def _refuse_other_kinds(family: SpaceFamily, input: str) -> None:
    """InputError for another tool's model that none of the family's spaces reads: it is named as what it is."""
    kind = None if family.model_files is None else kind_of_file(Path(input))
    if kind is None or kind.name in (family.model_files or ()):
        return
    readers = [entry.space for other in FAMILIES if kind.name in (other.model_files or ()) for entry in other.entries]
    found = f"{kind.value} (which is for {' or '.join(f'--space {name}' for name in readers)})"
    raise InputError(input, expected=family.inputs, found=found)
