# ruff: noqa: E501  (tables of messages, one case a line)
"""Bundles as users make them, and one mistake at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.diagnostics import InputError

PROGRAM = """let X = (3, 1) in [-1.0, 1.0] in
let W = (4, 3) in [-1.0, 1.0] in
let b = (4, 1) in [-1.0, 1.0] in
argmax((W * X) + b)
"""
W = np.arange(12.0).reshape(4, 3) / 10
B = np.array([[1.0], [2.0], [3.0], [4.0]])
TRAIN = np.array([[0, 0.5, 0.25, 1], [3, 1, 1, 1], [2, 0, 0, 0]])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A bundle without mistakes."""
    path = tmp_path / "four"
    path.mkdir()
    (path / "model.sd").write_text(PROGRAM)
    np.save(path / "W.npy", W)
    np.save(path / "b.npy", B)
    np.save(path / "train.npy", TRAIN.astype(np.float32))
    np.save(path / "test.npy", TRAIN[:1])
    return path


def message_of(folder: Path) -> str:
    """The error's message, with the folder's path left out."""
    with pytest.raises(InputError) as caught:
        load_bundle(folder)
    return str(caught.value).replace(f"{folder}/", "").replace(str(folder), "FOLDER")


def test_a_bundle(folder: Path) -> None:
    bundle = load_bundle(folder)
    assert (bundle.name, bundle.class_count) == ("four", 4)
    np.testing.assert_array_equal(bundle.parameters["W"], W)
    np.testing.assert_array_equal(bundle.parameters["b"], B)
    assert bundle.train is not None
    assert bundle.test is not None
    np.testing.assert_array_equal(bundle.train.features, TRAIN[:, 1:])
    np.testing.assert_array_equal(bundle.train.targets, [0, 3, 2])
    assert (bundle.train.targets.dtype, bundle.train.features.dtype) == (np.int64, np.float64)
    assert len(bundle.test.features) == 1
    assert bundle.program.input == bundle.program.variable("X")


@pytest.mark.parametrize("suffix", [".csv", ".txt", ".npz"])
def test_other_file_types(folder: Path, suffix: str) -> None:
    for name, array in (("W", W), ("b", B), ("train", TRAIN)):
        (folder / f"{name}.npy").unlink()
        if suffix == ".npz":
            np.savez(folder / f"{name}.npz", anything=array)
        else:
            np.savetxt(folder / f"{name}{suffix}", array, delimiter="," if suffix == ".csv" else " ")
    bundle = load_bundle(folder)
    np.testing.assert_array_equal(bundle.parameters["W"], W)
    assert bundle.train is not None
    np.testing.assert_array_equal(bundle.train.features, TRAIN[:, 1:])


def test_all_parameters_in_one_archive(folder: Path) -> None:
    (folder / "W.npy").unlink()
    (folder / "b.npy").unlink()
    np.savez(folder / "params.npz", W=W, b=B.reshape(1, 4))
    np.testing.assert_array_equal(load_bundle(folder).parameters["b"], B)


@pytest.mark.parametrize("shape", [(4,), (1, 4), (4, 1), (1, 4, 1)])
def test_vectors_of_any_orientation(folder: Path, shape: tuple[int, ...]) -> None:
    np.save(folder / "b.npy", B.reshape(shape))
    np.testing.assert_array_equal(load_bundle(folder).parameters["b"], B)


def test_a_scalar_file_for_a_scalar(folder: Path) -> None:
    (folder / "model.sd").write_text("let X = (3, 1) in [0.0, 1.0] in let W = (1) in [0.0, 1.0] in argmax(W * X)")
    np.save(folder / "W.npy", np.float32(0.5))
    np.save(folder / "train.npy", TRAIN[2:])
    bundle = load_bundle(folder)
    np.testing.assert_array_equal(bundle.parameters["W"], [0.5])
    assert bundle.class_count == 3


def test_constants_only(folder: Path) -> None:
    """With a file for X there is no input, and no data is needed."""
    np.save(folder / "X.npy", np.ones(3))
    (folder / "train.npy").unlink()
    with pytest.raises(InputError, match="expected an input X to classify"):
        load_bundle(folder)
    (folder / "model.sd").write_text(PROGRAM.replace("argmax((W * X) + b)", "(W * X) + b"))
    bundle = load_bundle(folder)
    assert bundle.program.input is None
    assert bundle.train is None
    assert bundle.test is None
    assert bundle.parameters["X"].shape == (3, 1)


