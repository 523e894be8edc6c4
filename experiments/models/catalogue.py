"""The bundled models: folders beside this file, each with a program, its parameters and its data; forests with an ONNX file instead."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kilotune.codegen.diagnostics import InputError
from kilotune.search.suggestion import did_you_mean

DEFAULT_MODEL = "fastgrnn16-digits"

_FOLDER = Path(__file__).parent

MODEL_SUFFIXES = (".onnx", ".tflite")
"""Files that are taken for another tool's model whatever is in them."""

PLACEMENTS = _FOLDER / "placements"
"""The bundled buffers: CSV files."""


def model_names() -> tuple[str, ...]:
    """Names of the bundled models, sorted."""
    return tuple(sorted(program.parent.name for program in _FOLDER.glob("*/model.sd")))


def forest_names() -> tuple[str, ...]:
    """Names of the bundled forests, sorted."""
    return tuple(sorted(file.stem for file in _FOLDER.glob("*/*.onnx") if file.stem == file.parent.name))


def forest_path(name: str) -> Path:
    """The ONNX file of a bundled forest, of those that `forest_names` has."""
    return _FOLDER / name / f"{name}.onnx"


def forest_samples(path: Path) -> Path | None:
    """The samples of a bundled forest, given its ONNX file; None for any other file."""
    bundled = path.stem in forest_names() and path == forest_path(path.stem)
    return path.parent / "data.npz" if bundled else None


@dataclass(frozen=True)
class Origin:
    """Where the data of a bundled model (without data: the model) come from: their name or authors, and their licence."""

    source: str
    licence: str


def model_origin(name: str) -> Origin:
    """What the README of a bundled model or forest says of it, in its second line."""
    said = (_FOLDER / name / "README.md").read_text(encoding="utf-8").splitlines()[1]
    source, licence = (
        re.match(r"(?:Data|Source): ([^(\"]+)", said),
        re.search(r"CC BY 4\.0|CC BY-SA [34]\.0|BSD-3-Clause", said),
    )
    if source is None or licence is None:
        raise ValueError(f"The README of {name} names no source or no licence in its second line.")
    return Origin(source[1].strip(" ,"), licence[0])


def model_path(name: str) -> Path:
    """The folder of a bundled model. ValueError, with the names there are, when there is none of that name."""
    names = model_names()
    if name not in names:
        raise ValueError(
            f"There is no bundled model {name!r}{did_you_mean(name, names)}; there are {', '.join(names)}."
        )
    return _FOLDER / name


def resolve_model(text: str | None) -> Path:
    """A folder or file, or the folder of a bundled model by its name; without one the default's. InputError when it is none of them."""
    if text is None:
        return model_path(DEFAULT_MODEL)
    path = Path(text)
    if path.exists():
        return path.resolve()
    if text in model_names():
        return model_path(text)
    if path.suffix in MODEL_SUFFIXES:
        raise InputError(text, expected="a model of another tool", found="no such file")
    raise InputError(
        text,
        expected=f"a folder with model.sd, or one of the bundled models {', '.join(model_names())}",
        found=f"neither{did_you_mean(text, model_names())}",
    )
