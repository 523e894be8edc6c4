"""Poolings and convolutions equal onnxruntime's, as floats and as integers of the rewritten graph, or are refused when they are read."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.onnx.importing import import_model
from kilotune.codegen.onnx.quantise import quantise, random_images
from kilotune.codegen.onnx.reference import evaluate
from tests.codegen.cm.networks import expected_integers, output_of, outputs_of, single

NEWEST = 27
"""The newest opset that onnxruntime 1.32 loads."""


def agrees(proto: Any) -> None:
    """What onnxruntime refuses in the file, it takes in the rewritten graph."""
    graph = import_model(proto, "net")
    drawn = random_images(graph.shapes[graph.input], 2, 5)
    try:
        exact = outputs_of(proto, drawn)
    except Exception:  # its error types have no name
        exact = []
    for image, expected in zip(drawn, exact, strict=False):
        np.testing.assert_allclose(output_of(graph, evaluate(graph, image)), expected, rtol=1e-4, atol=1e-5)
    quantised = quantise(graph, drawn)
    images = [quantised.image(image) for image in drawn]
    for image, expected in zip(images, expected_integers(proto, quantised, images), strict=True):
        found = evaluate(quantised.graph, image, integer=True)[quantised.graph.output]
        np.testing.assert_array_equal(quantised.graph.outputs[0].as_file(found), expected)


def refused(proto: Any) -> bool:
    """Whether it is refused in a message that names the node."""
    try:
        import_model(proto, "net")
    except InputError as error:
        if "'only'" not in str(error):
            raise
        return True
    return False


def drawn_node(rng: random.Random) -> Any:
    operator = rng.choice(["AveragePool", "AveragePool", "MaxPool", "Conv"])
    rank = rng.choice([1, 2, 2])
    kernel, size = ([rng.randint(1, largest) for _ in range(rank)] for largest in (4, 10))
    drawn: dict[str, Any] = {"kernel_shape": kernel, "strides": [rng.randint(1, 4) for _ in range(rank)]}
    if rng.random() < 0.5:
        drawn["dilations"] = [rng.randint(1, 3) for _ in range(rank)]
    if rng.random() < 0.5:
        drawn["pads"] = [rng.choice([0, 0, 1, 2, 3]) for _ in range(2 * rank)]
    elif rng.random() < 0.3:
        drawn["auto_pad"] = rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    if operator != "Conv":
        drawn["ceil_mode"] = rng.randint(0, 1)
    if operator == "AveragePool":
        drawn["count_include_pad"] = rng.randint(0, 1)
    constants = [np.random.default_rng(7).normal(size=(3, 2, *kernel)).astype(np.float32)] if operator == "Conv" else []
    return single(operator, [1, 2, *size], constants, rng.randint(11, NEWEST), **drawn)


@settings(max_examples=60)
@given(st.integers(0, 10**9))
def test_equal_or_refused_by_name(seed: int) -> None:
    proto = drawn_node(random.Random(seed))
    if refused(proto):
        return
    agrees(proto)


GAPS_ROUNDED_UP = {"kernel_shape": [2, 2], "strides": [2, 2], "dilations": [2, 2], "ceil_mode": 1}


@pytest.mark.parametrize("opset", [19, NEWEST])
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 0, 1]])
@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("size", [(5, 6), (6, 9), (4, 4)])
def test_averages_with_gaps_that_are_rounded_up(
    opset: int, pads: list[int], include: int, size: tuple[int, ...]
) -> None:
    given_ = {**GAPS_ROUNDED_UP, "pads": pads, "count_include_pad": include}
    agrees(single("AveragePool", [1, 2, *size], opset=opset, **given_))


@pytest.mark.parametrize("operator", ["AveragePool", "MaxPool"])
@pytest.mark.parametrize("opset", [9, 11, NEWEST])
def test_a_kernel_larger_than_the_image(operator: str, opset: int) -> None:
    agrees(single(operator, [1, 2, 1, 1], opset=opset, kernel_shape=[3, 3], strides=[3, 3], ceil_mode=1))


def test_pads_as_wide_as_the_kernel_never_win() -> None:
    proto = single("MaxPool", [1, 2, 6, 6], opset=9, kernel_shape=[2, 2], pads=[2, 2, 2, 2])
    with pytest.raises(InputError, match="padding only"):
        import_model(proto, "net")
    agrees(single("MaxPool", [1, 2, 6, 6], opset=11, kernel_shape=[2, 2], dilations=[3, 3], pads=[2, 2, 2, 2]))


@pytest.mark.parametrize(
    ("operator", "opset", "attributes", "expected"),
    [
        ("AveragePool", 18, {"dilations": [2, 1]}, "expected version 19 of ONNX or later for dilations"),
        ("MaxPool", 9, {"dilations": [2, 1]}, "expected version 10 of ONNX"),
        ("AveragePool", 19, {"dilations": [2, 1], "auto_pad": "SAME_UPPER"}, "expected pads beside dilations"),
        ("MaxPool", 13, {"strides": [5, 5], "auto_pad": "SAME_LOWER"}, "expected pads where windows skip so much"),
    ],
)
def test_what_executions_take_in_different_ways_is_refused(
    operator: str, opset: int, attributes: dict[str, Any], expected: str
) -> None:
    with pytest.raises(InputError, match=f"'only'.*{expected}"):
        import_model(single(operator, [1, 2, 10, 10], opset=opset, kernel_shape=[2, 2], **attributes), "net")
