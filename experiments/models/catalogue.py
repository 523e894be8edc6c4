"""The bundled models: folders beside this file, each with a program, its parameters and its data."""

from __future__ import annotations

from pathlib import Path

from kilotune.codegen.diagnostics import InputError
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


def resolve_model(text: str | None) -> Path:
    """A folder, or that of a bundled model by its name; without one the default's. InputError when it is neither."""
    if text is None:
        return model_path(DEFAULT_MODEL)
    path = Path(text)
    if path.exists():
        return path.resolve()
    if text in model_names():
        return model_path(text)
    raise InputError(
        text,
        expected=f"a folder with model.sd, or one of the bundled models {', '.join(model_names())}",
        found=f"neither{did_you_mean(text, model_names())}",
    )
