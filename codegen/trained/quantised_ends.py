"""Where the integers of a quantised file end, values end too: tools take a Clip or a ReLU6 into them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from kilotune.codegen.array_files import RealArray
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.float_evaluator import run_float
from kilotune.codegen.straight_line import OperationInstance
from kilotune.codegen.trained.conversion import convert
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode
from kilotune.codegen.trained.normalising import ENDS

BATCH = 256
"""So many samples are run at a time."""

SLACK = 0.02
"""Values that are no further beyond an end, as a part of the whole range, are left as they are: a step of 8 bits is a fifth of that. An
end at 0, as a Relu has it, is one for any value."""

Ends = tuple[float, float]
"""The real numbers of the least and of the largest integer."""


def with_ends(model: TrainedGraph, features: RealArray, wanted: Returns) -> TrainedGraph:
    """The model with `ENDS` for each QuantizeLinear whose values on the samples are beyond where its integers end.

    features: [samples, features]; `wanted`: what the program returns, since the file may end in what only a class is told of. Where all
    values lie within, rounding is all that the operator does, which is left to the program's own formats.
    """
    ends = {node.place: found for node in model.nodes if (found := _ends(model, node)) is not None}
    if not ends:
        return model
    try:
        made = convert(_bounded(model, ends), "", wanted)
    except InputError:  # conversion of the model says why
        return model
    seen: dict[str, Ends] = {}
    first: dict[str, int] = {}

    def observe(step: OperationInstance, written: FloatArray, read: Sequence[FloatArray]) -> None:
        place = step.operation.location.place or ""
        if place in ends and first.setdefault(place, id(step.operation)) == id(step.operation):
            low, high = seen.get(place, (math.inf, -math.inf))
            seen[place] = min(low, float(read[0].min())), max(high, float(read[0].max()))

    for start in range(0, len(features), BATCH):
        first.clear()
        run_float(made.program, made.parameters, features[start : start + BATCH], observe)
    return _bounded(model, {place: _reached(ends[place], values) for place, values in seen.items()})


def without_idle_rounding(model: TrainedGraph) -> TrainedGraph | None:
    """The model of `with_ends` without each QuantizeLinear that bounds nothing; None where that are all."""
    nodes, bounds = list[TrainedNode](), False
    for node in model.nodes:
        idle = node.kind == "QuantizeLinear" and all(map(math.isinf, node.attributes.get(ENDS, (math.inf,))))
        bounds |= node.kind == "QuantizeLinear" and not idle
        nodes.append(node.in_its_place("Identity", node.inputs[0]) if idle else node)
    return replace(model, nodes=tuple(nodes)) if bounds else None


def _ends(model: TrainedGraph, node: TrainedNode) -> Ends | None:
    """Those of a QuantizeLinear with one scale for all; None for every other node, and for the features' own, which
    `check_quantised_range` looks at."""
    if node.kind != "QuantizeLinear" or len(node.inputs) < 2 or node.inputs[0] in (model.input_name, *model.constants):
        return None
    step = model.constants.get(node.inputs[1])
    zero = model.constants.get(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else np.zeros(1, np.uint8)
    if step is None or zero is None or step.size != 1 or zero.size != 1 or zero.dtype.kind not in "iu":
        return None
    limits, size, middle = np.iinfo(zero.dtype), float(step.reshape(-1)[0]), float(zero.reshape(-1)[0])
    return (float(limits.min) - middle) * size, (float(limits.max) - middle) * size


def _reached(ends: Ends, values: Ends) -> Ends:
    """Ends beyond which no value lies are none."""
    room = SLACK * (ends[1] - ends[0])
    low = ends[0] if values[0] < ends[0] - (room if ends[0] else 0.0) else -math.inf
    return low, ends[1] if values[1] > ends[1] + room else math.inf


def _bounded(model: TrainedGraph, ends: Mapping[str, Ends]) -> TrainedGraph:
    nodes = tuple(
        replace(node, attributes={**node.attributes, ENDS: ends[node.place]}) if node.place in ends else node
        for node in model.nodes
    )
    return replace(model, nodes=nodes)
