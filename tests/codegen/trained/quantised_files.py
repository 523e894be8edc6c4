"""TensorFlow Lite files of several operators on integers of 8 bits, and random networks of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import tflite

from kilotune.codegen.arrays import Array, IntArray
from tests.codegen.tflite.models import ints, offset_vector
from tests.codegen.trained.tflite_files import table

TYPES = {"int8": tflite.TensorType.INT8, "int32": tflite.TensorType.INT32, "float32": tflite.TensorType.FLOAT32,
         "uint8": tflite.TensorType.UINT8, "int16": tflite.TensorType.INT16}  # fmt: skip


@dataclass(frozen=True, eq=False)
class QuantisedTensor:
    """`kind`: as NumPy calls it; `scales`: several are those of places along `axis`."""

    shape: tuple[int, ...]
    kind: str = "int8"
    data: Array | None = None
    scales: tuple[float, ...] = ()
    zeros: tuple[int, ...] = ()
    axis: int = 0


@dataclass
class QuantisedNetwork:
    """Tensors and operators so far; the last tensor that was computed is what the file returns."""

    tensors: list[QuantisedTensor] = field(default_factory=list)
    operators: list[tuple[str, Sequence[int], int, tuple[str, Mapping[str, Any]] | None]] = field(default_factory=list)

    def tensor(self, tensor: QuantisedTensor) -> int:
        """Its number."""
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def operator(self, kind: str, reads: Sequence[int], made: QuantisedTensor, options: str = "", **values: Any) -> int:
        """The number of the tensor that an operator makes."""
        result = self.tensor(made)
        self.operators.append((kind, reads, result, (options, values) if options else None))
        return result

    def write(self, path: Path) -> Path:
        """As a file."""
        builder = flatbuffers.Builder(4096)
        empty = table(builder, "Buffer", Data=builder.CreateByteVector(b""))
        buffers, tensors = [empty], []
        for number, tensor in enumerate(self.tensors):
            place = 0
            if tensor.data is not None:
                content = np.ascontiguousarray(tensor.data, dtype=tensor.kind).tobytes()
                buffers.append(table(builder, "Buffer", Data=builder.CreateByteVector(content)))
                place = len(buffers) - 1
            fields = {"Shape": ints(builder, tensor.shape), "Type": TYPES[tensor.kind], "Buffer": place}
            fields["Name"] = builder.CreateString(f"t{number}")
            if tensor.scales:
                scales = builder.CreateNumpyVector(np.array(tensor.scales, dtype=np.float32))
                zeros = builder.CreateNumpyVector(np.array(tensor.zeros or (0,) * len(tensor.scales), dtype=np.int64))
                fields["Quantization"] = table(
                    builder, "QuantizationParameters", Scale=scales, ZeroPoint=zeros, QuantizedDimension=tensor.axis
                )
            tensors.append(table(builder, "Tensor", **fields))
        kinds = list(dict.fromkeys(kind for kind, *_ in self.operators))
        operators = []
        for kind, reads, made, options in self.operators:
            values = {
                "OpcodeIndex": kinds.index(kind),
                "Inputs": ints(builder, reads),
                "Outputs": ints(builder, [made]),
            }
            if options is not None:
                values["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, options[0])
                values["BuiltinOptions"] = table(builder, options[0], **options[1])
            operators.append(table(builder, "Operator", **values))
        graph = table(
            builder, "SubGraph", Tensors=offset_vector(builder, tensors), Inputs=ints(builder, [0]),
            Outputs=ints(builder, [self.operators[-1][2]]), Operators=offset_vector(builder, operators),
        )  # fmt: skip
        codes = [
            table(builder, "OperatorCode", BuiltinCode=number, DeprecatedBuiltinCode=min(number, 127), Version=1)
            for number in (getattr(tflite.BuiltinOperator, kind) for kind in kinds)
        ]
        model = table(
            builder, "Model", Version=3, OperatorCodes=offset_vector(builder, codes), Subgraphs=offset_vector(builder, [graph]),
            Buffers=offset_vector(builder, buffers),
        )  # fmt: skip
        builder.Finish(model, b"TFL3")
        path.write_bytes(bytes(builder.Output()))
        return path


def executed_integers(path: Path, samples: IntArray) -> IntArray:
    """What TensorFlow Lite Micro makes of integers [samples, features]: [samples, elements]."""
    from tflite_micro import runtime

    interpreter = runtime.Interpreter.from_file(str(path), arena_size=1_000_000)
    shape, rows = interpreter.get_input_details(0)["shape"], []
    for sample in samples:
        interpreter.set_input(sample.reshape(shape).astype(np.int8), 0)
        interpreter.invoke()
        rows.append(interpreter.get_output(0).reshape(-1).astype(np.int64))
    return np.array(rows)


@dataclass
class RandomNetworks:
    """Draws networks whose integers are spread over their range."""

    random: np.random.Generator

    def network(self, steps: int) -> QuantisedNetwork:
        """An image, so many operators, and half of the time a fully connected layer."""
        shape = (1, *(int(n) for n in self.random.integers(3, 8, 2)), int(self.random.integers(1, 5)))
        net = QuantisedNetwork()
        last = net.tensor(self._computed(shape, self.random.uniform(0.004, 0.5)))
        for _ in range(steps):
            makers = [
                self._convolution,
                self._depthwise,
                self._sum,
                self._product,
                self._pool,
                self._pad,
                self._function,
            ]
            last = makers[self.random.integers(len(makers))](net, last)
        if self.random.random() < 0.3:
            last = self._mean(net, last)
        if self.random.random() < 0.5 and net.operators:
            return net
        self._connected(net, last)
        if self.random.random() < 0.4:
            self._shares(net, net.operators[-1][2])
        return net

    def _computed(self, shape: tuple[int, ...], scale: float, zero: int | None = None) -> QuantisedTensor:
        zero = int(self.random.integers(-128, 128)) if zero is None else zero
        return QuantisedTensor(shape, scales=(float(np.float32(scale)),), zeros=(zero,))

    def _weights(self, net: QuantisedNetwork, shape: tuple[int, ...], axis: int, each: bool) -> tuple[int, int]:
        """Weights and biases."""
        channels = shape[axis]
        scales = tuple(self.random.uniform(0.001, 0.02, channels if each else 1).tolist())
        data = self.random.integers(-127, 128, shape)
        weights = net.tensor(QuantisedTensor(shape, data=data, scales=scales, axis=axis))
        bias = net.tensor(QuantisedTensor((channels,), "int32", self.random.integers(-3000, 3000, channels)))
        return weights, bias

    def _window(self) -> dict[str, int]:
        return {"Padding": int(self.random.integers(2)), "StrideH": int(self.random.integers(1, 3)),
                "StrideW": int(self.random.integers(1, 3))}  # fmt: skip

    def _activation(self) -> int:
        return int(self.random.choice([0, 1, 2, 3]))

    def _sized(
        self, shape: tuple[int, ...], kernel: tuple[int, int], window: Mapping[str, int], channels: int
    ) -> tuple[int, ...]:
        strides, dilations = (
            (window["StrideH"], window["StrideW"]),
            (window.get("DilationHFactor", 1), window.get("DilationWFactor", 1)),
        )
        spans = [(k - 1) * d + 1 if window["Padding"] else 1 for k, d in zip(kernel, dilations, strict=True)]
        return (1, *((n - span) // s + 1 for n, span, s in zip(shape[1:3], spans, strides, strict=True)), channels)

    def _kernel(self, shape: tuple[int, ...]) -> tuple[int, int]:
        return int(self.random.integers(1, min(3, shape[1]) + 1)), int(self.random.integers(1, min(3, shape[2]) + 1))

    def _scale(self, net: QuantisedNetwork, given: int, weights: int, taps: int) -> float:
        product = net.tensors[given].scales[0] * float(net.tensors[weights].scales[0])
        return self._nearly(product * 60 * np.sqrt(taps), product)

    def _nearly(self, scale: float, product: float) -> float:
        """A scale, or half of the time the nearest power of two times a product: then many results are almost halfway between two integers,
        and the last bits of a multiplier decide."""
        return scale if self.random.random() < 0.5 else product * 2.0 ** round(np.log2(scale / product))

    def _convolution(self, net: QuantisedNetwork, last: int) -> int:
        shape, outputs, window = net.tensors[last].shape, int(self.random.integers(1, 5)), self._window()
        kernel = self._kernel(shape)
        weights, bias = self._weights(net, (outputs, *kernel, shape[3]), 0, self.random.random() < 0.8)
        window |= {"DilationHFactor": 1, "DilationWFactor": 1}
        made = self._computed(
            self._sized(shape, kernel, window, outputs),
            self._scale(net, last, weights, kernel[0] * kernel[1] * shape[3]),
        )
        return net.operator(
            "CONV_2D",
            (last, weights, bias),
            made,
            "Conv2DOptions",
            FusedActivationFunction=self._activation(),
            **window,
        )

    def _depthwise(self, net: QuantisedNetwork, last: int) -> int:
        shape, times, window = net.tensors[last].shape, int(self.random.integers(1, 3)), self._window()
        kernel = self._kernel(shape)
        weights, bias = self._weights(net, (1, *kernel, shape[3] * times), 3, True)
        made = self._computed(
            self._sized(shape, kernel, window, shape[3] * times), self._scale(net, last, weights, kernel[0] * kernel[1])
        )
        options = {
            **window,
            "DepthMultiplier": times,
            "FusedActivationFunction": self._activation(),
            "DilationHFactor": 1,
            "DilationWFactor": 1,
        }
        return net.operator("DEPTHWISE_CONV_2D", (last, weights, bias), made, "DepthwiseConv2DOptions", **options)

    def _pair(self, net: QuantisedNetwork, last: int) -> tuple[int, int]:
        """The tensor with itself, or in either order with a constant, which may be broadcast."""
        given = net.tensors[last]
        if self.random.random() < 0.2:
            return last, last
        shape = given.shape if self.random.random() < 0.5 else (1, 1, 1, given.shape[3])
        scale, zero = given.scales[0] * float(self.random.uniform(0.3, 3)), int(self.random.integers(-128, 128))
        data = self.random.integers(-128, 128, shape)
        other = net.tensor(QuantisedTensor(shape, data=data, scales=(float(np.float32(scale)),), zeros=(zero,)))
        return (last, other) if self.random.random() < 0.5 else (other, last)

    def _sum(self, net: QuantisedNetwork, last: int) -> int:
        kind, scale = self.random.choice(["ADD", "SUB"]), net.tensors[last].scales[0]
        made = self._nearly(scale * float(self.random.uniform(0.7, 3)), scale)
        return self._elementwise(net, last, str(kind), made, self._pair(net, last))

    def _product(self, net: QuantisedNetwork, last: int) -> int:
        pair = self._pair(net, last)
        product = net.tensors[pair[0]].scales[0] * net.tensors[pair[1]].scales[0]
        scale = self._nearly(product * float(self.random.uniform(40, 200)), product)
        return self._elementwise(net, last, "MUL", scale, pair)

    def _elementwise(self, net: QuantisedNetwork, last: int, kind: str, scale: float, pair: tuple[int, int]) -> int:
        made, options = self._computed(net.tensors[last].shape, scale), f"{kind.capitalize()}Options"
        return net.operator(kind, pair, made, options, FusedActivationFunction=self._activation())

    def _pool(self, net: QuantisedNetwork, last: int) -> int:
        given, largest, window = net.tensors[last], self.random.random() < 0.5, self._window()
        kernel = self._kernel(given.shape)
        window |= {} if largest else {"Padding": 1}
        made = self._computed(self._sized(given.shape, kernel, window, given.shape[3]), given.scales[0], given.zeros[0])
        options = {
            **window,
            "FilterHeight": kernel[0],
            "FilterWidth": kernel[1],
            "FusedActivationFunction": self._activation(),
        }
        return net.operator("MAX_POOL_2D" if largest else "AVERAGE_POOL_2D", (last,), made, "Pool2DOptions", **options)

    def _pad(self, net: QuantisedNetwork, last: int) -> int:
        given = net.tensors[last]
        widths = np.zeros((4, 2), dtype=np.int64)
        widths[1:3] = self.random.integers(0, 3, (2, 2))
        shape = tuple(int(n) for n in np.array(given.shape) + widths.sum(axis=1))
        constant = net.tensor(QuantisedTensor((4, 2), "int32", widths))
        return net.operator(
            "PAD", (last, constant), self._computed(shape, given.scales[0], given.zeros[0]), "PadOptions"
        )

    def _function(self, net: QuantisedNetwork, last: int) -> int:
        kinds = ["LOGISTIC", "TANH", "RELU", "RELU6", "LEAKY_RELU", "QUANTIZE"]
        tensor, kind = net.tensors[last], str(self.random.choice(kinds))
        (given,), (zero,) = tensor.scales, tensor.zeros
        if kind in ("RELU", "LEAKY_RELU", "QUANTIZE"):
            wanted = given * float(self.random.uniform(0.3, 4))
            made = self._computed(tensor.shape, self._nearly(wanted, given))
            if kind == "LEAKY_RELU":
                alpha = float(self.random.choice([0.0, 0.01, 0.3, 1.5]))
                return net.operator(kind, (last,), made, "LeakyReluOptions", Alpha=alpha)
            return net.operator(kind, (last,), made)
        scale, zero = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}.get(kind, (given, zero))
        return net.operator(kind, (last,), self._computed(tensor.shape, scale, zero))

    def _shares(self, net: QuantisedNetwork, last: int) -> int:
        """A softmax of scores that are spread from nothing to far apart."""
        made = self._computed(net.tensors[last].shape, 1 / 256, -128)
        return net.operator(
            "SOFTMAX", (last,), made, "SoftmaxOptions", Beta=float(self.random.choice([0.02, 0.3, 1.0, 2.5]))
        )

    def _mean(self, net: QuantisedNetwork, last: int) -> int:
        """The average over height and width."""
        given, kept = net.tensors[last], bool(self.random.random() < 0.5)
        axes = net.tensor(QuantisedTensor((2,), "int32", np.array([1, 2] if self.random.random() < 0.5 else [-3, 2])))
        shape = (1, 1, 1, given.shape[3]) if kept else (1, given.shape[3])
        made = self._computed(
            shape, self._nearly(given.scales[0] * float(self.random.uniform(0.2, 1.5)), given.scales[0])
        )
        return net.operator("MEAN", (last, axes), made, "ReducerOptions", KeepDims=kept)

    def _connected(self, net: QuantisedNetwork, last: int) -> QuantisedNetwork:
        given, outputs = net.tensors[last], int(self.random.integers(2, 6))
        size = int(np.prod(given.shape))
        weights, bias = self._weights(net, (outputs, size), 0, False)
        made = self._computed((1, outputs), self._scale(net, last, weights, size))
        net.operator(
            "FULLY_CONNECTED",
            (last, weights, bias),
            made,
            "FullyConnectedOptions",
            FusedActivationFunction=self._activation(),
        )
        return net
