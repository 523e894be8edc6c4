"""The shape of the image that a file takes: as it declares it, or as somebody asks for it, and where its channels are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kilotune.codegen.arrays import Array
from kilotune.codegen.counts import counted
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.onnx.views import ANY_ORDER, TO_FRONT

KEEP_CHANNELS = (*ANY_ORDER, "Transpose", "MaxPool", "AveragePool", "BatchNormalization")
"""Operators behind which an image has as many channels as before."""


def image_shape(
    path: str, graph: Any, image: Any, constants: Mapping[str, Array], given: Sequence[int] | None
) -> tuple[tuple[int, ...], bool]:
    """The ONNX shape (batch first) of the input `image`, a ValueInfoProto of the GraphProto `graph`, and whether its channels are last.

    given: (channels, height, width) instead of what the file declares. Where the file's image has its channels last, (height, width,
    channels) is taken too, if the channels tell the two apart. InputError for a shape that is not known, or has other channels than the
    first convolution takes.
    """
    declared = [
        d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in image.type.tensor_type.shape.dim
    ]
    last = len(declared) == 4 and has_channels_last(graph.node, image.name)
    place = f"input {image.name!r}"
    if given is None:
        return _declared_shape(path, place, declared), last
    if len(given) + 1 != len(declared) or min(given) < 1:
        raise InputError(path, place=place, expected=f"{len(declared) - 1} sizes of an image", found=str(list(given)))
    shape = tuple(int(d) for d in given)
    if len(shape) != 3:
        return (1, *shape), last
    channels = _channels_of_the_first_convolution(graph.node, image.name, constants)
    if channels is None and last and isinstance(declared[3], int) and declared[3] > 0:
        channels = declared[3]
    if channels is None or shape[0] == channels:
        return (1, *shape[1:], shape[0]) if last else (1, *shape), last
    if last and shape[2] == channels:
        return (1, *shape), last
    orders = "CxHxW, or HxWxC as in the file" if last else "CxHxW"
    raise InputError(
        path, place=place, expected=f"{counted(channels, 'channel')} ({orders})", found="x".join(map(str, shape))
    )


def _declared_shape(path: str, place: str, declared: Sequence[Any]) -> tuple[int, ...]:
    if not 2 <= len(declared) <= 4:
        expected = "a batch of images (batch, channels, height, width), of sequences or of vectors"
        raise InputError(path, place=place, expected=expected, found=f"{counted(len(declared), 'dimension')}")
    # a free batch size is 1: images come one after the other anyway
    sizes = [1 if isinstance(declared[0], str) else declared[0], *declared[1:]]
    if any(isinstance(d, str) or d < 1 for d in sizes):
        shown = "x".join(str(d) for d in sizes)
        raise InputError(path, place=place, expected="fixed channels, height and width", found=f"dynamic shape {shown}")
    return tuple(int(d) for d in sizes)


def has_channels_last(protos: Iterable[Any], image: str) -> bool:
    """Whether the file transposes its image so that channels come first, before anything that asks where they are."""
    names = {image}
    for proto in protos:
        if not names.intersection(proto.input):
            continue
        if proto.op_type == "Transpose":
            return any(a.name == "perm" and list(a.ints) == TO_FRONT for a in proto.attribute)
        if proto.op_type in ANY_ORDER:
            names.update(proto.output)
    return False


def _channels_of_the_first_convolution(protos: Iterable[Any], image: str, constants: Mapping[str, Array]) -> int | None:
    """How many channels the first convolution takes that reads the image as it is; None where there is none with known weights."""
    names = {image}
    for proto in protos:
        if not names.intersection(proto.input):
            continue
        if proto.op_type == "Conv":
            weight = constants.get(proto.input[1]) if len(proto.input) > 1 else None
            groups = next((int(a.i) for a in proto.attribute if a.name == "group"), 1)
            return None if weight is None or weight.ndim < 3 else int(weight.shape[1]) * groups
        if proto.op_type in KEEP_CHANNELS:
            names.update(proto.output)
    return None
