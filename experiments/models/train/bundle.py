"""A model bundle: a SeeDot program, its parameters, its data, and how they are written to a folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

TrainedArray = npt.NDArray[np.float32] | npt.NDArray[np.float64]
FeatureRows = npt.NDArray[np.floating]
"""[samples, 1 + features]: column 0 the label (or the target of a regression), the rest the features."""


@dataclass(frozen=True)
class TrainedModel:
    """Everything that a folder of a bundled model holds. `train` and `test` are None for a program without input."""

    name: str
    program: str
    parameters: Mapping[str, TrainedArray]
    readme: str
    train: FeatureRows | None = None
    test: FeatureRows | None = None


def declaration(name: str, values: TrainedArray) -> str:
    """`let name = (shape) in [low, high] in`, the range rounded outwards to 6 decimals."""
    shape = ", ".join(str(extent) for extent in values.shape)
    low, high = _outwards(float(values.min()), -1e-6), _outwards(float(values.max()), 1e-6)
    return f"let {name} = ({shape}) in [{low:.6f}, {high:.6f}] in\n"


def _outwards(value: float, step: float) -> float:
    """The value at 6 decimals, moved by `step` if rounding took it inwards."""
    rounded = round(value, 6)
    return rounded + step if (value - rounded) * step > 0 else rounded


def declarations(parameters: Mapping[str, TrainedArray]) -> str:
    """One declaration a line, in the order of the mapping."""
    return "".join(declaration(name, values) for name, values in parameters.items())


def parameter_count(parameters: Mapping[str, TrainedArray]) -> str:
    """The number of weights as a phrase, with how many of them are not zero where some are."""
    total = sum(values.size for values in parameters.values())
    nonzero = sum(int(np.count_nonzero(values)) for values in parameters.values())
    return f"{total} parameters" if nonzero == total else f"{total} parameters, {nonzero} of them not zero"


def write_bundle(bundle: TrainedModel, folder: Path) -> None:
    """Write the files of a bundle into `folder`, made if needed; the same bundle writes the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.sd").write_text(bundle.program, encoding="utf-8")
    (folder / "README.md").write_text(bundle.readme, encoding="utf-8")
    for name, values in bundle.parameters.items():
        np.save(folder / f"{name}.npy", np.ascontiguousarray(values))
    for part, rows in (("train", bundle.train), ("test", bundle.test)):
        if rows is not None:
            np.savez_compressed(folder / f"{part}.npz", data=rows)
