"""Random networks of more kinds of nodes: squeeze and excite, functions, LRN, larger and smaller images, pools rounded up."""

from __future__ import annotations

import numpy as np
from onnx import helper

from tests.codegen.cm.networks import RandomNetwork

FUNCTIONS = ("Sigmoid", "HardSwish", "HardSigmoid", "LeakyRelu", "Tanh")


class WiderNetwork(RandomNetwork):
    """Images stay smaller than 20 x 20."""

    def draw(self) -> None:
        names = list(self.shapes)
        source = names[-1] if self.generator.random() < 0.7 else names[int(self.generator.integers(len(names)))]
        images = (self._conv, self._pool, self._ceiling, self._larger, self._transposed)
        pixels = (self._conv, self._excite, self._function, self._residual, self._split, self._concat)
        kinds = (*images, *pixels)
        kinds[int(self.generator.integers(len(kinds)))](source)

    def _ceiling(self, source: str) -> None:
        channels, *size = self.shapes[source]
        if min(size) < 3:
            return
        kernel, stride = (self.generator.integers(2, 4, 2).tolist() for _ in range(2))
        high, wide = (-(-(n - k) // s) + 1 for n, k, s in zip(size, kernel, stride, strict=True))
        high -= (high - 1) * stride[0] >= size[0]
        wide -= (wide - 1) * stride[1] >= size[1]
        operator = str(self.generator.choice(["MaxPool", "AveragePool"]))
        attributes = {"kernel_shape": kernel, "strides": stride, "ceil_mode": 1}
        self._node(operator, [source], (channels, high, wide), **attributes)

    def _excite(self, source: str) -> None:
        channels, *size = self.shapes[source]
        mean = self._node("GlobalAveragePool", [source], (channels, 1, 1))
        few = self._node("Conv", [mean, self._constant(2, channels, 1, 1)], (2, 1, 1))
        few = self._node("Relu", [few], (2, 1, 1))
        many = self._node("Conv", [few, self._constant(channels, 2, 1, 1)], (channels, 1, 1))
        gate = self._node("HardSigmoid", [many], (channels, 1, 1))
        self._node("Mul", [source, gate], (channels, *size))

    def _function(self, source: str) -> None:
        if len(self.shapes) % 4 == 3:
            size = int(self.generator.integers(1, 6))
            alpha, bias = ((0.5, 1.0), (1e-4, 1.0), (1e-4, 2.0))[size % 3]
            self._node("LRN", [source], self.shapes[source], size=size, alpha=alpha, beta=0.75, bias=bias)
        elif self.generator.random() < 0.3:
            slopes = self._constant(self.shapes[source][0], 1, 1)
            self._node("PRelu", [source, slopes], self.shapes[source])
        else:
            self._node(str(self.generator.choice(FUNCTIONS)), [source], self.shapes[source])

    def _residual(self, source: str) -> None:
        channels, *size = self.shapes[source]
        inner = self._node("Conv", [source, self._constant(channels, channels, 3, 3)], (channels, *size), pads=[1] * 4)
        operator = ("Add", "Sub")[len(self.shapes) % 2]
        self._node(operator, [inner, source], (channels, *size))

    def _larger(self, source: str) -> None:
        channels, high, wide = self.shapes[source]
        factors = self.generator.integers(1, 3, 2).tolist()
        if max(high * factors[0], wide * factors[1]) > 20:
            return
        name = f"k{len(self.constants)}"
        self.constants[name] = np.float32([1, 1, *factors])
        shape = (channels, high * factors[0], wide * factors[1])
        self._node(
            "Resize", [source, "", name], shape, coordinate_transformation_mode="asymmetric", nearest_mode="floor"
        )

    def _transposed(self, source: str) -> None:
        channels, high, wide = self.shapes[source]
        kernel, stride = (int(n) for n in (self.generator.integers(1, 4), self.generator.integers(1, 3)))
        shape = (2, (high - 1) * stride + kernel, (wide - 1) * stride + kernel)
        if max(shape) <= 20:
            weight = self._constant(channels, 2, kernel, kernel)
            self._node("ConvTranspose", [source, weight], shape, strides=[stride] * 2)

    def _split(self, source: str) -> None:
        channels, *size = self.shapes[source]
        if channels < 2:
            return
        first, second, sizes = f"t{len(self.nodes)}", f"t{len(self.nodes)}b", f"k{len(self.constants)}"
        self.constants[sizes] = np.array([1, channels - 1])
        self.nodes.append(helper.make_node("Split", [source, sizes], [first, second], axis=1))
        self.shapes[first], self.shapes[second] = (1, size[0], size[1]), (channels - 1, size[0], size[1])
