"""The samples that a trained model is tuned on: arrays by name in an .npz, or a table with a column for the class or the value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.array_files import RealArray, array_names, check_finite, read_array, read_table, round_to_float32
from kilotune.codegen.dataset import MOST_SAMPLES
from kilotune.codegen.diagnostics import InputError

NO_LABEL = "none"
"""Said of a table whose columns are all features."""

FEATURES = ("X", "x", "X_train", "x_train", "Xtr", "features", "images")
LABELS = ("y", "Y", "y_train", "ytr", "labels", "targets")
TEST_FEATURES = ("Xt", "Xte", "X_test", "x_test")
TEST_LABELS = ("yt", "yte", "y_test")
"""Names of arrays in an .npz, the usual ones."""

TEST_MARK = "test"
"""The array that marks which samples are test data, where both lie in one."""


@dataclass(frozen=True, eq=False)
class SamplePart:
    """`features` [samples, features], row-major elements of a sample, each a float of 32 bits; `targets` [samples],
    None where there are none. `label`: what a target is called in a sentence, with its place in the file; `rows` [samples]: which samples
    of the file these are, None for all."""

    features: RealArray
    targets: RealArray | None
    label: str = "label"
    rows: NDArray[np.intp] | None = None

    def row(self, sample: int) -> int:
        """The number of a sample in its array or table, counted from 0."""
        return sample if self.rows is None else int(self.rows[sample])


@dataclass(frozen=True, eq=False)
class Samples:
    """What a data file holds."""

    train: SamplePart
    test: SamplePart | None


def read_samples(path: Path, shape: tuple[int, ...], label: str | None = None) -> Samples:
    """The samples of a file for a model whose input is of `shape`, the batch first; (1, 0, ..): any number of frames.

    An .npz holds the features as X (or a usual name for it) and classes or values as y, test data as Xt and yt, or a mask `test`;
    an .npy, .csv or .txt file is a table with the class or value in column 0. `label`: another column, counted from 0 (negative: from
    the end) or by its name in the first line, or another array; NO_LABEL: all are features. InputError for a file that cannot be
    read, a width that is not the model's, and for what is not finite.
    """
    if not path.is_file():
        raise InputError(str(path), expected="a file of samples (.npz, .npy, .csv or .txt)", found="no such file")
    with path.open("rb") as stream:
        archive = stream.read(4) == b"PK\x03\x04"
    return _of_archive(path, shape, label) if archive else _of_table(path, shape, label)


def _of_archive(path: Path, shape: tuple[int, ...], label: str | None) -> Samples:
    names = array_names(path)
    features = _first(names, FEATURES)
    if features is None and len(names) == 1:
        return _of_table(path, shape, label)
    if features is None:
        found = ", ".join(sorted(names)) or "none"
        raise InputError(str(path), subject="arrays", expected=f"one of {', '.join(FEATURES)}", found=found)
    if label not in (None, NO_LABEL) and label not in names:
        found = ", ".join(sorted(names))
        raise InputError(str(path), subject="arrays", expected=f"{label}, as --label says", found=found)
    labels = None if label == NO_LABEL else label or _first(names, LABELS)
    whole = _part(path, shape, features, labels)
    if TEST_MARK in names:
        return _marked(path, whole)
    test = _first(names, TEST_FEATURES)
    if test is None:
        alone = _first(names, TEST_LABELS)
        if alone is not None and alone != labels:
            expected = f"the features of {alone} beside it ({', '.join(TEST_FEATURES)})"
            raise InputError(str(path), subject="arrays", expected=expected, found="none")
        return Samples(whole, None)
    test_labels = None if labels is None else _first(names, TEST_LABELS)
    if labels is not None and test_labels is None:
        expected = f"labels of {test} ({', '.join(TEST_LABELS)}), as there are of {features}"
        raise InputError(str(path), subject="arrays", expected=expected, found="none")
    return Samples(whole, _part(path, shape, test, test_labels))


def _first(names: frozenset[str], wanted: tuple[str, ...]) -> str | None:
    return next((name for name in wanted if name in names), None)


def _part(path: Path, shape: tuple[int, ...], features: str, labels: str | None) -> SamplePart:
    rows = _rows(path, read_array(path, features), shape, f"array {features}")
    if labels is None:
        return SamplePart(rows, None)
    targets = _labels(path, labels)
    if targets.ndim == 2 and len(targets) == len(rows) and targets.shape[1] > 1:
        expected = "one class or value a sample (the place of a one in a row, or a model for each value)"
        raise InputError(str(path), subject=f"array {labels}", expected=expected, found=f"{targets.shape[1]} a sample")
    if targets.size != len(rows):
        raise InputError(str(path), subject=f"array {labels}", expected=f"{len(rows)} numbers", found=str(targets.size))
    check_finite(targets, path, f"array {labels}")
    return SamplePart(rows, targets.reshape(-1), f"label in array {labels}")


def _labels(path: Path, name: str) -> RealArray:
    """An array of classes or values. InputError that says of texts which numbers are meant."""
    try:
        return read_array(path, name)
    except InputError as error:
        if error.found != "pickled objects" and not error.found.startswith(("type <U", "type >U", "type |S")):
            raise
        expected = (
            "numbers (of a class that has a text as its name, its place among the model's classes, counted from 0)"
        )
        raise InputError(str(path), subject=f"array {name}", expected=expected, found="texts") from None


def _rows(path: Path, array: RealArray, shape: tuple[int, ...], subject: str) -> RealArray:
    """[samples, features] in the model's order. Images with their channels last are turned where the model has them first."""
    wanted = shape[1:] if shape[0] == 1 else shape
    frame = math.prod(wanted[1:])
    if wanted and wanted[0] == 0 and array.ndim and array.size and not math.prod(array.shape[1:]) % frame:
        wanted = (math.prod(array.shape[1:]) // frame, *wanted[1:])
    if not array.ndim or not len(array):
        raise InputError(str(path), subject=subject, expected="at least one sample", found="none")
    if len(array) > MOST_SAMPLES:
        raise InputError(str(path), subject=subject, expected=f"at most {MOST_SAMPLES} samples", found=str(len(array)))
    if array.ndim == 4 and len(wanted) == 3 and array.shape[1:] != wanted == (array.shape[3], *array.shape[1:3]):
        array = np.moveaxis(array, 3, 1)
    if wanted and wanted[0] == 0:
        expected = (
            f"whole frames of {frame} features ({'x'.join(map(str, wanted[1:]))}), as the model takes them one by one"
        )
        raise InputError(str(path), subject=subject, expected=expected, found=str(math.prod(array.shape[1:])))
    if math.prod(array.shape[1:]) != math.prod(wanted):
        expected = f"{math.prod(wanted)} features a sample ({'x'.join(map(str, wanted))}), as the model takes"
        raise InputError(str(path), subject=subject, expected=expected, found=str(math.prod(array.shape[1:])))
    axes, wanted_axes = ([extent for extent in shape if extent != 1] for shape in (array.shape[1:], wanted))
    if len(axes) > 1 and len(wanted_axes) > 1 and axes != wanted_axes:
        expected = f"samples of {'x'.join(map(str, wanted))}, as the model takes them, or their elements in that order"
        raise InputError(str(path), subject=subject, expected=expected, found="x".join(map(str, array.shape[1:])))
    check_finite(array, path, subject)
    return round_to_float32(np.ascontiguousarray(array).reshape(len(array), -1))


def _marked(path: Path, whole: SamplePart) -> Samples:
    """The samples that the mask does not mark, and those that it does."""
    mark = read_array(path, TEST_MARK).reshape(-1)
    tested = mark != 0
    if len(mark) != len(whole.features) or not tested.any() or tested.all():
        expected = f"a mark for each of {len(whole.features)} samples, for some of them 0"
        found = f"{len(mark)}, {int(tested.sum())} of them not 0"
        raise InputError(str(path), subject=f"array {TEST_MARK}", expected=expected, found=found)
    targets = whole.targets
    return Samples(
        *(
            SamplePart(whole.features[rows], None if targets is None else targets[rows], whole.label, rows)
            for rows in (np.flatnonzero(~tested), np.flatnonzero(tested))
        )
    )


def _of_table(path: Path, shape: tuple[int, ...], label: str | None) -> Samples:
    names, table = read_table(path)
    if not table.size:
        raise InputError(str(path), expected="at least one sample", found="none")
    if table.ndim != 2 or (label is None and table.shape[1] == math.prod(shape)) or label == NO_LABEL:
        return Samples(SamplePart(_rows(path, table, shape, "data"), None), None)
    check_finite(table, path)  # before a column is gone, by whose numbers places are told
    column = _column(path, names, table.shape[1], label)
    features = np.delete(table, column, axis=1)
    targets = table[:, column].copy()
    place = f"label in column {names[column] if names else column}"
    return Samples(SamplePart(_rows(path, features, shape, "data without its label"), targets, place), None)


def _column(path: Path, names: tuple[str, ...], width: int, label: str | None) -> int:
    """The column of the label."""
    if label is None:
        return 0
    if names.count(label) > 1:
        found = f"{label}, as {names.count(label)} columns are called"
        raise InputError(str(path), subject="--label", expected="the name of one column, or its number", found=found)
    if label in names:
        return names.index(label)
    try:
        column = int(label)
    except ValueError:
        column = width
    if not -width <= column < width:
        there = (
            f"one of {', '.join(names)}, or a column from 0 to {width - 1}"
            if names
            else f"a column from 0 to {width - 1}"
        )
        raise InputError(str(path), subject="--label", expected=there, found=label)
    return column % width
