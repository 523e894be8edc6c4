"""From an ONNX file to a `Graph`: reading, constants, shapes, and one clear message for what cannot be mapped."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from kilotune.codegen.arrays import Array
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.onnx.constants import FOLDED, decode
from kilotune.codegen.onnx.folding import fold
from kilotune.codegen.onnx.graph import Graph, GraphOutput, check_size
from kilotune.codegen.onnx.image_shape import image_shape
from kilotune.codegen.onnx.imported import Imported, OnnxNode, OnnxValue, canonical_shape
from kilotune.codegen.onnx.node_order import in_running_order
from kilotune.codegen.onnx.obstacles import MAIN_DOMAINS, Obstacles, error_at, operator_name
from kilotune.codegen.onnx.operators import CONVERTERS, SUPPORTED
from kilotune.codegen.onnx.tree_ensembles import refuse_trees

MOST_FILE_BYTES = (1 << 31) - 1
"""What protobuf can hold; larger networks keep their weights in files beside the model."""

AFTER_HOST = ("Identity", "Dropout", "Cast", "Squeeze", "Reshape", "Flatten")
"""Operators that may follow what is left for the host."""

ResultT = TypeVar("ResultT")


def load_model(path: Path) -> Any:
    """The ModelProto in a file, as it stands: its nodes may be in another order than they run. InputError for a file that is none or is cut
    short."""
    import onnx  # takes a third of a second, and networks by name need none

    try:
        size_bytes = path.stat().st_size
        if size_bytes > MOST_FILE_BYTES:
            found = f"{size_bytes}"
            raise InputError(str(path), expected=f"an ONNX file of at most {MOST_FILE_BYTES} bytes", found=found)
        model = onnx.load(str(path), load_external_data=False)
    except InputError:
        raise
    except OSError as error:
        raise InputError(str(path), expected="an ONNX file", found=f"one that cannot be read ({error})") from None
    except Exception:  # protobuf's own error types differ between its implementations
        raise InputError(str(path), expected="an ONNX file", found="bytes that are none, or are cut short") from None
    if not model.graph.output or not model.opset_import:
        raise InputError(str(path), expected="an ONNX file with a graph", found="none, or one that is cut short")
    return model


def import_model(model: Any, path: str, input_shape: Sequence[int] | None = None, host: bool = False) -> Graph:
    """The network of a ModelProto; `path` is for messages and for external data.

    input_shape: (channels, height, width) instead of the file's, see `image_shape`. host: nodes that cannot be mapped, and all that
    read what they write, are left for the host, and what they read of the rest are outputs. Batch normalisation and constant factors are
    folded into the convolution before them where nothing else reads it.
    """
    if not host:
        refuse_trees(model, path, "a network")
    obstacles = Obstacles(path)
    imported: Imported | None = None
    try:
        imported = _start(model, path, input_shape)
    except InputError as error:
        obstacles.add_graph(error)
    opset = next((o.version for o in model.opset_import if o.domain in MAIN_DOMAINS), 1)
    for number, proto in in_running_order(model.graph.node):
        if obstacles.skips(number, proto, imported is None) or imported is None:
            continue
        try:
            if not proto.output:
                raise ValueError("expected an output, found none")
            convert(imported, _call(proto, opset, path), proto.domain)
        except ValueError as error:
            obstacles.add(number, proto, error)
    if imported is None or not host:
        obstacles.check()
    assert imported is not None
    return _finish(model, path, imported, obstacles)


def _start(model: Any, path: str, input_shape: Sequence[int] | None) -> Imported:
    folder = str(Path(path).parent)
    constants: dict[str, Array] = {}
    for tensor in model.graph.initializer:
        try:
            constants[tensor.name] = decode(tensor, folder)
        except ValueError as error:
            raise error_at(path, f"initialiser {tensor.name!r}", error) from None
    images = [value for value in model.graph.input if value.name not in constants]
    if len(images) != 1:
        names = ", ".join(repr(value.name) for value in images) or "none"
        raise InputError(path, subject="graph inputs", expected="one image", found=names)
    image = images[0]
    shape, last = image_shape(path, model.graph, image, constants, input_shape)
    canonical = canonical_shape((shape[0], shape[3], shape[1], shape[2]) if last else shape)
    try:
        check_size(canonical)
    except ValueError as error:
        raise error_at(path, f"input {image.name!r}", error) from None
    values = {image.name: OnnxValue(image.name, shape, channels_last=last)}
    return Imported(constants, values, {image.name: canonical})


def _call(proto: Any, opset: int, path: str) -> OnnxNode:
    from onnx import helper

    attributes: dict[str, Any] = {}
    for attribute in proto.attribute:
        value = helper.get_attribute_value(attribute)
        is_tensor = type(value).__name__ == "TensorProto"
        attributes[attribute.name] = decode(value, str(Path(path).parent)) if is_tensor else value
    return OnnxNode(proto.op_type, tuple(proto.input), tuple(proto.output), attributes, opset)


def convert(imported: Imported, call: OnnxNode, domain: str = "") -> None:
    """Add an ONNX node to the network. ValueError "expected X, found Y" for one that cannot be mapped."""
    if call.output in imported.constants or call.output in imported.values:
        raise ValueError(f"expected an output of its own, found {call.output!r}, which is there already")
    if domain in MAIN_DOMAINS and call.operator in FOLDED and all(n in imported.constants for n in call.inputs):
        operands = [imported.constants[name] for name in call.inputs]
        imported.constants[call.output] = _applied(call, lambda: FOLDED[call.operator](call.attributes, operands))
        return
    if domain not in MAIN_DOMAINS or call.operator not in CONVERTERS:
        name = call.operator if domain in MAIN_DOMAINS else f"{domain}.{call.operator}"
        raise ValueError(f"expected a supported operator ({', '.join(SUPPORTED)}), found {name}")
    there = (imported.constants, imported.unknown, imported.values)
    unwritten = [n for n in call.inputs if n and not any(n in names for names in there)]
    if unwritten:
        raise ValueError(
            f"expected inputs that were written before, found {unwritten[0]!r} (no node writes it, or only one that waits)"
        )
    after = [o for name in call.inputs if name in imported.values for o in imported.values[name].host]
    if after and call.operator not in AFTER_HOST:
        raise ValueError(f"expected {after[0].operator} at the end, found {call.operator} after it")
    _applied(call, lambda: CONVERTERS[call.operator](imported, call))
    if after:
        imported.values[call.output] = dataclasses.replace(imported.values[call.output], host=tuple(after))


def _applied(call: OnnxNode, convert: Callable[[], ResultT]) -> ResultT:
    """ValueError where an input or an attribute is missing, of another type, or out of range."""
    try:
        return convert()
    except (IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        kinds: dict[type[Exception], str] = {
            IndexError: "too few",
            KeyError: f"none called {error}",
            OverflowError: "a number out of range",
        }
        what = kinds.get(type(error), "one of another type")
        raise ValueError(f"expected the inputs and attributes of {call.operator}, found others ({what})") from None


def _finish(model: Any, path: str, imported: Imported, obstacles: Obstacles) -> Graph:
    """With the file's outputs, and what those of its nodes read that are left for the host."""
    images = [value.name for value in model.graph.input if value.name not in imported.constants]
    left = [proto for proto in model.graph.node if obstacles.unread.intersection(proto.output)]
    read = [name for proto in left for name in proto.input if name in imported.values and name not in images]
    outputs = [value.name for value in model.graph.output if value.name not in obstacles.unread]
    for name in outputs:
        if name not in imported.values:
            raise InputError(path, subject=f"output {name!r}", expected="one computed from the image", found="none")
    names = list(dict.fromkeys([*outputs, *read]))
    if not names:
        obstacles.check()  # nothing is left to map
    graph = graph_of(imported, Path(path).stem, images[0], names)  # exporters call every graph main_graph
    counted = Counter(operator_name(proto) for proto in left)
    return dataclasses.replace(graph, left=dict(counted.most_common())) if left else graph


def graph_of(imported: Imported, name: str, image: str, outputs: Sequence[str]) -> Graph:
    """The network from its tensor `image` to the values `outputs`, with batch normalisation folded."""
    graph = Graph(
        name,
        image,
        tuple(_output(imported, output) for output in outputs),
        tuple(imported.nodes),
        dict(imported.shapes),
        ranks={name: len(v.shape) for name, v in imported.values.items() if v.tensor == name},
        image_last=imported.values[image].channels_last,
        lasts=frozenset(name for name, v in imported.values.items() if v.tensor == name and v.channels_last),
        last_matrices=frozenset(imported.last_matrices),
        parts=dict(imported.parts),
    )
    return fold(graph, {name: (v.shape, v.channels_last) for name, v in imported.values.items() if v.tensor == name})


def _output(imported: Imported, name: str) -> GraphOutput:
    """What is left of an ONNX value where the host begins."""
    value = imported.values[name]
    return GraphOutput(name, value.tensor, value.shape[1:], value.channels_last, value.host)
