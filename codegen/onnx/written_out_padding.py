"""Poolings and convolutions of a file with their padding written out, as onnxruntime takes them at every version of ONNX.

It refuses pads as wide as a kernel, whatever the dilation, and attributes that an operator of an older version does not have; sizes
that are rounded up and `auto_pad` are taken in different ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kilotune.codegen.onnx.emission import IntegerNodes
from kilotune.codegen.onnx.graph import Window

BELOW_ALL = -(1 << 25)
"""Less than any integer of a network, and exact in float32."""

SAID_BY_PADS = ("auto_pad", "ceil_mode")
"""Attributes that are left out where pads say the same."""


def as_it_stands(proto: Any, window: Window, opset: int) -> bool:
    """Whether onnxruntime takes the file's pooling, or a reduction of whole rows and columns, for what `window` is."""
    if proto.op_type not in ("AveragePool", "MaxPool"):
        return True
    named = {a.name: a for a in proto.attribute}
    too_new = proto.op_type == "AveragePool" and opset < 19 and "dilations" in named
    rounded_up = "ceil_mode" in named and named["ceil_mode"].i
    skips = any(s > k for s, k in zip(window.stride, window.kernel, strict=True))
    automatic = "auto_pad" in named and named["auto_pad"].s != b"NOTSET" and skips
    return not (too_new or rounded_up or automatic) and _less_than_kernel(window)


def write_out_pooling(nodes: IntegerNodes, window: Window, rank: int, fill: float) -> None:
    """The last of the nodes, a pooling: pads as attributes where they may be, as an image that is padded with `fill` before otherwise.
    Averages count all that is padded."""
    proto = nodes.nodes.pop()
    dilations = {} if max(window.dilation) > 1 else {"dilations": None}
    counted = {"count_include_pad": 1} if proto.op_type == "AveragePool" else {}
    pads = _in_file(window.pads, rank)
    if not _less_than_kernel(window):
        proto.input[0] = _padded(nodes, proto.input[0], proto.output[0] + "/padded", pads, fill)
        pads = [0] * len(pads)
    set_attributes(proto, pads=pads, **dict.fromkeys(SAID_BY_PADS), **dilations, **counted)
    nodes.nodes.append(proto)


def written_out_convolution(proto: Any, window: Window, rank: int) -> Any:
    """A Conv or ConvTranspose as onnxruntime takes it, which refuses dilations beside `auto_pad` of a Conv."""
    same = any(a.name == "auto_pad" and a.s.startswith(b"SAME") for a in proto.attribute)
    if proto.op_type != "Conv" or not same or max(window.dilation) == 1:
        return proto
    copy = type(proto)()
    copy.CopyFrom(proto)
    set_attributes(copy, pads=_in_file(window.pads, rank), auto_pad=None)
    return copy


def set_attributes(proto: Any, **values: Any) -> None:
    """Attributes of a NodeProto; None leaves one out."""
    from onnx import helper

    kept = [a for a in proto.attribute if a.name not in values]
    del proto.attribute[:]
    proto.attribute.extend([*kept, *(helper.make_attribute(n, v) for n, v in values.items() if v is not None)])


def _less_than_kernel(window: Window) -> bool:
    return all(pad < size for pad, size in zip(window.pads, window.kernel * 2, strict=True))


def _in_file(pads: tuple[int, int, int, int], rank: int) -> list[int]:
    """Pads of the dimensions that the tensor has, as ONNX orders them."""
    top, left, bottom, right = pads
    return [left, right] if rank == 3 else [top, left, bottom, right]


def _padded(nodes: IntegerNodes, source: str, output: str, pads: Sequence[int], fill: float) -> str:
    half = len(pads) // 2
    every = [0, 0, *pads[:half], 0, 0, *pads[half:]]
    if nodes.opset < 11:
        nodes.node("Pad", [source], output)
        set_attributes(nodes.nodes[-1], pads=every, value=float(fill))
        return output
    amounts = nodes.constant(output + "/pads", np.asarray(every, np.int64))
    value = nodes.constant(output + "/fill", np.asarray(fill, np.float32))
    return nodes.node("Pad", [source, amounts, value], output)
