"""Operators on integers, between a QuantizeLinear and the DequantizeLinear that reads them, as operators on real numbers: a file that
becomes a float model again leaves rounding out, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.trained.converters import CONVERTERS
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode

KEEPING = frozenset(
    (
        "DepthToSpace", "Dropout", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "ReduceMax", "ReduceMin", "Reshape", "Slice",
        "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
    )
)  # fmt: skip
"""Operators whose results are integers of their first operand."""

ASKING = frozenset(("ArgMax", "ArgMin", "Shape", "Size"))
"""Operators whose results are the same of integers and of real numbers."""


def with_real_moves(model: TrainedGraph) -> TrainedGraph:
    """The model, with borders of integers as the real numbers that they stand for. What would be arithmetic on integers is refused: another
    grid for them than they were made on, integers of several grids put together, other operators. Grids that are computed are not looked
    at."""
    held: dict[str, TrainedNode] = {}
    constants, nodes = dict(model.constants), []
    for node in model.nodes:
        made = [held[name] for name in node.inputs if name in held]
        if node.kind == "QuantizeLinear":
            held[node.output] = node
        elif made:
            node = _on_reals(node, made, constants)
            if node.kind in KEEPING | {"Pad", "Concat"}:
                held.update(dict.fromkeys(node.outputs, made[0]))
        nodes.append(node)
    return replace(model, nodes=tuple(nodes), constants=constants)


def _on_reals(node: TrainedNode, made: list[TrainedNode], constants: dict[str, Array]) -> TrainedNode:
    """An operator that reads integers which these QuantizeLinear have made."""
    maker = made[0]
    if node.kind == "DequantizeLinear":
        expected = f"the scale and the zero point of {maker.place}, whose integers it reads"
        return node if _are_same(maker, node, constants) else _refused(node, expected, "others")
    if node.kind == "Pad":
        return _padded(node, maker, constants)
    if node.kind == "Concat":
        of_one = len(made) == len(node.inputs) and all(_are_same(maker, other, constants) for other in made)
        return node if of_one else _refused(node, "integers of one scale and zero point", "others")
    if node.kind in KEEPING | ASKING or node.kind not in CONVERTERS:
        return node
    return _refused(node, "real numbers (a DequantizeLinear before it)", f"the integers of {maker.place}")


def _refused(node: TrainedNode, expected: str, found: str) -> TrainedNode:
    return node if node.refusal else replace(node, refusal=f"expected {expected}, found {found}")


def _padded(node: TrainedNode, maker: TrainedNode, constants: dict[str, Array]) -> TrainedNode:
    """A border of integers as one of real numbers."""
    inputs = (*node.inputs, "", "")[: max(3, len(node.inputs))]
    level = constants.get(inputs[2]) if inputs[2] else np.zeros(())
    scale, zero = (_grid_part(maker, place, constants) for place in (1, 2))
    if any(part is None or part.size != 1 for part in (level, scale, zero)):
        return _refused(node, "a constant border of integers with one scale", "others")
    parts = [float(np.asarray(part).reshape(-1)[0]) for part in (level, zero, scale)]
    name = f"{node.output}/border"
    constants[name] = np.array((parts[0] - parts[1]) * parts[2], np.float32)
    return replace(node, inputs=(*inputs[:2], name, *inputs[3:]))


def _are_same(made: TrainedNode, read: TrainedNode, constants: Mapping[str, Array]) -> bool:
    """Whether both have the same scales and zero points, as far as these are constants."""
    for place in (1, 2):
        a, b = (_grid_part(node, place, constants) for node in (made, read))
        if a is None or b is None:
            continue
        if a.size != b.size and 1 not in (a.size, b.size):
            return False
        if not np.allclose(a, b, rtol=1e-6, atol=0.0):
            return False
    return True


def _grid_part(node: TrainedNode, place: int, constants: Mapping[str, Array]) -> Array | None:
    """Scales or zero points; None for those that are no constants."""
    name = node.inputs[place] if len(node.inputs) > place else ""
    found = constants.get(name) if name else np.zeros(1)
    return None if found is None else np.asarray(found, np.float64).reshape(-1)
