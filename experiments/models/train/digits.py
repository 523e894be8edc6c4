"""The digits data set: 1797 handwritten digits of 8 x 8 pixels, 10 classes (UCI, in scikit-learn)."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from kilotune.experiments.models.train.split import DataSplit, cut

TRAIN_SAMPLES = 1200
CLASSES = 10
FEATURES = 64

ATTRIBUTION = (
    "Data: Optical Recognition of Handwritten Digits (E. Alpaydin, C. Kaynak; UCI Machine Learning Repository, 1998), "
    "CC BY 4.0, as in scikit-learn's load_digits; pixels 0..16 scaled to [-1, 1]; "
    "1200 training and 597 test samples."
)


def load_split() -> DataSplit:
    """Labels in column 0, then the pixels. Every value is a multiple of 1/8, so float16 holds it exactly."""
    digits = load_digits()
    rows = np.column_stack([digits.target, digits.data / 8.0 - 1.0]).astype(np.float16)
    return cut(rows, TRAIN_SAMPLES)
