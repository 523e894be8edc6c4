"""Which spaces read an input, by what it is: so that what is given to another one is named, and not read as something that it is not."""

from __future__ import annotations

import importlib
from pathlib import Path

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.file_kinds import kind_of_file
from kilotune.experiments.problems.family import SpaceFamily
from kilotune.experiments.problems.registry import FAMILIES


def refuse_other_formats(family: SpaceFamily, text: str) -> None:
    """InputError, one sentence, for an input that none of the family's spaces reads and others do: what it is, and which these are."""
    if family.model_files is None:
        return
    kind = kind_of_file(Path(text))
    if kind is None:
        others = [other for other in FAMILIES if other is not family]
        known = next(((what, [other]) for other in others if (what := _own_format(other, text)) is not None), None)
    elif kind.name in family.model_files:
        known = None
    else:
        known = kind.value, [other for other in FAMILIES if kind.name in (other.model_files or ())]
    if known is not None:
        what, readers = known
        spaces = " or ".join(f"--space {entry.space}" for reader in readers for entry in reader.entries)
        raise InputError(text, expected=family.inputs, found=f"{what} (which is for {spaces})")


def _own_format(family: SpaceFamily, text: str) -> str | None:
    """What an input is called that this family alone reads; None for any other."""
    if family.own_format is None:
        return None
    module, _, name = family.own_format.partition(":")
    found: str | None = getattr(importlib.import_module(module), name)(text)
    return found
