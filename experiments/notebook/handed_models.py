"""A trained model and samples that are handed over in Python, as the files that a search reads: a study can go on with them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from platformdirs.unix import Unix

from kilotune.experiments.artefacts.packed_arrays import packed
from kilotune.experiments.artefacts.whole_file import hash_of, replace
from kilotune.experiments.notebook.torch_modules import is_module, module_bytes

EXTRA = "pip install 'kilotune[import]'"


Input = str | os.PathLike[str] | None


def handed_over(input: Input, options: Mapping[str, Any]) -> tuple[Input, dict[str, Any]]:
    """The input and the options of a search, with `model`, `X`, `y` and `test` among the options as files. ValueError, a sentence, where
    they do not go together."""
    given = {name: options[name] for name in ("model", "X", "y", "test") if options.get(name) is not None}
    rest = {name: value for name, value in options.items() if name not in ("model", "X", "y", "test")}
    if not given:
        return input, rest
    if "model" not in given:
        raise ValueError("X, y and test go with model; samples for an input=FILE are in data=FILE.")
    if input is not None or "X" not in given or "data" in rest:
        raise ValueError("model: expected X, and y where there are labels, and neither input nor data.")
    test = given.get("test")
    if test is not None and not (isinstance(test, tuple | list) and len(test) == 2):
        raise ValueError("test: expected a pair (Xt, yt) of samples that no search sees.")
    file, data = write_model(given["model"], given["X"], given.get("y"), given.get("test"))
    return file, {**rest, "data": str(data)}


def write_model(
    model: Any, features: Any, targets: Any = None, test: tuple[Any, Any] | None = None
) -> tuple[Path, Path]:
    """(ONNX file, data file) of a fitted scikit-learn estimator, of a PyTorch module, or of an ONNX ModelProto, in the user's data folder
    under a name that follows from their content.

    features: [samples, ..]; targets: [samples], None: the model's own outputs; test: the same of data that no search sees. ValueError, a
    sentence, for a model of another kind, and where skl2onnx is missing or does not know the estimator.
    """
    arrays = {"X": features, "y": targets} | ({} if test is None else dict(zip(("Xt", "yt"), test, strict=True)))
    given = {name: _numbers(name, _places(model, name, array)) for name, array in arrays.items() if array is not None}
    content, data = _onnx_bytes(model, given["X"]), packed(given)
    folder = (
        Unix("kilotune").user_data_path / "models" / hash_of(hash_of(content).encode() + hash_of(data).encode())[:16]
    )
    folder.mkdir(parents=True, exist_ok=True)
    files = folder / f"{type(model).__name__.lower()}.onnx", folder / "data.npz"
    for path, written_bytes in zip(files, (content, data), strict=True):
        if not path.exists():
            replace(path, written_bytes)
    return files


def _places(model: Any, name: str, values: Any) -> Any:
    """Labels that are texts as places among the classes of the estimator, which are in the file in that order; others as they are."""
    array, classes = np.asarray(values), np.asarray(getattr(model, "classes_", ())).tolist()
    if not name.startswith("y") or array.dtype.kind not in "UO" or not all(isinstance(c, str) for c in classes):
        return values
    strange = [label for label in array.reshape(-1).tolist() if label not in classes]
    if classes and strange:
        raise ValueError(f"{name}: expected the model's classes {', '.join(classes)}, found {strange[0]!r}.")
    return np.array([classes.index(label) for label in array.reshape(-1).tolist()]) if classes else values


def _numbers(name: str, values: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(values)
    if name.startswith("y") and array.ndim > 1 and array.shape[1] > 1:
        raise ValueError(
            f"{name}: expected one class or value a sample, found {array.shape[1]} (a model of each, one by one)."
        )
    if array.dtype.kind not in "fiub" or not array.ndim:
        what = "classes as whole numbers, or real values" if name.startswith("y") else "numbers [samples, features]"
        raise ValueError(f"{name}: expected {what}, found shape {array.shape} of {array.dtype}.")
    return array


def _onnx_bytes(model: Any, rows: np.ndarray[Any, Any]) -> bytes:
    if hasattr(model, "SerializeToString"):
        return bytes(model.SerializeToString())
    if is_module(model):
        return module_bytes(model, rows)
    if not (hasattr(model, "get_params") and hasattr(model, "predict")):
        expected = "a fitted scikit-learn estimator, a PyTorch module or an ONNX ModelProto"
        raise ValueError(f"model: expected {expected}, found {type(model).__name__}.")
    try:
        from skl2onnx import to_onnx
    except ImportError:
        raise ValueError(f"model: a scikit-learn estimator needs skl2onnx: {EXTRA}.") from None
    # Of itself skl2onnx demands its option zipmap of the last step of a pipeline, which a LinearSVC has not.
    parts = [part for part in model.get_params().values() if hasattr(part, "get_params")]
    try:
        return bytes(
            to_onnx(model, rows[:1].astype(np.float32), options={id(part): {} for part in parts}).SerializeToString()
        )
    except Exception as error:  # skl2onnx raises what it likes for what it does not know
        reason = " ".join(str(error).split())[:200]
        raise ValueError(
            f"model: expected an estimator that skl2onnx converts, found {type(model).__name__} ({reason})."
        ) from None