def test_real_results_have_real_targets(folder: Path) -> None:
    (folder / "model.sd").write_text(PROGRAM.replace("argmax((W * X) + b)", "(W * X) + b"))
    np.save(folder / "train.npy", [[0.5, 1, 2, 3]])
    bundle = load_bundle(folder)
    assert bundle.class_count is None
    assert bundle.program.result_kind is ir.ResultKind.REAL
    assert bundle.train is not None
    np.testing.assert_array_equal(bundle.train.targets, [0.5])


@pytest.mark.parametrize(
    ("labels", "expected"), [([-1, 1, -1], [0, 1, 0]), ([0, 1, 1], [0, 1, 1]), ([1, 1, 1], [1, 1, 1])]
)
def test_signs_as_labels(folder: Path, labels: list[int], expected: list[int]) -> None:
    (folder / "model.sd").write_text("let X = (3, 1) in [0.0, 1.0] in sgn(X^T * X)")
    np.save(folder / "train.npy", np.column_stack([labels, TRAIN[:, 1:]]))
    (folder / "test.npy").unlink()
    bundle = load_bundle(folder)
    assert bundle.class_count == 2
    assert bundle.train is not None
    np.testing.assert_array_equal(bundle.train.targets, expected)


def test_labels_beyond_a_byte(folder: Path) -> None:
    (folder / "model.sd").write_text("let X = (300, 1) in [0.0, 1.0] in argmax(X)")
    np.save(folder / "train.npy", np.column_stack([[299, 256], np.zeros((2, 300))]))
    (folder / "test.npy").unlink()
    bundle = load_bundle(folder)
    assert bundle.train is not None
    np.testing.assert_array_equal(bundle.train.targets, [299, 256])


def test_sparse_parameters_come_from_the_files(folder: Path) -> None:
    (folder / "model.sd").write_text(PROGRAM.replace("W * X", "W |*| X"))
    assert not load_bundle(folder).program.variable("W").sparse
    np.save(folder / "W.npy", W * (W > 1.0))
    assert load_bundle(folder).program.variable("W").sparse


