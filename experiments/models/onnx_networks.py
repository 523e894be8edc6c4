"""LeNet-5 and ResNet-20 as ONNX models with seeded weights: networks to map and to check with, not to classify with."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np

IMAGE = "image"


class _ModelBuilder:
    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)
        self._nodes: list[Any] = []
        self._weights: list[Any] = []

    def node(self, operator: str, inputs: list[str], name: str, **attributes: Any) -> str:
        from onnx import helper

        self._nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def weight(self, name: str, *shape: int, scale: float = 1.0, shift: float = 0.0) -> str:
        from onnx import numpy_helper

        values = self._generator.normal(0, scale, shape).astype(np.float32) + np.float32(shift)
        self._weights.append(numpy_helper.from_array(values, name))
        return name

    def conv(self, source: str, name: str, inputs: int, outputs: int, kernel: int, stride: int, normal: bool) -> str:
        pad = kernel // 2
        spread = 1 / np.sqrt(inputs * kernel * kernel)
        operands = [source, self.weight(f"{name}.weight", outputs, inputs, kernel, kernel, scale=float(spread))]
        if not normal:
            operands.append(self.weight(f"{name}.bias", outputs, scale=0.1))
        shape = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        result = self.node("Conv", operands, name, **shape)
        if not normal:
            return result
        spread_of = {"scale": (0.1, 1.0), "offset": (0.1, 0.0), "mean": (0.1, 0.0), "variance": (0.05, 1.0)}
        statistics = [self.weight(f"{name}.{k}", outputs, scale=s, shift=m) for k, (s, m) in spread_of.items()]
        return self.node("BatchNormalization", [result, *statistics], f"{name}.normal")

    def linear(self, source: str, name: str, inputs: int, outputs: int) -> str:
        weight = self.weight(f"{name}.weight", outputs, inputs, scale=float(1 / np.sqrt(inputs)))
        return self.node("Gemm", [source, weight, self.weight(f"{name}.bias", outputs, scale=0.1)], name, transB=1)

    def model(self, name: str, image: tuple[int, int, int], output: str, classes: int) -> Any:
        from onnx import TensorProto, helper

        inputs = [helper.make_tensor_value_info(IMAGE, TensorProto.FLOAT, [1, *image])]
        outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, [1, classes])]
        graph = helper.make_graph(self._nodes, name, inputs, outputs, self._weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def lenet5(seed: int = 0) -> Any:
    """Two convolutions with max pooling and three fully connected layers, for 28 x 28 (LeCun et al. 1998)."""
    b = _ModelBuilder(seed)
    x = b.node("Relu", [b.conv(IMAGE, "conv1", 1, 6, 5, 1, False)], "relu1")
    x = b.node("MaxPool", [x], "pool1", kernel_shape=[2, 2], strides=[2, 2])
    weight = b.weight("conv2.weight", 16, 6, 5, 5, scale=0.08)
    x = b.node("Conv", [x, weight, b.weight("conv2.bias", 16, scale=0.1)], "conv2", kernel_shape=[5, 5])
    x = b.node("MaxPool", [b.node("Relu", [x], "relu2")], "pool2", kernel_shape=[2, 2], strides=[2, 2])
    x = b.node("Flatten", [x], "flat")
    for number, (inputs, outputs) in enumerate(((400, 120), (120, 84))):
        x = b.node("Relu", [b.linear(x, f"fc{number + 1}", inputs, outputs)], f"relu{number + 3}")
    x = b.linear(x, "fc3", 84, 10)
    return b.model("lenet5", (1, 28, 28), b.node("Softmax", [x], "probabilities", axis=1), 10)


def resnet20(seed: int = 0, width: int = 16, size: int = 32) -> Any:
    """For CIFAR (He et al. 2016): three groups of three residual blocks, projections where the size changes.

    width: channels of the first group; size: of the image. Smaller ones keep the shape of the graph.
    """
    b = _ModelBuilder(seed)
    x = b.node("Relu", [b.conv(IMAGE, "conv0", 3, width, 3, 1, True)], "relu0")
    inputs = width
    for group in range(3):
        for block in range(3):
            name, outputs = f"{group}.{block}", width << group
            stride = 2 if group and not block else 1
            y = b.node("Relu", [b.conv(x, f"conv{name}a", inputs, outputs, 3, stride, True)], f"relu{name}a")
            y = b.conv(y, f"conv{name}b", outputs, outputs, 3, 1, True)
            short = b.conv(x, f"project{name}", inputs, outputs, 1, stride, True) if stride == 2 else x
            x = b.node("Relu", [b.node("Add", [y, short], f"add{name}")], f"relu{name}")
            inputs = outputs
    x = b.node("Flatten", [b.node("GlobalAveragePool", [x], "pool")], "flat")
    return b.model("resnet20", (3, size, size), b.linear(x, "fc", inputs, 10), 10)


MADE = MappingProxyType({"lenet5": lenet5, "resnet20-projected": resnet20})
"""Networks that need no file, by name."""
