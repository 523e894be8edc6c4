"""An image of another shape than the file's: in which order its sizes are, and which shapes are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.onnx.importing import import_model
from tests.codegen.cm.networks import model

FRONT = helper.make_node("Transpose", ["half"], ["front"], perm=[0, 3, 1, 2])


def network(shape: list[Any], last: bool, groups: int = 1, convolved: bool = True) -> Any:
    """Scaled, and with its channels last transposed, then convolved where asked for."""
    weight = np.ones((6, 3, 3, 3), np.float32)
    nodes = [helper.make_node("Mul", ["x", "scale"], ["half"]), *([FRONT] if last else [])]
    image = "front" if last else "half"
    if convolved:
        nodes.append(helper.make_node("Conv", [image, "w"], ["y"], group=groups))
    else:
        nodes.append(helper.make_node("MaxPool", [image], ["y"], kernel_shape=[2, 2]))
    return model(nodes, shape, {"scale": np.float32(0.5), "w": weight}, 13)


KNOWN = {
    "by the convolution": network([1, "h", "w", "c"], last=True),
    "by groups": network([1, "h", "w", "c"], last=True, groups=2),
    "by the file": network([1, 8, 8, 5], last=True, convolved=False),
}


@pytest.mark.parametrize(("proto", "channels"), list(zip(KNOWN.values(), (3, 6, 5), strict=True)), ids=KNOWN)
def test_with_channels_last_both_orders_are_the_same_image(proto: Any, channels: int) -> None:
    for given in ((channels, 7, 9), (7, 9, channels)):
        graph = import_model(proto, "net", given)
        assert graph.shapes[graph.input] == (channels, 7, 9)
        assert graph.image_last
    expected = rf"input 'x': expected {channels} channels \(CxHxW, or HxWxC as in the file\), found 7x{channels}x9"
    for host in (False, True):
        with pytest.raises(InputError, match=expected):
            import_model(proto, "net", (7, channels, 9), host)


@pytest.mark.parametrize("shape", [["n", "h", "w", 3], ["n", "h", "w", "c"]])
def test_channels_come_first_where_both_orders_fit_or_nothing_tells(shape: list[Any]) -> None:
    graph = import_model(network(shape, last=True, convolved=isinstance(shape[3], int)), "net", (3, 5, 3))
    assert graph.shapes[graph.input] == (3, 5, 3)
    graph = import_model(network(["n", "h", "w", "c"], last=True, convolved=False), "net", (5, 6, 7))
    assert graph.shapes[graph.input] == (5, 6, 7)


def test_with_channels_first_they_are_first() -> None:
    """Also where what does not fit is left for the host: it would be all."""
    proto = network([1, 3, 8, 8], last=False)
    assert import_model(proto, "net", (3, 7, 9)).shapes["x"] == (3, 7, 9)
    for host in (False, True):
        with pytest.raises(InputError, match=r"input 'x': expected 3 channels \(CxHxW\), found 7x9x3"):
            import_model(proto, "net", (7, 9, 3), host)
