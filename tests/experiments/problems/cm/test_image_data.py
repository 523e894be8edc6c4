"""Images for calibration and comparison: what a file may hold, and how it is told what it may not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen.diagnostics import InputError
from kilotune.experiments.problems.cm.image_data import load_images

SHAPE = (2, 3, 4)
PIXELS = np.arange(10 * 24, dtype=np.float32).reshape(10, *SHAPE)


def saved(tmp_path: Path, **arrays: np.ndarray) -> Path:
    path = tmp_path / "images.npz"
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("name", ["images", "X"])
@pytest.mark.parametrize("form", ["image", "vector", "channels last"])
def test_every_form_is_the_same_images(name: str, form: str, tmp_path: Path) -> None:
    raw = {"image": PIXELS, "vector": PIXELS.reshape(10, -1), "channels last": np.moveaxis(PIXELS, 1, 3)}[form]
    labels = np.arange(10)
    data = load_images(saved(tmp_path, **{name: raw}, y=labels), SHAPE, 3)
    assert data.labels is not None
    np.testing.assert_array_equal(data.images, PIXELS[data.labels])
    assert sorted(data.labels.tolist()) == labels.tolist() != data.labels.tolist(), "drawn, for files sorted by class"
    unseen, classes = data.unseen
    assert (len(data.seen), len(unseen)) == (3, 7)
    np.testing.assert_array_equal(np.concatenate([data.seen, unseen]), data.images)
    np.testing.assert_array_equal(classes, data.labels[3:])


def test_grey_images_need_no_channels(tmp_path: Path) -> None:
    data = load_images(saved(tmp_path, images=PIXELS[:, 0]), (1, 3, 4), None)
    assert (data.images.shape, data.labels, data.calibration) == ((10, 1, 3, 4), None, 5)


WRONG = {
    "pixels": ({"pixels": PIXELS}, None, "arrays: expected one called images or X, found pixels"),
    "shape": ({"images": PIXELS[:, :1]}, None, "expected images of 2x3x4, as the network's input, found 1x3x4"),
    "one": ({"images": PIXELS[:1]}, None, "expected at least 2 images, found 1"),
    "nan": ({"images": np.where(PIXELS == 30, np.nan, PIXELS)}, None, "element [1, 0, 1, 2]: expected a finite number"),
    "labels": ({"images": PIXELS, "labels": np.arange(9)}, None, "array labels: expected 10 classes"),
    "half": ({"images": PIXELS, "y": np.arange(10) / 2}, None, "found numbers that are no classes"),
    "beyond": (
        {"images": PIXELS, "y": np.arange(10) + 1},
        None,
        "images.npz: array y: expected classes from 0 to 9, as the network has them, found classes from 1 to 10",
    ),
    "negative": ({"images": PIXELS, "y": np.arange(10) - 1}, None, "found classes from -1 to 8"),
    "all": ({"images": PIXELS}, 10, "expected from 1 to 9 images for calibration"),
}


@pytest.mark.parametrize("what", WRONG)
def test_one_sentence_names_what_is_wrong(what: str, tmp_path: Path) -> None:
    arrays, calibration, message = WRONG[what]
    with pytest.raises(InputError) as raised:
        load_images(saved(tmp_path, **arrays), SHAPE, calibration, classes=10)
    assert message in str(raised.value)
