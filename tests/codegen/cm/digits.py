"""The bundled CNN of handwritten digits as an ONNX file with its images: a trained network for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper

import kilotune.experiments.models
from tests.codegen.cm.networks import model

FOLDER = Path(kilotune.experiments.models.__file__).parent / "lenet-digits"


def digits_network(largest: float) -> Any:
    """For images whose pixels are 0 to `largest`: scaled to -1 to 1, two convolutions with pooling, a dense layer."""
    w = {name: np.load(FOLDER / f"{name}.npy").astype(np.float32) for name in ("F1", "B1", "F2", "B2", "FC", "FCbias")}
    constants = {
        "factor": np.float32(2 / largest),
        "one": np.float32(1),
        "f1": w["F1"][0].transpose(3, 2, 0, 1),
        "b1": w["B1"].reshape(-1),
        "f2": w["F2"][0].transpose(3, 2, 0, 1),
        "b2": w["B2"].reshape(-1),
        "dense": w["FC"].reshape(2, 2, 12, 10).transpose(2, 0, 1, 3).reshape(48, 10),
        "bias": w["FCbias"].reshape(-1),
    }
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("Mul", ["x", "factor"], ["scaled"]),
        helper.make_node("Sub", ["scaled", "one"], ["centred"]),
        helper.make_node("Conv", ["centred", "f1", "b1"], ["conv1"], pads=[1] * 4),
        helper.make_node("Relu", ["conv1"], ["relu1"]),
        helper.make_node("MaxPool", ["relu1"], ["pool1"], **pool),
        helper.make_node("Conv", ["pool1", "f2", "b2"], ["conv2"], pads=[1] * 4),
        helper.make_node("Relu", ["conv2"], ["relu2"]),
        helper.make_node("MaxPool", ["relu2"], ["pool2"], **pool),
        helper.make_node("Flatten", ["pool2"], ["flat"]),
        helper.make_node("Gemm", ["flat", "dense", "bias"], ["y"]),
    ]
    return model(nodes, [1, 1, 8, 8], constants)


def digits_images(largest: float) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The 597 images that the network was not trained on, [images, 1, 8, 8] with pixels 0 to `largest`, and their classes."""
    table = np.load(FOLDER / "test.npz")["data"]
    pixels = (table[:, 1:] + 1) / 2 * largest
    return pixels.reshape(-1, 1, 8, 8).astype(np.float32), table[:, 0].astype(np.int64)
