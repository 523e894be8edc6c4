"""From an ONNX file to a `TrainedGraph`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.onnx.constants import decode
from kilotune.codegen.onnx.importing import load_model
from kilotune.codegen.onnx.node_order import in_running_order
from kilotune.codegen.onnx.obstacles import CLASSICAL_DOMAIN, MAIN_DOMAINS, error_at, node_place, operator_name
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode, check_features

OLDEST_OPSET = 9
"""Older files differ in what their operators mean. Exporters of classical models state the oldest one that they need."""

LARGEST_VERSION = 2**31 - 1
"""The newest version of operators that somebody else defines: more bits than these the onnx package does not take."""

AGELESS = frozenset(("Cast", "Identity"))
"""Operators that mean what they always did: files of classical models may have them beside their own, whatever opset they state."""


STAY_WHOLE = frozenset(
    ("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "Gather", "Concat", "Dropout", "Shape")
)  # fmt: skip
"""What only moves whole numbers."""


def read_onnx(path: Path) -> TrainedGraph:
    """The model of an ONNX file. InputError, one sentence, for a file that is none, for weights that are not there, and for inputs other
    than one tensor of known shape (a free first dimension is a batch of 1)."""
    proto = load_model(path)
    _check_opset(proto, str(path))
    constants = _constants(proto, path)
    given = [value for value in proto.graph.input if value.name not in constants]
    if len(given) != 1:
        names = ", ".join(repr(value.name) for value in given) or "none"
        raise InputError(str(path), subject="graph inputs", expected="one tensor of features", found=names)
    nodes = tuple(_node(proto, number, node, path) for number, node in in_running_order(proto.graph.node))
    shape = _input_shape(given[0], str(path))
    _check_type(given[0], nodes, str(path))
    return TrainedGraph(
        str(path), nodes, constants, given[0].name, shape, tuple(value.name for value in proto.graph.output)
    )


def _check_type(value: Any, nodes: tuple[TrainedNode, ...], path: str) -> None:
    """InputError for texts, and for whole numbers that are computed with as such: they wrap around, and their quotients are whole."""
    from onnx import TensorProto

    kind = value.type.tensor_type.elem_type
    real = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)
    if kind in real:
        return
    known = TensorProto.DataType.Name(kind) if kind in TensorProto.DataType.values() else str(kind)
    whole, expected = {value.name}, "real numbers, or whole ones that the model makes real by a Cast"
    if kind in (TensorProto.STRING, TensorProto.COMPLEX64, TensorProto.COMPLEX128):
        raise InputError(path, place=f"input {value.name!r}", expected=expected, found=known)
    for node in nodes:
        if not whole.intersection(node.inputs) or "." in node.kind:
            continue
        if node.kind in STAY_WHOLE:
            whole.update(node.outputs)
        elif node.kind != "Cast" or node.integer("to", TensorProto.FLOAT) not in real:
            raise InputError(
                path, place=f"input {value.name!r}", expected=expected, found=f"{known} read by {node.kind}"
            )


def _check_opset(proto: Any, path: str) -> None:
    from onnx.defs import onnx_ml_opset_version, onnx_opset_version

    newest = {**dict.fromkeys(MAIN_DOMAINS, onnx_opset_version()), CLASSICAL_DOMAIN: onnx_ml_opset_version()}
    for asked in proto.opset_import:
        known = newest.get(asked.domain, LARGEST_VERSION)
        if asked.version > known:
            of_domain = "" if asked.domain in MAIN_DOMAINS else f" of {asked.domain}"
            expected = f"opset {known}{of_domain}, the newest that the installed onnx package knows, or older"
            raise InputError(path, subject="opset", expected=expected, found=str(asked.version))
        if asked.version < 1 and asked.domain not in MAIN_DOMAINS:
            expected = f"opset 1 of {asked.domain}, or newer"
            raise InputError(path, subject="opset", expected=expected, found=str(asked.version))
    versions = [o.version for o in proto.opset_import if o.domain in MAIN_DOMAINS]
    named = {node.op_type for node in proto.graph.node if node.domain in MAIN_DOMAINS}
    if versions and versions[0] < OLDEST_OPSET and named - AGELESS:
        expected = f"opset {OLDEST_OPSET} or newer (onnx.version_converter brings older files up to date)"
        raise InputError(path, subject="opset", expected=expected, found=str(versions[0]))


def _constants(proto: Any, path: Path) -> dict[str, Array]:
    if proto.graph.sparse_initializer:
        raise InputError(str(path), subject="weights", expected="dense initialisers", found="sparse ones")
    constants: dict[str, Array] = {}
    names = {node.input[0] for node in proto.graph.node if node.op_type == "ArrayFeatureExtractor" and node.input}
    for tensor in proto.graph.initializer:
        if tensor.name in names and tensor.string_data:  # what classes are called
            constants[tensor.name] = np.array([name.decode(errors="replace") for name in tensor.string_data])
            continue
        try:
            constants[tensor.name] = decode(tensor, str(path.parent))
        except ValueError as error:
            raise error_at(str(path), f"initialiser {tensor.name!r}", error) from None
    return constants


def _input_shape(value: Any, path: str) -> tuple[int, ...]:
    place = f"input {value.name!r}"
    if not value.type.HasField("tensor_type"):
        raise InputError(path, place=place, expected="a tensor of numbers", found="something else")
    sizes = [d.dim_value if d.HasField("dim_value") else 0 for d in value.type.tensor_type.shape.dim]
    if not sizes:
        raise InputError(path, place=place, expected="a shape with a batch and features", found="none")
    if sizes[0] < 1:
        sizes[0] = 1  # a free batch
    if min(sizes) < 1:
        dims = value.type.tensor_type.shape.dim
        shown = "x".join(str(d.dim_value) if d.HasField("dim_value") else str(d.dim_param) or "?" for d in dims)
        expected = "fixed sizes behind the batch (export the model with an example input, and only the batch dynamic)"
        raise InputError(path, place=place, expected=expected, found=f"dynamic shape {shown}")
    try:
        check_features(tuple(sizes))
    except ValueError as error:
        raise error_at(path, place, error) from None
    return tuple(int(size) for size in sizes)


def _node(proto: Any, number: int, node: Any, path: Path) -> TrainedNode:
    from onnx import helper

    place = node_place(number, node)
    attributes: dict[str, Any] = {}
    domains = MAIN_DOMAINS if node.domain in MAIN_DOMAINS else (node.domain,)
    opset = next((int(o.version) for o in proto.opset_import if o.domain in domains), 1)
    try:
        _check_attribute_types(node, opset)
        for attribute in node.attribute:
            value = helper.get_attribute_value(attribute)
            is_tensor = type(value).__name__ == "TensorProto"
            attributes[attribute.name] = decode(value, str(path.parent)) if is_tensor else value
    except ValueError as error:
        raise error_at(str(path), place, error) from None
    if not node.output:
        raise InputError(str(path), place=place, expected="an output", found="none")
    refusal = _refusal_of_pool(node.op_type, attributes)
    return TrainedNode(operator_name(node), tuple(node.input), tuple(node.output), place, attributes, opset, refusal)


def _refusal_of_pool(kind: str, attributes: Mapping[str, Any]) -> str:
    """What is wrong with a pool that steps over elements and is padded to the same size: on some images the padding is less than none,
    which ONNX does not define; ONNX Runtime refuses some of these and crops others."""
    kernel, strides = attributes.get("kernel_shape", ()), attributes.get("strides", ())
    same = attributes.get("auto_pad", b"") in (b"SAME_UPPER", b"SAME_LOWER")
    if kind not in ("AveragePool", "MaxPool") or not same or all(s <= k for s, k in zip(strides, kernel, strict=False)):
        return ""
    return f"expected strides of at most the kernel, {list(kernel)}, with this auto_pad (write pads out), found {list(strides)}"


def _check_attribute_types(node: Any, opset: int) -> None:
    """ValueError "expected X, found Y" for an attribute that the operator's definition has not, or has with another type. Passes over the
    graph read attributes before anything is converted. Operators that the onnx package does not know are left to who converts them."""
    from onnx import AttributeProto, defs

    for name in (node.op_type, node.domain, *(attribute.name for attribute in node.attribute)):
        if not isinstance(name, str):  # protobuf hands over bytes that are no text
            raise ValueError(f"expected names that are text, found {name!r}")
    try:
        known = defs.get_schema(node.op_type, opset, node.domain).attributes
    except defs.SchemaError:
        return
    for attribute in node.attribute:
        if attribute.name not in known:
            names = ", ".join(sorted(known)) or "none"
            raise ValueError(f"expected an attribute that {node.op_type} has ({names}), found {attribute.name!r}")
        if attribute.type != (wanted := int(cast(Any, known[attribute.name].type))):
            expected, found = (AttributeProto.AttributeType.Name(kind).lower() for kind in (wanted, attribute.type))
            raise ValueError(f"expected an attribute {attribute.name} of type {expected}, found {found}")
