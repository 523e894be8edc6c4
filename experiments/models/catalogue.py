"""The bundled models: folders beside this file, each with a program, its parameters and its data."""

from __future__ import annotations

from pathlib import Path

from kilotune.search.suggestion import did_you_mean

DEFAULT_MODEL = "fastgrnn16-digits"

_FOLDER = Path(__file__).parent

PLACEMENTS = _FOLDER / "placements"
"""The bundled buffers: CSV files."""


def model_names() -> tuple[str, ...]:
    """Names of the bundled models, sorted."""
    return tuple(sorted(program.parent.name for program in _FOLDER.glob("*/model.sd")))


def model_path(name: str) -> Path:
    """The folder of a bundled model. ValueError, with the names there are, when there is none of that name."""
    names = model_names()
    if name not in names:
        raise ValueError(
            f"There is no bundled model {name!r}{did_you_mean(name, names)}; there are {', '.join(names)}."
        )
    return _FOLDER / name
