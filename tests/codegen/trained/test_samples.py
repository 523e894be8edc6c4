"""Samples from every kind of file, with the class or value where it is said to be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.dataset import load_dataset
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.trained.samples import read_samples

FEATURES = np.arange(24.0).reshape(4, 6)
CLASSES = np.array([1.0, 0.0, 2.0, 1.0])


def write_table(path: Path, table: np.ndarray, header: str = "") -> Path:
    np.savetxt(path, table, delimiter=",", header=header, comments="")
    return path


def test_names_of_arrays_say_what_is_training_and_what_test_data(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", X_train=FEATURES, y_train=CLASSES, X_test=FEATURES[:1], y_test=CLASSES[:1])
    found = read_samples(tmp_path / "d.npz", (1, 6))
    np.testing.assert_array_equal(found.train.features, FEATURES)
    assert found.train.targets is not None
    assert found.train.targets.tolist() == CLASSES.tolist()
    assert found.test is not None
    assert found.test.targets is not None
    assert (found.test.features.tolist(), found.test.targets.tolist()) == ([FEATURES[0].tolist()], [1.0])


def test_quotation_marks_around_numbers_do_not_count(tmp_path: Path) -> None:
    lines = ['"y, or label", "a",b', '"1","2.5","-3"', '0, "4" ,5']
    (tmp_path / "d.csv").write_text("\n".join(lines))
    found = read_samples(tmp_path / "d.csv", (1, 2)).train
    assert found.features.tolist() == [[2.5, -3.0], [4.0, 5.0]]
    assert found.targets is not None
    assert found.targets.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(("text", "found"), [("setosa", "'setosa'"), ("1_0", "'1_0'"), ('"', "'\"'")])
def test_what_is_no_number_is_shown(text: str, found: str, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(f"1,2,3\n{text},2,3\n")
    with pytest.raises(
        InputError, match=rf"line 2: expected numbers \(of a class that has a text as its name, .*found {found}"
    ):
        read_samples(tmp_path / "d.csv", (1, 2))


@pytest.mark.parametrize(
    ("text", "label", "said"),
    [
        (
            "0,1,2,3\n1,2,3,4\n",
            None,
            "line 1: expected names of columns, or numbers of a sample, found 0 to 3, as pandas",
        ),
        ("1.0,2.0,3.0,4.0\n1,2,3,4\n", None, r"line 1: expected names .* found 1.0 to 4.0, .* a line of names belongs"),
        (
            "y,a,b,c\n1,2," + '"' + "4" * 140_000 + '"\n',
            None,
            "line 2: expected fields between commas, found field larger",
        ),
        ('"y,' + "a" * 140_000 + '",b\n1,2\n', None, "line 1: expected fields between commas, found field larger"),
        ("y,a,b,c\n1,2,,4\n", None, r"line 2: expected a number in every column \(of all samples\), found ''"),
        ("y,a,b,c\n1,2,NA,4\n", None, r"line 2: expected a number in every column \(of all samples\), found 'NA'"),
        ("y,a,b\n1,2,3,4\n", None, "line 1: expected 4 names, as there are columns, found 3"),
        ('"y, z",a,b,c,d\n1,2,3,4\n', "a", "line 1: expected 4 names, as there are columns, found 5"),
        ("y,a,a,c\n1,2,3,4\n", "a", "--label: expected the name of one column, or its number, found a, as 2 columns"),
    ],
)
def test_tables_that_say_something_else_than_is_meant(text: str, label: str | None, said: str, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(text)
    with pytest.raises(InputError, match=said):
        read_samples(tmp_path / "d.csv", (1, 3), label)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("# y a b c\n1 2 3 4\n", "y"),
        ("# y,a,b,c\n1,2,3,4\n", "y"),
        ("# of the year 2020, for a test\n1,2,3,4\n", "0"),
        ("the y\ta, b\tb\tc\n1\t2\t3\t4\n", "the y"),
        ('"the y"\t"a"\tb\tc\n1\t2\t3\t4\n', "the y"),
        ("y,a,b,c\n\n1,\t2,\t3,\t4\n", "y"),
        ("1 2 3 4\n1 2 3 4\n", "0"),
        ("0,1,2,4\n1,2,3,4\n", "0"),
    ],
)
def test_tables_as_other_programs_write_them(text: str, label: str, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(text)
    found = read_samples(tmp_path / "d.csv", (1, 3), label).train
    assert found.targets is not None
    assert (found.features[-1].tolist(), found.targets[-1]) == ([2.0, 3.0, 4.0], 1.0)


def test_a_mask_says_what_is_test_data(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", X=FEATURES, y=CLASSES, test=np.array([False, True, False, True]))
    found = read_samples(tmp_path / "d.npz", (1, 6))
    assert found.test is not None
    assert found.test.targets is not None
    np.testing.assert_array_equal(found.train.features, FEATURES[[0, 2]])
    np.testing.assert_array_equal(found.test.features, FEATURES[[1, 3]])
    assert found.test.targets.tolist() == [0.0, 1.0]
    assert [found.test.row(sample) for sample in range(2)] == [1, 3]


def test_what_is_not_finite_in_a_table_is_told_by_its_place_there(tmp_path: Path) -> None:
    for column in (4, 6):
        table = np.ones((3, 7))
        table[2, column] = np.inf
        np.save(tmp_path / "d.npy", table)
        with pytest.raises(InputError, match=rf"element \[2, {column}\]: expected a finite number, found inf"):
            read_samples(tmp_path / "d.npy", (1, 6), "4")


@pytest.mark.parametrize(
    ("header", "column", "label"), [("", 0, None), ("", 6, "-1"), ("", 2, "2"), ("a,b,c,d,kind,e,f", 4, "kind")]
)
def test_the_label_of_a_table_is_where_it_is_said_to_be(
    header: str, column: int, label: str | None, tmp_path: Path
) -> None:
    path = write_table(tmp_path / "d.csv", np.insert(FEATURES, column, CLASSES, axis=1), header)
    found = read_samples(path, (1, 6), label)
    np.testing.assert_array_equal(found.train.features, FEATURES)
    assert found.train.targets is not None
    assert found.train.targets.tolist() == CLASSES.tolist()


def test_a_table_as_wide_as_the_model_has_no_label(tmp_path: Path) -> None:
    np.save(tmp_path / "d.npy", FEATURES)
    assert read_samples(tmp_path / "d.npy", (1, 6)).train.targets is None


def test_images_with_their_channels_last_are_turned_for_a_model_that_has_them_first(tmp_path: Path) -> None:
    images = np.arange(2 * 4 * 5 * 3.0).reshape(2, 4, 5, 3)
    np.savez(tmp_path / "d.npz", X=images)
    found = read_samples(tmp_path / "d.npz", (1, 3, 4, 5)).train.features.reshape(2, 3, 4, 5)
    np.testing.assert_array_equal(found, images.transpose(0, 3, 1, 2))
    same = read_samples(tmp_path / "d.npz", (1, 4, 5, 3)).train.features.reshape(images.shape)
    np.testing.assert_array_equal(same, images)


@pytest.mark.parametrize(
    ("arrays", "label", "expected"),
    [
        ({"X": FEATURES[:, :5]}, None, "array X: expected 6 features a sample (6), as the model takes, found 5"),
        ({"X": FEATURES, "y": CLASSES[:3]}, None, "array y: expected 4 numbers, found 3"),
        (
            {"X": FEATURES, "y": np.eye(4)[:, :3]},
            None,
            "array y: expected one class or value a sample (the place of a one",
        ),
        ({"X": FEATURES, "y": CLASSES}, "z", "arrays: expected z, as --label says, found X, y"),
        ({"a": FEATURES, "b": CLASSES}, None, "arrays: expected one of X, x, "),
        ({"X": np.where(FEATURES == 7, np.nan, FEATURES)}, None, "element [1, 1]: array X: expected a finite number"),
        (
            {"X": FEATURES, "y": CLASSES, "Xt": FEATURES, "yt": [0, 1, np.nan, 0]},
            None,
            "array yt: expected a finite number, found nan",
        ),
        ({"X": FEATURES, "test": np.ones(4)}, None, "array test: expected a mark for each of 4 samples"),
        ({"X": FEATURES, "y": CLASSES, "Xt": FEATURES}, None, "arrays: expected labels of Xt (yt, "),
        ({"X": FEATURES, "y": CLASSES, "yt": CLASSES}, None, "arrays: expected the features of yt beside it (Xt, "),
        ({"X": FEATURES[:0]}, None, "array X: expected at least one sample, found none"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    arrays: dict[str, np.ndarray], label: str | None, expected: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(InputError) as error:
        read_samples(tmp_path / "d.npz", (1, 6), label)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


def test_a_column_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = write_table(tmp_path / "d.csv", np.insert(FEATURES, 0, CLASSES, axis=1), "y,a,b,c,d,e,f")
    with pytest.raises(
        InputError, match=r"--label: expected one of y, a, b, c, d, e, f, or a column from 0 to 6, found 7"
    ):
        read_samples(path, (1, 6), "7")


@pytest.mark.parametrize("shape", [(4, 3, 2, 2), (4, 2, 6), (4, 6, 2), (4, 4, 3)])
def test_axes_in_another_order_are_refused(shape: tuple[int, ...], tmp_path: Path) -> None:
    """Their elements are as many, but not in the model's order."""
    np.savez(tmp_path / "d.npz", X=np.zeros(shape))
    with pytest.raises(InputError, match="array X: expected samples of 3x4, as the model takes them"):
        read_samples(tmp_path / "d.npz", (1, 3, 4))


