"""Inputs on which single steps of a search take long: generated, and larger than what the spaces were made for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


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


def write_dense_network(
    path: Path, growth: int = 16, blocks: tuple[int, ...] = (6, 12, 24, 16), side: int = 64
) -> Path:
    """A network like DenseNet-121 (Huang et al. 2017) with random weights as an ONNX file: every layer reads all before it."""
    onnx = pytest.importorskip("onnx")
    helper, rng = onnx.helper, np.random.default_rng(0)
    nodes, weights = [], []

    def weight(name: str, values: np.ndarray) -> str:
        weights.append(onnx.numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def node(operator: str, inputs: list[str], name: str, **attributes: object) -> str:
        nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def conv(source: str, name: str, inputs: int, outputs: int, kernel: int, stride: int = 1) -> str:
        shape = (outputs, inputs, kernel, kernel)
        values = rng.normal(0, 1 / np.sqrt(inputs * kernel * kernel), shape)
        sizes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4}
        return node("Conv", [source, weight(f"{name}.weight", values)], name, **sizes)

    def normal(source: str, name: str, channels: int) -> str:
        values = [rng.normal(mean, 0.05, channels) for mean in (1.0, 0.0, 0.0, 1.0)]
        operands = [weight(f"{name}.{k}", v) for k, v in enumerate(values)]
        return node("Relu", [node("BatchNormalization", [source, *operands], f"{name}.normal")], name)

    channels = 2 * growth
    last = node("Relu", [conv("image", "conv0", 3, channels, 7, 2)], "relu0")
    for group, layers in enumerate(blocks):
        for k in range(layers):
            name = f"{group}.{k}"
            narrow = conv(normal(last, f"{name}.before", channels), f"{name}.narrow", channels, 4 * growth, 1)
            wide = conv(node("Relu", [narrow], f"{name}.relu"), f"{name}.wide", 4 * growth, growth, 3)
            last = node("Concat", [last, wide], f"{name}.all", axis=1)
            channels += growth
        if group < len(blocks) - 1:
            last = conv(normal(last, f"{group}.before", channels), f"{group}.half", channels, channels // 2, 1)
            last = node("AveragePool", [last], f"{group}.pool", kernel_shape=[2, 2], strides=[2, 2])
            channels //= 2
    last = node("Flatten", [node("GlobalAveragePool", [last], "mean")], "flat")
    last = node("Gemm", [last, weight("fc", rng.normal(0, 0.1, (10, channels)))], "fc.out", transB=1)
    image = [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, [1, 3, side, side])]
    classes = [helper.make_tensor_value_info(last, onnx.TensorProto.FLOAT, [1, 10])]
    graph = helper.make_graph(nodes, "dense", image, classes, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path
