"""Operators one by one: in floats what onnxruntime computes of the file, in integers what it computes of the rewritten file, as whole
tensors and executed on cores with little room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import helper

from kilotune.codegen.cm.blocks import Crossbar
from kilotune.codegen.cm.lowering import lower
from kilotune.codegen.cm.partition import partition
from kilotune.codegen.onnx.graph import ConvNode, FunctionNode, MaxPoolNode, PermuteNode, ProductNode, TableNode, known
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import quantise
from kilotune.codegen.onnx.random_weights import with_random_weights
from kilotune.codegen.onnx.reference import evaluate
from kilotune.evaluators.cm.functional import ScheduleParameters, run
from tests.codegen.cm.networks import expected_integers, model, outputs_of


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


@pytest.mark.parametrize("name", FILES)
def test_floats_and_integers_are_those_of_onnxruntime(name: str) -> None:
    proto = FILES[name]()
    graph = import_model(proto, "net")
    images = drawn(1, 3, *graph.shapes[graph.input])
    as_in_the_file = [np.moveaxis(image, 0, -1) if graph.image_last else image for image in images]
    exact = outputs_of(proto, as_in_the_file)
    floats = [graph.outputs[0].as_file(evaluate(graph, image)[graph.output]) for image in images]
    coarse = 0.02 if name == "quantised file" else 1e-4  # that file rounds to 0.02, which is not imported
    np.testing.assert_allclose(np.stack(floats), np.stack(exact), rtol=1e-4, atol=coarse)

    quantised = quantise(graph, images)
    integers = [quantised.image(image) for image in images]
    expected = expected_integers(proto, quantised, integers)
    found = [
        quantised.graph.outputs[0].as_file(evaluate(quantised.graph, i, integer=True)[graph.output]) for i in integers
    ]
    np.testing.assert_array_equal(found, expected)
    scaled = np.stack(expected) * 2.0 ** quantised.exponents[graph.output]
    error = np.sqrt(np.square(scaled - np.stack(exact)).sum() / np.square(exact).sum())
    assert error < 0.1

    network = partition(quantised.graph)
    replicas = {p.name: Split(min(2, p.height), "rows") for p in network.partitions[::2]}
    lowered = lower(network, Crossbar(20, 3), replicas)
    free = run(lowered, integers)
    tight = run(lowered, integers, ScheduleParameters(capacities=free.fullest))
    np.testing.assert_array_equal(np.stack(tight.outputs), expected)


def test_a_gate_of_its_own_argument_is_one_table() -> None:
    graph = import_model(FILES["Swish"](), "net")
    assert [type(n).__name__ for n in graph.nodes] == ["ConvNode", "FunctionNode", "ConvNode"]
    assert isinstance(graph.nodes[1], FunctionNode)
    assert graph.nodes[1].gated
    both = around(
        [
            helper.make_node("Sigmoid", ["a"], ["s"]),
            helper.make_node("Mul", ["a", "s"], ["p"]),
            helper.make_node("Add", ["p", "s"], ["b"]),
        ]
    )
    kept = import_model(both, "net").nodes
    assert any(isinstance(n, ProductNode) for n in kept), "what somebody else reads stays"


def test_views_cost_no_nodes() -> None:
    graph = import_model(FILES["Gather of channels"](), "net")
    assert isinstance(graph.nodes[1], PermuteNode)
    assert graph.nodes[1].order == (3, 0, 0, 2)
    enlarged = import_model(FILES["Resize"](), "net")
    node = enlarged.nodes[1]
    assert isinstance(node, MaxPoolNode)
    assert node.window.most_taps == 1
    assert enlarged.shapes["b"] == (4, 12, 18)


def test_weights_at_random_leave_what_an_operator_means() -> None:
    graph = import_model(FILES["LRN"](), "net")
    drawn = with_random_weights(graph, 3)
    weights = {n.output: [known(n.weight).tolist()] for n in graph.nodes if isinstance(n, ConvNode)}
    for node in drawn.nodes:
        if isinstance(node, ConvNode):
            weights[node.output].append(known(node.weight).tolist())
    assert {name: one == other for name, (one, other) in weights.items()} == {"a": False, "b/sums": True, "y": False}


REFUSED = {
    "cubic": (lambda: one("Resize", SCALES, mode="cubic"), "expected mode nearest or linear, found cubic"),
    "corners between pixels": (
        lambda: one("Resize", SCALES, mode="linear", coordinate_transformation_mode="align_corners"),
        "expected half_pixel or asymmetric where pixels are interpolated, found align_corners",
    ),
    "half a factor": (
        lambda: one("Upsample", {"scales": np.float32([1, 1, 1.5, 2])}, opset=9),
        r"expected whole factors for height and width, found \[1.0, 1.0, 1.5, 2.0\]",
    ),
    "corners": (
        lambda: one("Resize", SCALES, mode="nearest", coordinate_transformation_mode="align_corners"),
        "expected every pixel repeated alike, found align_corners with round_prefer_floor",
    ),
    "channels": (
        lambda: one("ReduceMean", axes=[1, 2]),
        r"expected a reduction over height and width, found axes \[1, 2\]",
    ),
    "rows": (
        lambda: around([helper.make_node("Split", ["a"], ["b", "c"], axis=2)]),
        r"expected a split of channels \(axis 1\), found axis 2",
    ),
    "cut off": (lambda: transposed(2, 2, 2, 0, 1), "expected strides, and padding less than the kernel's reach"),
    "turned": (
        lambda: around([helper.make_node("Transpose", ["a"], ["b"], perm=[0, 1, 3, 2])]),
        r"or of channels behind the image or back, found perm \[0, 1, 3, 2\]",
    ),
    "last": (
        lambda: around(
            [
                helper.make_node("Transpose", ["a"], ["t"], perm=[0, 2, 3, 1]),
                helper.make_node("Unsqueeze", ["t", "axis"], ["b"]),
            ],
            {"axis": np.array([1])},
        ),
        r"expected channels before height and width, found them last in shape \[1, 6, 6, 4\]",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_covered_is_named(what: str) -> None:
    make, message = REFUSED[what]
    with pytest.raises(ValueError, match=message):
        import_model(make(), "net")


def test_a_function_that_is_not_finite_somewhere_takes_the_nearest_value() -> None:
    proto = one("Sqrt")
    graph = import_model(proto, "net")
    image = np.zeros(graph.shapes[graph.input])
    quantised = quantise(graph, [image])
    table = next(n for n in quantised.graph.nodes if isinstance(n, TableNode))
    values = known(table.table).tolist()
    assert values[: -table.first + 1] == [0] * (-table.first + 1)
    assert values == sorted(values)