@pytest.mark.parametrize("shape", [(4, 12), (4, 3, 4), (4, 1, 3, 4)])
def test_axes_of_one_element_do_not_count(shape: tuple[int, ...], tmp_path: Path) -> None:
    values = np.arange(48.0).reshape(shape)
    np.savez(tmp_path / "d.npz", X=values)
    np.testing.assert_array_equal(read_samples(tmp_path / "d.npz", (1, 3, 4)).train.features, values.reshape(4, 12))


def test_a_table_without_a_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("")
    with pytest.raises(InputError, match=r"d\.csv: expected at least one sample, found none"):
        read_samples(tmp_path / "d.csv", (1, 6))


def test_features_are_floats_of_32_bits_as_the_header_takes_them_and_values_are_not(tmp_path: Path) -> None:
    """A barometer's 101325.003 is not one of them: a search that saw it would claim another accuracy than the exported program has."""
    table = np.column_stack([np.linspace(0.1, 0.4, 4), 101325 + np.linspace(0.001, 0.009, 4), np.full(4, 0.1)])
    exact = table[:, 1:].astype(np.float32).astype(np.float64)
    assert (exact != table[:, 1:]).all()
    found = read_samples(write_table(tmp_path / "d.csv", table), (1, 2)).train
    np.savez(tmp_path / "d.npz", X=table[:, 1:], y=table[:, 0])
    again = read_samples(tmp_path / "d.npz", (1, 2)).train
    loaded = load_dataset(tmp_path / "d.csv", 2, None)
    for features, targets in ((part.features, part.targets) for part in (found, again, loaded)):
        np.testing.assert_array_equal(features, exact)
        np.testing.assert_array_equal(targets, table[:, 0])
