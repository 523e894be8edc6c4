"""Quantised ONNX files, whose integers are kept: what stands between DequantizeLinear and QuantizeLinear becomes one node on integers.

Sums of products are exact and multiplied by the ratio of scales in floats of 32 bits, as ONNX Runtime's QLinearConv, QGemm and
QLinearMatMul do it on every processor; sums and products of two values are `even_arithmetic`'s, and functions of one value are tables of
what ONNX's reference implementation makes of each integer. Roundings are QuantizeLinear's: to the nearest, halves to the even number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.quantisation_grid import LEAST, MOST, QuantisationGrid
from kilotune.codegen.trained.endings import PROBABILITIES
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode
from kilotune.codegen.trained.onnx_completion import COMPLETED, Held, Pending, completed, rescaling_entries
from kilotune.codegen.trained.onnx_grids import (
    UNSIGNED_SHIFT,
    ConstantIntegers,
    dequantised,
    grid_of,
    quantised_constant,
)
from kilotune.codegen.trained.quantised import LARGEST, LOOKUP, RESCALING
from kilotune.codegen.trained.quantised_ends import Ends

MOVING = frozenset(
    ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "Gather", "Identity", "Dropout")
)
"""Operators whose results have the integers of their operand."""

LABELLING = frozenset(("Cast", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"))
"""What may follow a class."""


@dataclass
class _Translation:
    """The nodes so far. By the names of real values: `held`, of which the integers are known; `weights`, constants; `pending`, which are
    rounded next; `given`, which are the features in some order; `classes`, and scores that only a class may be made of. `rounded` are the
    names of those that the file has as integers."""

    graph: TrainedGraph
    constants: dict[str, Array]
    nodes: list[TrainedNode] = field(default_factory=list)
    held: dict[str, Held] = field(default_factory=dict)
    weights: dict[str, ConstantIntegers] = field(default_factory=dict)
    pending: dict[str, Pending] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    rounded: set[str] = field(default_factory=set)
    input_grid: QuantisationGrid | None = None

    def add(self, node: TrainedNode) -> None:
        """One node of the result."""
        self.nodes.append(node)


def with_kept_integers(graph: TrainedGraph) -> TrainedGraph:
    """The model on its own integers, with the grids of its ends. Nodes that cannot be stated so have a refusal."""
    translation = _Translation(graph, dict(graph.constants), given={graph.input_name})
    for node in graph.nodes:
        if translation.unknown.intersection(node.inputs):
            translation.unknown.update(node.outputs)
            translation.add(node)  # conversion says which node it hangs on
            continue
        try:
            _translate(translation, node)
        except (ValueError, IndexError, KeyError, TypeError) as error:
            found = str(error) if isinstance(error, ValueError) else ""
            refusal = found if found.startswith("expected ") else f"expected {node.kind} as ONNX has it, found another"
            translation.add(replace(node, refusal=refusal))
            translation.unknown.update(node.outputs)
    for name in graph.outputs:
        if name in translation.pending:
            maker = translation.pending[name].node
            refusal = f"expected a QuantizeLinear behind {maker.kind}, found the end of the model"
            translation.add(replace(maker, outputs=(name,), refusal=refusal))
    outputs = tuple(translation.held[name].name if name in translation.held else name for name in graph.outputs)
    made = translation.held.get(graph.outputs[0]) if graph.outputs else None
    return replace(
        graph,
        nodes=tuple(translation.nodes),
        constants=translation.constants,
        outputs=outputs,
        input_grid=translation.input_grid,
        output_grid=None if made is None else made.grid,
        rounded=True,
    )


def _translate(translation: _Translation, node: TrainedNode) -> None:
    if node.kind == "QuantizeLinear":
        _quantize(translation, node)
    elif node.kind == "DequantizeLinear":
        _dequantize(translation, node)
    elif any(name in translation.classes for name in node.inputs):
        if node.kind not in LABELLING:
            raise ValueError(f"expected the end of the model behind a class or probabilities, found {node.kind}")
        translation.classes.update(node.outputs)
        translation.add(node)
    elif node.kind in MOVING or _keeps_reals(node):
        _move(translation, node)
    elif node.kind in PROBABILITIES or node.kind == "ArgMax":
        _tell_apart(translation, node)
    elif node.kind == "MaxPool":
        _take_largest(translation, node)
    elif node.kind == "Pad" and (border := _whole_border(translation, node)) is not None:
        name = f"{node.output}/border"
        translation.constants[name] = np.asarray(border)
        _move(translation, replace(node, inputs=(*node.inputs[:2], name, *node.inputs[3:])))
    else:
        _compute(translation, node)


def _keeps_reals(node: TrainedNode) -> bool:
    """Whether it is a Cast from real numbers to real numbers."""
    from onnx import TensorProto

    return node.kind == "Cast" and node.integer("to", TensorProto.FLOAT) == TensorProto.FLOAT


def _quantize(translation: _Translation, node: TrainedNode) -> None:
    name = node.inputs[0]
    if name in translation.constants:
        translation.constants[node.output] = quantised_constant(node, translation.constants)
        return
    if name in translation.classes:  # of probabilities the largest stays where it is
        translation.classes.add(node.output)
        translation.add(node.in_its_place("Identity", name))
        return
    grid = grid_of(node, translation.constants)
    if name in translation.given:
        if translation.input_grid not in (None, grid):
            raise ValueError("expected features that are quantised once, found two grids")
        translation.input_grid = grid
        translation.add(node.in_its_place("Identity", name))
    elif name in translation.held:
        _rescale(translation, node, translation.held[name], grid)
    else:
        made = completed(translation.pending[name], grid, node.output)
        translation.nodes += made.nodes
        translation.constants.update(made.constants)
    translation.held[node.output] = Held(node.output, grid)
    translation.rounded.add(node.output)


def _rescale(translation: _Translation, node: TrainedNode, held: Held, grid: QuantisationGrid) -> None:
    """A value on another grid."""
    if held.grid == grid:
        translation.add(node.in_its_place("Identity", held.name))
        return
    entries = rescaling_entries(held.grid, grid)
    translation.add(node.in_its_place(LOOKUP, held.name, entries=entries, function=RESCALING))


def _dequantize(translation: _Translation, node: TrainedNode) -> None:
    name = node.inputs[0]
    if name in translation.constants:
        translation.weights[node.output] = dequantised(node, translation.constants)
    elif name in translation.classes:
        translation.classes.add(node.output)
        translation.add(node.in_its_place("Identity", name))
    elif name in translation.held:
        translation.held[node.output] = Held(translation.held[name].name, grid_of(node, translation.constants))
    else:
        raise ValueError(f"expected what a QuantizeLinear has made, found {name!r}")


def _move(translation: _Translation, node: TrainedNode) -> None:
    name = node.inputs[0]
    if name in translation.weights:
        constant = translation.weights[name]
        if node.kind == "Transpose":
            order = tuple(node.attributes.get("perm", range(constant.integers.ndim)[::-1]))
            constant = constant.transposed(node.output, order)
        elif node.kind not in ("Identity", "Cast"):
            raise ValueError(f"expected constants as they are, or transposed, found {node.kind}")
        translation.weights[node.output] = constant
    elif name in translation.given and node.kind != LARGEST:
        translation.given.update(node.outputs)
        translation.add(node)
    elif name in translation.held:
        held = translation.held[name]
        if name in translation.rounded and node.kind == "Cast":
            raise ValueError("expected a DequantizeLinear before Cast, found integers")
        translation.add(replace(node, inputs=(held.name, *node.inputs[1:])))
        translation.held.update({one: Held(one, held.grid) for one in node.outputs if one})
        translation.rounded.update(node.outputs if name in translation.rounded else ())
    elif name in translation.pending and len(node.outputs) == 1:
        before = translation.pending[name]
        translation.pending[node.output] = replace(before, moves=(*before.moves, node))
    else:
        kind = "MaxPool" if node.kind == LARGEST else node.kind
        raise ValueError(f"expected a QuantizeLinear before {kind}, found real numbers")


def _tell_apart(translation: _Translation, node: TrainedNode) -> None:
    """A class, or probabilities, which stay real numbers: a program may only tell the largest."""
    held = _operand(translation, node, 0)
    refusal = ""
    if node.kind in PROBABILITIES:
        refusal = (
            f"expected a class as the result (--returns class), or a file without {node.kind}, found probabilities"
        )
    translation.add(replace(node, inputs=(held.name, *node.inputs[1:]), refusal=refusal))
    translation.classes.update(node.outputs)


def _take_largest(translation: _Translation, node: TrainedNode) -> None:
    """MaxPool: the largest of rounded elements is the largest, rounded."""
    if len(node.outputs) > 1 and node.outputs[1]:
        raise ValueError("expected the largest elements alone, found their places too")
    attributes = {**node.attributes, "channels_second": True, "least": LEAST, "most": MOST}
    _move(translation, replace(node, kind=LARGEST, outputs=node.outputs[:1], attributes=attributes))


def _operand(translation: _Translation, node: TrainedNode, place: int) -> Held:
    name = node.inputs[place]
    if name not in translation.held:
        raise ValueError(f"expected a DequantizeLinear before {node.kind}, found real numbers")
    return translation.held[name]


def _compute(translation: _Translation, node: TrainedNode) -> None:
    """What the next QuantizeLinear rounds."""
    if translation.rounded.intersection(node.inputs):
        raise ValueError(f"expected a DequantizeLinear before {node.kind}, found integers")
    ends = _ends(translation, node)
    before = translation.pending.get(node.inputs[0])
    if before is not None and ends is not None:  # of each element, wherever it has been moved
        low, high = (min(max(end, ends[0]), ends[1]) for end in before.ends)  # those of the first, held by the second
        narrowed = low, high
        translation.pending[node.output] = replace(before, ends=narrowed)
        return
    if node.kind not in COMPLETED:
        known = ", ".join(sorted((*COMPLETED, *MOVING, *PROBABILITIES, "ArgMax", "MaxPool")))
        raise ValueError(f"expected a supported operator for kept integers ({known}), found {node.kind}")
    operands = tuple(
        translation.held.get(name) or translation.weights.get(name) or translation.constants.get(name)
        for name in node.inputs
    )
    if not any(isinstance(operand, Held) for operand in operands):
        raise ValueError(f"expected a DequantizeLinear before {node.kind}, found real numbers")
    for name, operand in zip(node.inputs, operands, strict=True):
        if operand is None and name:
            raise ValueError(f"expected a QuantizeLinear before {node.kind}, found the real numbers {name!r}")
    translation.pending[node.output] = Pending(node, operands)


def _whole_border(translation: _Translation, node: TrainedNode) -> float | None:
    """The integer of a border of integers, as the QOperator form has it; None for a border of real numbers."""
    number = translation.constants.get(node.inputs[2]) if len(node.inputs) > 2 else None
    if number is None or str(number.dtype) not in ("int8", "uint8"):
        return None
    return float(number.reshape(-1)[0]) - (UNSIGNED_SHIFT if str(number.dtype) == "uint8" else 0)


def _ends(translation: _Translation, node: TrainedNode) -> Ends | None:
    """Between which real numbers a Relu or Clip holds its operand; None for other operators."""
    if node.kind == "Relu":
        return 0.0, math.inf
    if node.kind != "Clip":
        return None
    ends = [float(node.attributes.get("min", -math.inf)), float(node.attributes.get("max", math.inf))]
    for place, name in enumerate(node.inputs[1:3]):
        if name:
            ends[place] = float(translation.constants[name].reshape(-1)[0])
    return ends[0], ends[1]
