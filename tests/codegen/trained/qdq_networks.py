"""Random quantised ONNX networks: every operator between DequantizeLinear and QuantizeLinear, with and without signs, scales for all or for
each channel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kilotune.codegen import ir
from kilotune.codegen.arrays import Array
from kilotune.codegen.trained.conversion import Converted, convert
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.quantised_importing import read_kept


@dataclass
class QdqNetwork:
    """Nodes and constants so far. `last` is the real value that was dequantised last, `shape` its shape, `scale` about its largest
    magnitude over 128."""

    random: np.random.Generator
    kind: type[np.generic]
    given: tuple[int, ...]
    shape: list[int] = field(default_factory=list)
    last: str = "x"
    scale: np.float32 = field(default=np.float32(1))
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)

    def constant(self, values: Array | float) -> str:
        """Its name."""
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(values)
        return name

    def node(self, kind: str, *reads: str, **attributes: Any) -> str:
        """What it writes."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(reads), [name], **attributes))
        return name

    def zero(self) -> str:
        """A zero point by chance."""
        limits = np.iinfo(self.kind)
        return self.constant(np.array(self.random.integers(limits.min, limits.max + 1), self.kind))

    def rounded(self, value: str, scale: float) -> str:
        """QuantizeLinear and DequantizeLinear, whose scale is about that."""
        step = np.float32(max(scale, 1e-6) * self.random.uniform(0.7, 1.4))
        grid = self.constant(step), self.zero()
        result = self.node("DequantizeLinear", self.node("QuantizeLinear", value, *grid), *grid)
        self.scale = step
        return result

    def close(self, value: str, scale: float) -> None:
        """Another value is the last, rounded."""
        self.last = self.rounded(value, scale)

    def weights(self, shape: Sequence[int], axis: int, *, each: bool) -> tuple[str, np.ndarray]:
        """Integers of 8 bits as real numbers, and their scales, several along an axis where `each`."""
        # as a quantiser reduces their range: with larger ones ONNX Runtime's sums saturate on x86 processors without VNNI
        integers = self.random.integers(-63, 64, shape).astype(np.int8)
        scales = np.exp(self.random.uniform(-6, -4, shape[axis] if each else ())).astype(np.float32)
        zeros = self.constant(np.zeros(scales.shape, np.int8))
        reads = self.constant(integers), self.constant(scales), zeros
        return self.node("DequantizeLinear", *reads, axis=axis), scales

    def biases(self, count: int, scales: np.ndarray) -> list[str]:
        """A bias on the scale of the sums, or none."""
        if self.random.random() < 0.3:
            return []
        integers = self.constant(self.random.integers(-2000, 2000, count).astype(np.int32))
        steps = np.asarray(self.scale * scales, np.float32)
        return [
            self.node(
                "DequantizeLinear",
                integers,
                self.constant(steps),
                self.constant(np.zeros(steps.shape, np.int32)),
                axis=0,
            )
        ]

    def model(self) -> onnx.ModelProto:
        """As a file would hold it."""
        nodes = [*self.nodes, helper.make_node("Identity", [self.last], ["y"])]
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.given)
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        weights = [numpy_helper.from_array(values, name) for name, values in self.constants.items()]
        graph = helper.make_graph(nodes, "net", [given], [result], weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _convolution(net: QdqNetwork) -> None:
    random, spatial, channels = net.random, net.shape[2:], net.shape[1]
    kernel = [int(random.integers(1, 4)) for _ in spatial]
    pads = [int(random.integers(0, extent)) for extent in kernel] if random.random() < 0.6 else [0] * len(kernel)
    strides = [int(random.integers(1, 3)) for _ in kernel]
    sizes = [(n + 2 * p - k) // s + 1 for n, p, k, s in zip(spatial, pads, kernel, strides, strict=True)]
    if min(sizes) < 1:
        return
    groups = channels if random.random() < 0.3 else 1
    outputs = groups * int(random.integers(1, 4))
    filters, scales = net.weights((outputs, channels // groups, *kernel), 0, each=random.random() < 0.5)
    reads = [net.last, filters, *net.biases(outputs, scales)]
    made = net.node("Conv", *reads, pads=pads * 2, strides=strides, group=groups, kernel_shape=kernel)
    _close_sums(net, made, scales, channels // groups * int(np.prod(kernel)))
    net.shape = [1, outputs, *sizes]


def _matrix(net: QdqNetwork) -> None:
    inputs, outputs = net.shape[1], int(net.random.integers(2, 9))
    if net.random.random() < 0.3:
        matrix, scales = net.weights((inputs, outputs), 1, each=False)
        made = net.node("MatMul", net.last, matrix)
    else:
        rows, each = bool(net.random.random() < 0.7), bool(net.random.random() < 0.5)
        shape = (outputs, inputs) if rows else (inputs, outputs)
        matrix, scales = net.weights(shape, 0 if rows else 1, each=each)
        made = net.node("Gemm", net.last, matrix, *net.biases(outputs, scales), transB=int(rows))
    _close_sums(net, made, scales, inputs)
    net.shape = [1, outputs]


def _close_sums(net: QdqNetwork, made: str, scales: np.ndarray, taps: int) -> None:
    made = net.node("Relu", made) if net.random.random() < 0.4 else made
    net.close(made, float(net.scale) * float(scales.mean()) * 60 * taps**0.5)


def _function(net: QdqNetwork) -> None:
    kind = str(net.random.choice(["LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "Elu", "Relu", "Clip"]))
    ends = [net.constant(np.float32(end)) for end in (-1, 1.5)] if kind == "Clip" else []
    net.close(net.node(kind, net.last, *ends), 0.005 if kind in ("Sigmoid", "Tanh") else 0.7 * float(net.scale))


def _with_constants(net: QdqNetwork) -> None:
    """A sum or product with constants, one for each channel."""
    limits = np.iinfo(net.kind)
    shape = [1, net.shape[1], *(1 for _ in net.shape[2:])]
    integers = net.random.integers(limits.min, limits.max + 1, shape).astype(net.kind)
    step = np.float32(np.exp(net.random.uniform(-5, -2)))
    operand = net.node("DequantizeLinear", net.constant(integers), net.constant(step), net.zero())
    kind = str(net.random.choice(["Add", "Mul"]))
    scale = float(net.scale) + step if kind == "Add" else float(net.scale) * step * 60
    net.close(net.node(kind, net.last, operand), scale)


def _with_itself(net: QdqNetwork) -> None:
    """A sum, difference, product or concatenation with a function of the same value."""
    first, scale = net.last, float(net.scale)
    second = net.rounded(net.node("LeakyRelu", first, alpha=0.2), 0.6 * scale)
    kind = str(net.random.choice(["Add", "Sub", "Mul", "Concat"]))
    made = net.node(kind, first, second, **({"axis": 1} if kind == "Concat" else {}))
    net.close(made, scale**2 * 60 if kind == "Mul" else 1.5 * scale)
    if kind == "Concat":
        net.shape[1] *= 2


def _windows(net: QdqNetwork) -> None:
    kernel = [min(2, extent) for extent in net.shape[2:]]
    kind = str(net.random.choice(["MaxPool", "AveragePool"]))
    made = net.node(kind, net.last, kernel_shape=kernel, strides=kernel)
    net.shape = [*net.shape[:2], *((n - k) // k + 1 for n, k in zip(net.shape[2:], kernel, strict=True))]
    if kind == "MaxPool":
        net.last = made
    else:
        net.close(made, 0.8 * float(net.scale))


def _means(net: QdqNetwork) -> None:
    net.close(net.node("GlobalAveragePool", net.last), 0.5 * float(net.scale))
    net.shape = [*net.shape[:2], *(1 for _ in net.shape[2:])]


def _border(net: QdqNetwork) -> None:
    spatial = len(net.shape) - 2
    pads = net.constant(np.array([0, 0, *[1] * spatial, 0, 0, *[2] * spatial]))
    number = net.constant(np.float32(net.random.choice([0.0, 0.3])))
    net.close(net.node("Pad", net.last, pads, number), float(net.scale))
    net.shape = [*net.shape[:2], *(extent + 3 for extent in net.shape[2:])]


def _flat(net: QdqNetwork) -> None:
    net.last = net.node("Flatten", net.last)
    net.shape = [1, int(np.prod(net.shape))]


ANY: tuple[Callable[[QdqNetwork], None], ...] = (_function, _with_constants, _with_itself)
IMAGES = (*ANY, _convolution, _convolution, _convolution, _windows, _means, _border, _flat)
ROWS = (*ANY, _matrix, _matrix)


def random_qdq_network(random: np.random.Generator) -> QdqNetwork:
    """A row, a sequence or an image, and up to four operators."""
    channels, sizes = int(random.integers(1, 5)), random.integers(5, 10, 2).tolist()
    shape = ((1, 4 * channels), (1, channels, sizes[0]), (1, channels, *sizes))[random.integers(3)]
    net = QdqNetwork(random, (np.int8, np.uint8)[random.integers(2)], shape, list(shape))
    net.close("x", float(np.exp(random.uniform(-5, -2))))
    for _ in range(int(random.integers(1, 5))):
        layers = IMAGES if len(net.shape) > 2 else ROWS
        layers[random.integers(len(layers))](net)
    return net


def kept_program(net: QdqNetwork, folder: Path) -> Converted | None:
    """The program of its integers; None where nothing computes."""
    path = folder / "net.onnx"
    onnx.save(net.model(), str(path))
    made = convert(read_kept(path), "made", Returns.VALUE)
    return made if ir.is_quantised(made.program) else None
