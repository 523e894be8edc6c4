"""A low-rank FastGRNN (Shiftry Pseudocode 19: Google-30) with random weights, as a bundle."""

from __future__ import annotations

from pathlib import Path

import numpy as np

STEPS, FEATURES, INPUT_RANK, STATE_RANK, HIDDEN, CLASSES = 4, 32, 16, 25, 100, 30

SOURCE = f"""\
let X = ({STEPS * FEATURES}, 1) in [-1.0, 1.0] in
let W1 = ({FEATURES}, {INPUT_RANK}) in [-1.0, 1.0] in
let W2 = ({INPUT_RANK}, {HIDDEN}) in [-1.0, 1.0] in
let U1 = ({HIDDEN}, {STATE_RANK}) in [-1.0, 1.0] in
let U2 = ({STATE_RANK}, {HIDDEN}) in [-1.0, 1.0] in
let Bg = (1, {HIDDEN}) in [-1.0, 1.0] in
let Bh = (1, {HIDDEN}) in [-1.0, 1.0] in
let FC = ({HIDDEN}, {CLASSES}) in [-1.0, 1.0] in
let FCbias = (1, {CLASSES}) in [-1.0, 1.0] in
let steps = reshape(X, ({STEPS}, 1, {FEATURES}), (1, 2)) in
let H = init([1, {HIDDEN}], 0.0) in
let last = loop(t = [0:{STEPS}], H)
(
    let given = (steps[t] * W1) * W2 in
    let kept = (H * U1) * U2 in
    let pre = given + kept in
    let gate = sigmoid(pre + Bg) in
    let update = tanh(pre + Bh) in
    let H = (gate <*> H) + (0.85 * (1.0 - gate) + 0.27) <*> update in
    H
) in
argmax((last * FC) + FCbias)
"""


def write_low_rank_bundle(folder: Path, seed: int = 0) -> Path:
    """The bundle in `folder`; labels are random: only its memory is of interest."""
    rng = np.random.default_rng(seed)
    shapes = {
        "W1": (FEATURES, INPUT_RANK),
        "W2": (INPUT_RANK, HIDDEN),
        "U1": (HIDDEN, STATE_RANK),
        "U2": (STATE_RANK, HIDDEN),
        "Bg": (1, HIDDEN),
        "Bh": (1, HIDDEN),
        "FC": (HIDDEN, CLASSES),
        "FCbias": (1, CLASSES),
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.sd").write_text(SOURCE)
    for name, shape in shapes.items():
        np.save(folder / f"{name}.npy", rng.uniform(-1, 1, shape))
    rows = rng.uniform(-1, 1, (CLASSES, 1 + STEPS * FEATURES))
    rows[:, 0] = np.arange(CLASSES)
    np.save(folder / "train.npy", rows)
    return folder
