"""Files of one operator, or of the few that a converter writes for one, most between two convolutions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from tests.codegen.cm.networks import model


def drawn(spread: float, *shape: int) -> NDArray[np.float32]:
    """Normal numbers, the same ones for a shape."""
    return np.random.default_rng(shape).normal(0, spread, shape).astype(np.float32)


@dataclass(frozen=True)
class Split:
    count: int
    axis: str


def around(
    nodes: list[Any],
    constants: dict[str, NDArray[Any]] | None = None,
    opset: int = 16,
    channels: int = 4,
    size: int = 6,
) -> Any:
    """A file whose image goes through a convolution to `a`, through `nodes`, which write `b`, and through another one."""
    weights = {
        "w1": drawn(0.4, channels, 3, 3, 3),
        "w2": drawn(0.4, 3, channels, 1, 1),
    }
    first = helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1] * 4)
    last = helper.make_node("Conv", ["b", "w2"], ["y"])
    return model([first, *nodes, last], [1, 3, size, size], {**weights, **(constants or {})}, opset)


def one(operator: str, constants: dict[str, NDArray[Any]] | None = None, opset: int = 16, **attributes: Any) -> Any:
    """A single node between the two convolutions."""
    node = helper.make_node(operator, ["a", *(constants or {})], ["b"], **attributes)
    return around([node], constants, opset)


def squeeze_and_excite(gate: str) -> Any:
    weights = {
        "s1": drawn(0.7, 2, 4, 1, 1),
        "s2": drawn(0.7, 4, 2, 1, 1),
    }
    nodes = [
        helper.make_node("GlobalAveragePool", ["a"], ["mean"]),
        helper.make_node("Conv", ["mean", "s1"], ["few"]),
        helper.make_node("Relu", ["few"], ["few1"]),
        helper.make_node("Conv", ["few1", "s2"], ["many"]),
        helper.make_node(gate, ["many"], ["gate"]),
        helper.make_node("Mul", ["a", "gate"], ["b"]),
    ]
    return around(nodes, weights)


def hard_swish_in_parts(factors: tuple[str, str]) -> Any:
    nodes = [
        helper.make_node("Add", ["a", "three"], ["shifted"]),
        helper.make_node("Clip", ["shifted", "zero", "six"], ["clipped"]),
        helper.make_node("Mul", factors, ["product"]),
        helper.make_node("Div", ["product", "six"], ["b"]),
    ]
    return around(nodes, {"three": np.float32(3), "zero": np.float32(0), "six": np.float32(6)})


def spatial_attention() -> Any:
    weights = {"s1": drawn(0.7, 1, 4, 3, 3)}
    nodes = [
        helper.make_node("Conv", ["a", "s1"], ["map"], pads=[1] * 4),
        helper.make_node("Sigmoid", ["map"], ["gate"]),
        helper.make_node("Mul", ["gate", "a"], ["b"]),
    ]
    return around(nodes, weights)


def difference(operands: tuple[str, str]) -> Any:
    """Of two of a tensor, a function of it in steps of another size, and its mean."""
    nodes = [
        helper.make_node("Mul", ["a", "k"], ["nine"]),
        helper.make_node("Tanh", ["nine"], ["large"]),
        helper.make_node("GlobalAveragePool", ["a"], ["mean"]),
        helper.make_node("Sub", operands, ["b"]),
    ]
    return around(nodes, {"k": np.float32(9)})


def channels_last() -> Any:
    """As an exporter of a framework with channels last writes it: scaled before, and at the end back."""
    weights = {"w": drawn(0.4, 4, 3, 3, 3), "third": np.float32([0.5, 0.25, 2.0])}
    nodes = [
        helper.make_node("Mul", ["x", "third"], ["scaled"]),
        helper.make_node("Transpose", ["scaled"], ["front"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["front", "w"], ["c"], pads=[1] * 4),
        helper.make_node("Transpose", ["c"], ["back"], perm=[0, 2, 3, 1]),
        helper.make_node("Sigmoid", ["back"], ["y"]),
    ]
    return model(nodes, [1, 5, 6, 3], weights, 16)


def shapes_of_the_image() -> Any:
    """A Resize to the size of another tensor, and a Reshape to a computed shape: both known once the image's is."""
    constants: dict[str, NDArray[Any]] = {
        "two": np.array([2]),
        "four": np.array([4]),
        "zero": np.array([0]),
        "roi": np.zeros(0, np.float32),
        "none": np.zeros(0, np.float32),
        "w1": drawn(0.4, 4, 3, 1, 1),
    }
    nodes = [
        helper.make_node("MaxPool", ["x"], ["small"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["small", "w1"], ["few"]),
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Slice", ["sizes", "two", "four"], ["size"]),
        helper.make_node("Shape", ["few"], ["own"]),
        helper.make_node("Slice", ["own", "zero", "two"], ["front"]),
        helper.make_node("Concat", ["front", "size"], ["target"], axis=0),
        helper.make_node(
            "Resize",
            ["few", "roi", "none", "target"],
            ["y"],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
    ]
    return model(nodes, [1, 3, 6, 6], constants, 13)


def quantised_file() -> Any:
    """QuantizeLinear without a sign is all that is left of a Relu."""
    constants = {
        "w": np.clip(drawn(60, 4, 3, 1, 1), -127, 127).astype(np.int8),
        "ws": np.float32(0.01),
        "w0": np.int8(0),
        "s": np.float32(0.02),
        "z": np.uint8(0),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "ws", "w0"], ["weight"]),
        helper.make_node("Conv", ["x", "weight"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    return model(nodes, [1, 3, 5, 5], constants, 13)


def split_and_swapped() -> Any:
    nodes = [
        helper.make_node("Split", ["a", "parts"], ["first", "second"], axis=1),
        helper.make_node("Sigmoid", ["second"], ["gate"]),
        helper.make_node("Mul", ["first", "gate"], ["product"]),
        helper.make_node("Concat", ["product", "first"], ["b"], axis=1),
    ]
    return around(nodes, {"parts": np.array([2, 2])})


def transposed(kernel: int, stride: int, pad: int, extra: int, groups: int, dilation: int = 1) -> Any:
    weights = {
        "t": drawn(0.4, 4, 4 // groups, kernel, kernel),
        "tb": drawn(0.4, 4),
    }
    node = helper.make_node(
        "ConvTranspose",
        ["a", "t", "tb"],
        ["b"],
        strides=[stride] * 2,
        pads=[pad] * 4,
        output_padding=[extra] * 2,
        group=groups,
        dilations=[dilation] * 2,
    )
    return around([node], weights, size=4)


def another_name_in_a_concat() -> Any:
    """A tensor under another name, whose operand of the Concat is shifted to the scale of the others."""
    nodes = [
        helper.make_node("Mul", ["a", "k"], ["large"]),
        helper.make_node("Identity", ["a"], ["same"]),
        helper.make_node("Concat", ["same", "large", "a"], ["c"], axis=1),
        helper.make_node("Slice", ["c", "s", "e", "ax"], ["b"]),
    ]
    numbers = {"k": np.float32(9), "s": np.array([2]), "e": np.array([6]), "ax": np.array([1])}
    return around(nodes, numbers)


NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}
SCALES = {"roi": np.zeros(0, np.float32), "scales": np.float32([1, 1, 2, 3])}
SLOPES = np.abs(drawn(0.5, 4, 1, 1))

FILES: dict[str, Callable[[], Any]] = {
    "Sigmoid": lambda: one("Sigmoid"),
    "HardSigmoid": lambda: one("HardSigmoid", alpha=0.1, beta=0.4),
    "HardSwish": lambda: one("HardSwish"),
    "HardSwish in parts": lambda: hard_swish_in_parts(("a", "clipped")),
    "HardSwish in parts, gate first": lambda: hard_swish_in_parts(("clipped", "a")),
    "Tanh": lambda: one("Tanh"),
    "Softplus": lambda: one("Softplus"),
    "Softsign": lambda: one("Softsign", opset=22),
    "Mish": lambda: one("Mish", opset=18),
    "Gelu": lambda: one("Gelu", opset=20),
    "Erf": lambda: one("Erf"),
    "LeakyRelu": lambda: one("LeakyRelu", alpha=0.3),
    "PRelu": lambda: one("PRelu", {"slope": SLOPES}),
    "PRelu of one slope": lambda: one("PRelu", {"slope": np.float32([0.25])}),
    "ThresholdedRelu": lambda: one("ThresholdedRelu", alpha=0.5),
    "Elu": lambda: one("Elu", alpha=0.7),
    "Celu": lambda: one("Celu", alpha=0.7),
    "Selu": lambda: one("Selu"),
    "Abs": lambda: one("Abs"),
    "Neg": lambda: one("Neg"),
    "Exp": lambda: one("Exp"),
    "Sqrt": lambda: around([helper.make_node("Abs", ["a"], ["p"]), helper.make_node("Sqrt", ["p"], ["b"])]),
    "Pow": lambda: one("Pow", {"k": np.float32(2)}),
    "Min": lambda: one("Min", {"k": np.float32(0.5)}),
    "Max": lambda: one("Max", {"k": np.float32(-0.25)}),
    "Sub from a constant": lambda: around(
        [helper.make_node("Sub", ["k", "a"], ["b"])], {"k": np.float32([1, 2, 3, 4]).reshape(1, 4, 1, 1)}
    ),
    "Sub of images": lambda: difference(("a", "large")),
    "Sub of an image's mean": lambda: difference(("large", "mean")),
    "Sub from an image's mean": lambda: difference(("mean", "a")),
    "Sub of itself": lambda: around(
        [helper.make_node("Sub", ["a", "a"], ["none"]), helper.make_node("Add", ["none", "a"], ["b"])]
    ),
    "Swish": lambda: around([helper.make_node("Sigmoid", ["a"], ["s"]), helper.make_node("Mul", ["a", "s"], ["b"])]),
    "Mul of itself": lambda: around([helper.make_node("Mul", ["a", "a"], ["b"])]),
    "squeeze and excite": lambda: squeeze_and_excite("HardSigmoid"),
    "squeeze and excite, Sigmoid": lambda: squeeze_and_excite("Sigmoid"),
    "spatial attention": spatial_attention,
    "ReduceMean": lambda: one("ReduceMean", axes=[2, 3]),
    "ReduceMean of rows": lambda: one("ReduceMean", {"axes": np.array([2])}, opset=18),
    "ReduceMax": lambda: one("ReduceMax", axes=[-1], keepdims=1),
    "ReduceMean to a vector": lambda: model(
        [helper.make_node("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=0)], [1, 3, 4, 5], {}
    ),
    "Resize, between pixels": lambda: one("Resize", SCALES, mode="linear"),
    "Resize, even factors between pixels": lambda: one(
        "Resize", {**SCALES, "scales": np.float32([1, 1, 4, 2])}, mode="linear", opset=19
    ),
    "Resize, between pixels from the first on": lambda: one(
        "Resize", SCALES, mode="linear", coordinate_transformation_mode="asymmetric"
    ),
    "Upsample, between pixels": lambda: one("Upsample", {"scales": SCALES["scales"]}, mode="linear", opset=9),
    "Resize": lambda: one("Resize", SCALES, **NEAREST),
    "Upsample": lambda: one("Upsample", {"scales": np.float32([1, 1, 3, 2])}, opset=9),
    "ConvTranspose": lambda: transposed(2, 2, 0, 0, 1),
    "ConvTranspose of groups": lambda: transposed(3, 2, 1, 1, 2),
    "ConvTranspose far apart": lambda: transposed(2, 3, 0, 0, 4),
    "ConvTranspose, dilated": lambda: transposed(3, 2, 2, 0, 1, 2),
    "LRN": lambda: one("LRN", size=3, alpha=0.5, beta=0.75, bias=1.0),
    "LRN with sums far below its bias": lambda: one("LRN", size=5, alpha=1e-4, beta=0.75, bias=2.0),
    "Slice of channels": lambda: around(
        [
            helper.make_node("Slice", ["a", "s", "e", "ax", "st"], ["c"]),
            helper.make_node("Concat", ["c", "c"], ["b"], axis=1),
        ],
        {"s": np.array([1, 0]), "e": np.array([9, 9]), "ax": np.array([1, 3]), "st": np.array([2, 2])},
    ),
    "Gather of channels": lambda: around(
        [helper.make_node("Gather", ["a", "k"], ["b"], axis=1)], {"k": np.array([3, 0, 0, -2])}
    ),
    "Split": split_and_swapped,
    "another name in a Concat": another_name_in_a_concat,
    "channels last": channels_last,
    "shapes of the image": shapes_of_the_image,
    "quantised file": quantised_file,
    "MaxPool, rounded up": lambda: one("MaxPool", kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1, pads=[1, 0, 0, 1]),
    "AveragePool, rounded up": lambda: one(
        "AveragePool",
        kernel_shape=[3, 2],
        strides=[2, 2],
        ceil_mode=1,
        pads=[1, 0, 0, 1],
        count_include_pad=1,
        opset=19,
    ),
}
