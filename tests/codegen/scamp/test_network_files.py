"""The key `network` of a kernel file, and what is refused, in one sentence that names the place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.scamp.kernel_files import parse_kernel_file
from kilotune.codegen.scamp.network import Region

NETWORK: dict[str, Any] = {
    "side": 8,
    "binarised_at": 128,
    "level": 60,
    "thresholds": [10.0],
    "regions": [[0, 0, 8, 4], [0, 4, 8, 8]],
    "layers": [{"weights": [[1, -1, 0], [2, 0, 3]], "biases": [0, 1, 2]}],
}


def file(**changed: Any) -> str:
    network = {key: value for key, value in {**NETWORK, **changed}.items() if value is not None}
    return json.dumps({"kernels": [[[1, -1]]], "network": network})


def test_a_network_is_read() -> None:
    network = parse_kernel_file(file(held_out=5), "n.json").network
    assert network is not None
    assert network.thresholds == (10,)
    assert network.regions[1] == Region(0, 4, 8, 8)
    assert network.layers[0].weights == ((1, -1, 0), (2, 0, 3))
    assert (network.products, network.held_out) == (6, 5)
    assert parse_kernel_file('{"kernels": [[[1]]]}', "n.json").network is None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"side": None}, "the key 'side', found none"),
        ({"sides": 3}, "key 'sides' of network"),
        ({"level": 128}, "level of network: expected an integer from 1 to 127, found 128"),
        ({"level": True}, "found true"),
        ({"thresholds": [1, 2]}, "expected 1 threshold, one a kernel, found 2"),
        ({"thresholds": ["1"]}, "threshold 1: expected a whole number of grey levels from -127 to 127"),
        ({"thresholds": [10.5]}, "threshold 1: expected a whole number of grey levels from -127 to 127, found 10.5"),
        ({"thresholds": [128]}, "found 128"),
        ({"thresholds": [float("inf")]}, "found Infinity"),
        ({"thresholds": [10**400]}, "threshold 1: expected a whole number"),
        ({"regions": [[0, 0, 9, 4]]}, "region 1 of network: expected an integer from 0 to 8, found 9"),
        ({"regions": [[4, 0, 4, 4]]}, "region 1 of network: expected top < bottom and left < right"),
        ({"regions": []}, "regions of network: expected 1 to 256, found 0"),
        ({"layers": []}, "layers of network: expected 1 to 8, found 0"),
        (
            {"layers": [{"weights": [[1], [2], [3]], "biases": [0]}]},
            "layer 1: expected 2 rows of weights, one an input, found 3",
        ),
        (
            {"layers": [{"weights": [[1], [2, 3]], "biases": [0]}]},
            "row 2 of layer 1: expected 1 weight, one an output, found 2",
        ),
        ({"layers": [{"weights": [[1], [2.5]], "biases": [0]}]}, "row 2 of layer 1: expected an integer"),
        ({"layers": 3}, "layers of network: expected a list, found 3"),
        ({"binarised_at": 1}, "binarised_at of network: expected an integer from 2 to 255, found 1"),
    ],
)
def test_what_is_no_network_is_refused_with_its_place(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_kernel_file(file(**changed), "n.json")
    assert words in str(caught.value)
    assert str(caught.value).startswith("n.json")


def test_a_network_is_an_object() -> None:
    with pytest.raises(InputError, match=r"network: expected an object, found \[\]"):
        parse_kernel_file('{"kernels": [[[1]]], "network": []}', "n.json")
