"""The tensors that the nodes of an ONNX graph compute, and who reads them: what a memory planner places. Sizes by ONNX's shape inference.

Any operator will do, since nothing is executed. Initialisers are constants, and so is what follows from constants and shapes alone: they
take no memory here.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.onnx.constants import decode
from kilotune.codegen.onnx.importing import load_model
from kilotune.codegen.onnx.node_order import in_running_order
from kilotune.codegen.onnx.tree_ensembles import refuse_trees
from kilotune.codegen.tensor_graph import GraphOperator, GraphTensor, TensorGraph

FROM_SHAPES = ("Shape", "Size")
"""Operators that read no values."""

MOST_OF_A_SHAPE = 64
"""Elements that a constant may have from which a shape follows; larger ones are weights, which need not be there."""

HALF_BYTES = ("UINT4", "INT4", "FLOAT4E2M1")
"""Element types of four bits, two in a byte."""


def read_arena(path: Path) -> TensorGraph:
    """The tensors of a file. InputError for a file that is none, has subgraphs (If, Loop, Scan), or tensors whose size is not known. A free
    batch size is 1."""
    model = load_model(path)
    refuse_trees(model, str(path), "a network")
    for value in model.graph.input:
        _fix_batch(value)
    _bring_in_shapes(model, path)
    numbered = in_running_order(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(node for _, node in numbered)  # inference of shapes wants them sorted
    found = _Reading(str(path), _shapes(model, str(path)))
    found.constants.update(tensor.name for tensor in model.graph.initializer)
    found.constants.update(tensor.values.name for tensor in model.graph.sparse_initializer)
    inputs = [value.name for value in model.graph.input if value.name not in found.constants]
    for name in inputs:
        found.add(name, f"input {name!r}")
    for number, node in numbered:
        found.run(node, number)
    outputs = [value.name for value in model.graph.output if value.name not in found.constants]
    try:
        return TensorGraph(
            path.stem,
            tuple(found.tensors.values()),
            tuple(found.operators),
            tuple(inputs),
            tuple(dict.fromkeys(outputs)),
        )
    except ValueError as error:
        expected, _, what = str(error).removeprefix("expected ").partition(", found ")
        raise InputError(str(path), expected=expected, found=what) from None


def _fix_batch(value: Any) -> None:
    sizes = value.type.tensor_type.shape.dim
    if len(sizes) and not sizes[0].dim_value:
        sizes[0].dim_value = 1


def _bring_in_shapes(model: Any, path: Path) -> None:
    """Small constants that the file keeps in a file beside it, as numbers: the shape of a Reshape or the factors of a Resize may be such.
    What cannot be read stays as it is: no shape may follow from it."""
    from onnx import TensorProto, numpy_helper

    for tensor in model.graph.initializer:
        small = prod(tensor.dims) <= MOST_OF_A_SHAPE
        if (
            small
            and tensor.data_location == TensorProto.EXTERNAL
            and tensor.data_type
            in (
                TensorProto.INT64,
                TensorProto.INT32,
                TensorProto.FLOAT,
            )
        ):
            with suppress(ValueError):
                tensor.CopyFrom(numpy_helper.from_array(decode(tensor, str(path.parent)), tensor.name))


def _shapes(model: Any, path: str) -> dict[str, Any]:
    """The type of every value, by name."""
    from onnx import shape_inference

    try:
        graph = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    except Exception as error:  # the library raises its own and the standard ones, by what it stumbles over
        found = " ".join(str(error).split()) or type(error).__name__
        raise InputError(path, expected="a graph whose shapes can be inferred", found=found) from None
    return {value.name: value.type for value in (*graph.input, *graph.value_info, *graph.output)}


@dataclass
class _Reading:
    """What has been read of a graph so far."""

    path: str
    types: dict[str, Any]
    constants: set[str] = field(default_factory=set)
    tensors: dict[str, GraphTensor] = field(default_factory=dict)
    operators: list[GraphOperator] = field(default_factory=list)

    def run(self, node: Any, number: int) -> None:
        """The node, and the tensors that it writes."""
        place = f"node {number}" + (f" {node.name!r}" if node.name else "") + f" ({node.op_type})"
        if any(attribute.HasField("g") or len(attribute.graphs) for attribute in node.attribute):
            raise InputError(self.path, place=place, expected="a graph without subgraphs", found=node.op_type)
        reads = [name for name in dict.fromkeys(node.input) if name and name not in self.constants]
        writes = [name for name in node.output if name]
        if not reads or node.op_type in FROM_SHAPES:
            self.constants.update(writes)
            return
        for name in reads:
            if name not in self.tensors:
                raise InputError(self.path, place=place, expected="inputs that were written before", found=repr(name))
        for name in writes:
            self.add(name, place)
        self.operators.append(GraphOperator(f"{node.op_type} {number}", tuple(reads), tuple(writes)))

    def add(self, name: str, place: str) -> None:
        """A tensor of which the size is known. InputError otherwise."""
        from onnx import TensorProto, helper

        kind = self.types.get(name)
        if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
            raise InputError(self.path, place=place, expected=f"a tensor {name!r} of known shape", found="none")
        dimensions = kind.tensor_type.shape.dim
        shown = "x".join(str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in dimensions)
        if any(not d.HasField("dim_value") or d.dim_value < 0 for d in dimensions):
            raise InputError(
                self.path, place=place, expected=f"fixed sizes of {name!r}", found=f"dynamic shape {shown}"
            )
        element = kind.tensor_type.elem_type
        called = TensorProto.DataType.Name(element) if element in TensorProto.DataType.values() else f"type {element}"
        if called in ("STRING", "UNDEFINED") or called.startswith("type"):
            raise InputError(self.path, place=place, expected=f"numbers in {name!r}", found=called)
        bits = 4 if called in HALF_BYTES else 8 * helper.tensor_dtype_to_np_dtype(element).itemsize
        self.tensors[name] = GraphTensor(
            name, -(-prod(int(d.dim_value) for d in dimensions) * bits // 8), len(self.tensors)
        )