def unlink(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def write(name: str, text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(text) and None


def save(name: str, array: object) -> Callable[[Path], None]:
    return lambda folder: np.save(folder / name, np.asarray(array), allow_pickle=True)


def with_element(array: np.ndarray, place: tuple[int, ...], number: float) -> np.ndarray:
    changed = array.copy()
    changed[place] = number
    return changed


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (unlink("model.sd"), "model.sd: expected a program in the SeeDot language, found no such file"),
        (write("model.sd", "let X = (3, 1) in [-1.0, 1.0]"), "model.sd:1:30: syntax: expected 'in', found the end of the file"),
        (lambda f: (f / "model.sd").write_bytes(b"\xff\xfe"), "model.sd: expected a text file in UTF-8, found no UTF-8 at byte 0"),
        (unlink("W.npy"), "model.sd:2:5: parameter W: expected a file W.npy (or .npz, .csv, .txt, or in params.npz) beside model.sd, found none"),
        (save("W.npy", W.T), "W.npy: parameter W, declared at model.sd:2:5: expected shape (4, 3), found (3, 4)"),
        (save("W.npy", W.reshape(-1)), "W.npy: parameter W, declared at model.sd:2:5: expected shape (4, 3), found (12)"),
        (save("b.npy", np.ones(5)), "b.npy: parameter b, declared at model.sd:3:5: expected shape (4, 1), found (5)"),
        (save("b.npy", 1.0), "b.npy: parameter b, declared at model.sd:3:5: expected shape (4, 1), found a scalar"),
        (save("W.npy", with_element(W, (1, 2), np.nan)), "W.npy: element [1, 2]: expected a finite number, found nan"),
        (save("W.npy", with_element(W, (3, 0), -np.inf)), "W.npy: element [3, 0]: expected a finite number, found -inf"),
        (save("W.npy", W.astype(str)), "W.npy: elements: expected real numbers, found type <U32"),
        (save("W.npy", W.astype(complex)), "W.npy: elements: expected real numbers, found type complex128"),
        (save("W.npy", np.array([[None] * 3] * 4)), "W.npy: expected an array file, found pickled objects"),
        (lambda f: (f / "W.npy").write_bytes(b""), "W.npy: expected an array file, found one that cannot be read (EOF: reading magic string, expected 8 bytes got 0)"),
        (lambda f: np.savez(f / "params.npz", c=W) or (f / "W.npy").unlink(), "model.sd:2:5: parameter W: expected a file W.npy (or .npz, .csv, .txt, or in params.npz) beside model.sd, found none"),
        (lambda f: np.savez(f / "W.npz", a=W, b=W) or (f / "W.npy").unlink(), "W.npz: arrays: expected one, found a, b"),
        (lambda f: (f / "W.csv").write_text("1,2,3\n4,x,6\n") and (f / "W.npy").unlink(), "W.csv: line 2: expected numbers, found 'x'"),
        (lambda f: (f / "W.csv").write_text("1,2,3\n\n4,5\n") and (f / "W.npy").unlink(), "W.csv: line 3: expected 3 numbers as in the lines before, found 2"),
        (unlink("train.npy"), "FOLDER: expected train.npy (or .npz, .csv, .txt) with a label and 3 features a row, found no such file"),
        (save("train.npy", np.zeros((0, 4))), "train.npy: data: expected at least one sample, found none"),
        (lambda f: (f / "train.csv").write_text("") or (f / "train.npy").unlink(), "train.csv: data: expected at least one sample, found none"),
        (save("train.npy", TRAIN[:, :3]), "train.npy: data: expected 4 columns (a label and 3 features), found 3"),
        (save("test.npy", np.zeros((2, 5))), "test.npy: data: expected 4 columns (a label and 3 features), found 5"),
        (save("train.npy", TRAIN.reshape(3, 2, 2)), "train.npy: data: expected 2 axes: samples, and 4 columns (a label and 3 features), found 3 axes: (3, 2, 2)"),
        (save("train.npy", TRAIN[0]), "train.npy: data: expected 2 axes: samples, and 4 columns (a label and 3 features), found 1 axes: (4,)"),
        (save("train.npy", with_element(TRAIN, (1, 3), np.nan)), "train.npy: element [1, 3]: expected a finite number, found nan"),
        (save("train.npy", with_element(TRAIN, (1, 0), 1.5)), "train.npy: row 1 (counted from 0): label: expected an integer, found 1.5"),
        (save("train.npy", with_element(TRAIN, (2, 0), 4)), "train.npy: row 2 (counted from 0): label: expected a class from 0 to 3, found 4"),
        (save("test.npy", with_element(TRAIN, (0, 0), -1)), "test.npy: row 0 (counted from 0): label: expected a class from 0 to 3, found -1"),
    ],
)  # fmt: skip
def test_one_mistake(folder: Path, mistake: Callable[[Path], object], message: str) -> None:
    mistake(folder)
    assert message_of(folder) == message


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([-1, 0, 1], "row 1 (counted from 0): label: expected -1 or 1, as in other rows, found 0"),
        ([0, 1, 2], "row 2 (counted from 0): label: expected a class from 0 to 1, or -1 and 1, found 2"),
    ],
)
def test_wrong_signs_as_labels(folder: Path, labels: list[int], message: str) -> None:
    (folder / "model.sd").write_text("let X = (3, 1) in [0.0, 1.0] in sgn(X^T * X)")
    np.save(folder / "train.npy", np.column_stack([labels, TRAIN[:, 1:]]))
    assert message_of(folder) == f"train.npy: {message}"


def test_no_folder(tmp_path: Path) -> None:
    assert message_of(tmp_path / "nowhere") == "FOLDER: expected a folder with model.sd, found no folder"


def test_a_broken_archive(folder: Path) -> None:
    (folder / "W.npy").unlink()
    (folder / "params.npz").write_bytes(b"PK\x03\x04 and nothing else")
    assert message_of(folder).startswith("params.npz: expected arrays by name, found one that cannot be read")
