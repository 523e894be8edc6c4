"""Arrays of real numbers from `.npy`, `.npz`, `.csv` and `.txt` files, with errors that name file and element."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.diagnostics import InputError

RealArray = NDArray[np.float64]

SUFFIXES = (".npy", ".npz", ".csv", ".txt")
"""File types in the order of preference."""


def find_array_file(folder: Path, stem: str) -> Path | None:
    """The file `stem.npy`, else `.npz`, `.csv`, `.txt` of a folder; None when there is none."""
    candidates = (folder / f"{stem}{suffix}" for suffix in SUFFIXES)
    return next((path for path in candidates if path.is_file()), None)


def read_array(path: Path, key: str | None = None) -> RealArray:
    """The array in a file; of an `.npz`, the array `key`, or the only one when `key` is None.

    Comma- or blank-separated text gives an array with two axes. Raises InputError for a file that cannot be read,
    pickled objects, and elements that are not real numbers. NaN and infinity pass: see `check_finite`.
    """
    try:
        array = _read_text(path) if path.suffix in (".csv", ".txt") else _read_numpy(path, key)
    except InputError:
        raise
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        found = "pickled objects" if "allow_pickle" in str(error) else f"one that cannot be read ({error})"
        raise InputError(str(path), expected="an array file", found=found) from None
    if array.dtype.kind not in "fiub":
        raise InputError(str(path), subject="elements", expected="real numbers", found=f"type {array.dtype}")
    return array.astype(np.float64)


def check_finite(array: RealArray, path: Path) -> None:
    """Raises InputError naming the first NaN or infinite element (indices count from 0)."""
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        index = tuple(int(i) for i in wrong[0])
        place = f"element [{', '.join(map(str, index))}]"
        raise InputError(str(path), place=place, expected="a finite number", found=str(array[index]))


def _read_numpy(path: Path, key: str | None) -> NDArray[np.generic]:
    loaded = np.load(path, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return loaded
    with loaded:
        if key is None and len(loaded.files) != 1:
            names = ", ".join(loaded.files) or "none"
            raise InputError(str(path), subject="arrays", expected="one", found=names)
        array: NDArray[np.generic] = loaded[loaded.files[0] if key is None else key]
        return array


def _read_text(path: Path) -> RealArray:
    rows: list[list[float]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        fields = line.split(",") if "," in line else line.split()
        if not fields:
            continue
        try:
            row = [float(field) for field in fields]
        except ValueError as error:
            found = str(error).rpartition(": ")[2]
            raise InputError(str(path), place=f"line {number}", expected="numbers", found=found) from None
        if rows and len(row) != len(rows[0]):
            expected, found = f"{len(rows[0])} numbers as in the lines before", str(len(row))
            raise InputError(str(path), place=f"line {number}", expected=expected, found=found)
        rows.append(row)
    return np.array(rows, dtype=np.float64).reshape(len(rows), -1) if rows else np.zeros((0, 0))
