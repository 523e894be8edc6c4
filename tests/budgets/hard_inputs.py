"""Inputs on which single steps of a search take long: generated, and larger than what the spaces were made for."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def write_network(folder: Path, side: int, channels: tuple[int, int], samples: int) -> Path:
    """A convolutional network with random weights and data as a model folder; `side` pixels, a multiple of 4."""
    rng = np.random.default_rng(3)
    first, second = channels
    dense = (side // 4) ** 2 * second
    weights = {
        "F1": rng.normal(0, 0.4, (1, 3, 3, 1, first)),
        "F2": rng.normal(0, 0.15, (1, 3, 3, first, second)),
        "FC": rng.normal(0, 0.05, (dense, 10)),
    }
    folder.mkdir()
    for name, values in weights.items():
        np.save(folder / f"{name}.npy", values.astype(np.float32))
    features = np.clip(rng.normal(0, 0.5, (samples, side * side)), -1, 1)
    data = np.column_stack([rng.integers(0, 10, samples), features]).astype(np.float32)
    np.savez(folder / "train.npz", data=data)
    np.savez(folder / "test.npz", data=data)
    declared = "\n".join(
        f"let {name} = {values.shape} in [{values.min():.6f}, {values.max():.6f}] in"
        for name, values in weights.items()
    )
    window = "{s 1 1}, {p 1 1 1 1}, {d 1 1}, {g 1}"
    (folder / "model.sd").write_text(
        f"let X = ({side * side}, 1) in [-1.0, 1.0] in\n{declared}\n"
        f"let image = reshape(X, (1, {side}, {side}, 1), (1, 2)) in\n"
        f"let conv1 = relu(conv2d(image, F1, {window})) in\n"
        "let pool1 = maxpool(conv1, {k 2 2}, {p 0 0 0 0}, {s 2 2}) in\n"
        f"let conv2 = relu(conv2d(pool1, F2, {window})) in\n"
        "let pool2 = maxpool(conv2, {k 2 2}, {p 0 0 0 0}, {s 2 2}) in\n"
        f"let flat = reshape(pool2, (1, {dense}), (1, 2, 3, 4)) in\nargmax(flat * FC)\n"
    )
    return folder


def write_buffers(path: Path, count: int) -> Path:
    """Buffers of many sizes and lives, some aligned."""
    rng = np.random.default_rng(5)
    lower = rng.integers(0, count, count)
    upper = lower + rng.integers(1, count // 3, count)
    size, alignment = rng.integers(1, 4096, count), rng.choice([1, 4, 16], count)
    rows = zip(lower, upper, size, alignment, strict=True)
    lines = [f"b{i},{a},{b},{s},{k}" for i, (a, b, s, k) in enumerate(rows)]
    path.write_text("\n".join(["id,lower,upper,size,alignment", *lines]) + "\n")
    return path
