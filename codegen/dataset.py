"""Samples with their labels (or real targets), checked against the program that is to read them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.array_files import BLOCK_ELEMENTS, RealArray, check_finite, read_array, round_to_float32
from kilotune.codegen.counts import counted
from kilotune.codegen.diagnostics import InputError

MOST_SAMPLES = 1 << 24
"""The most rows of a data file: labels, margins and outputs of each are kept besides its features, so that narrow rows take more."""

Targets = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Dataset:
    """`features` (samples, features), row-major elements of X, each a float of 32 bits as exported programs take them;
    `targets` (samples): labels from 0, or real targets. `labelled`: whether the data say them; else they are the model's own results."""

    features: RealArray
    targets: Targets
    labelled: bool = True


def load_dataset(path: Path, feature_count: int, class_count: int | None, *, binary: bool = False) -> Dataset:
    """A data file: one row per sample, column 0 the label, the rest the features.

    With `class_count` None column 0 is a real target. `binary` (the program ends in sgn) also accepts labels -1
    and 1, which become 0 and 1. Raises InputError for a file that cannot be read, another number of axes or
    columns, no samples, or more than MOST_SAMPLES, NaN or infinity, and labels that are not classes. Rows and columns count from 0.
    """
    table = read_array(path)
    expected_columns = f"{feature_count + 1} columns (a label and {counted(feature_count, 'feature')})"
    if table.ndim != 2:
        found = f"{table.ndim} axes: {table.shape}"
        raise InputError(str(path), subject="data", expected=f"2 axes: samples, and {expected_columns}", found=found)
    if not len(table):
        raise InputError(str(path), subject="data", expected="at least one sample", found="none")
    if len(table) > MOST_SAMPLES:
        raise InputError(str(path), subject="data", expected=f"at most {MOST_SAMPLES} samples", found=str(len(table)))
    if table.shape[1] != feature_count + 1:
        raise InputError(str(path), subject="data", expected=expected_columns, found=str(table.shape[1]))
    check_finite(table, path)
    targets = table[:, 0].copy()
    features = round_to_float32(_without_first_column(table))
    return Dataset(features, targets if class_count is None else _labels(targets, class_count, binary, path))


def _without_first_column(table: RealArray) -> RealArray:
    """The other columns, row after row, in the place of the table, which is gone then: a large one must not be there twice."""
    if not table.flags.c_contiguous:
        return np.ascontiguousarray(table[:, 1:])
    rows, columns = len(table), table.shape[1] - 1
    elements = table.reshape(-1)
    step = max(1, BLOCK_ELEMENTS // table.shape[1])
    for start in range(0, rows, step):
        moved = table[start : start + step, 1:].copy()  # before what it is written over, in part itself
        elements[start * columns : start * columns + moved.size] = moved.reshape(-1)
    return elements[: rows * columns].reshape(rows, columns)


def _labels(column: RealArray, class_count: int, binary: bool, path: Path) -> NDArray[np.int64]:
    fractional = np.flatnonzero(column != np.floor(column))
    if len(fractional):
        raise _label_error(path, int(fractional[0]), "an integer", column)
    if binary and bool((column == -1).any()):
        wrong = np.flatnonzero(np.abs(column) != 1)
        if len(wrong):
            raise _label_error(path, int(wrong[0]), "-1 or 1, as in other rows", column)
        return (column > 0).astype(np.int64)
    outside = np.flatnonzero((column < 0) | (column >= class_count))
    if len(outside):
        classes = f"a class from 0 to {class_count - 1}"
        raise _label_error(path, int(outside[0]), f"{classes}, or -1 and 1" if binary else classes, column)
    return column.astype(np.int64)


def _label_error(path: Path, row: int, expected: str, column: RealArray) -> InputError:
    place = f"row {row} (counted from 0)"
    return InputError(str(path), place=place, subject="label", expected=expected, found=f"{column[row]:g}")
