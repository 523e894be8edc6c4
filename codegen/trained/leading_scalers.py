"""Scalers at the start of a model: constants that multiply features, or are added to them, before anything else reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from kilotune.codegen.array_files import RealArray
from kilotune.codegen.arrays import Array
from kilotune.codegen.trained.folding import Rescaling, affine_of, keeps_elements
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode


@dataclass(frozen=True, eq=False)
class LeadingScaler:
    """What nodes that follow one another make of the features: `chosen * factor + offset`.

    nodes: all of them, first to last; no other node reads what is between them. choices: those that choose places along an axis (Gather).
    factor, offset: arrays of the result's shape.
    """

    nodes: tuple[TrainedNode, ...]
    choices: tuple[TrainedNode, ...]
    factor: RealArray
    offset: RealArray

    @property
    def output(self) -> str:
        """The name of the result."""
        return self.nodes[-1].output


def leading_scaler(model: TrainedGraph, reader: TrainedNode, given: LeadingScaler) -> LeadingScaler | None:
    """The longest one that begins with `reader`, a node that reads the features; None where nothing is multiplied or added there.

    given: what is done to the features before (its nodes are not looked at), so that the result's factor and offset are of both.
    """
    told = names_told(model)
    found, scales, name = replace(given, nodes=(), choices=()), False, model.input_name
    node: TrainedNode | None = reader
    while node is not None:
        extended = _extended(found, node, name, model.constants)
        if extended is None:
            break
        scales = scales or (extended.choices == found.choices and not keeps_elements(node))
        found, name = extended, node.output
        readers = [other for other in model.nodes if name in other.inputs]
        node = readers[0] if len(readers) == 1 and name not in told else None
    return found if scales else None


def names_told(model: TrainedGraph) -> set[str]:
    """Values that the model returns, or keeps for its next step."""
    return {*model.outputs, *(state.behind for state in model.kept)}


def without_leading_casts(model: TrainedGraph) -> TrainedGraph:
    """The model without casts of its features from real numbers to real numbers: what read these reads the features."""
    told, same, nodes = names_told(model), {model.input_name}, list[TrainedNode]()
    for node in model.nodes:
        if keeps_elements(node) and node.inputs[0] in same and node.output not in told:
            same.add(node.output)
            continue
        read = tuple(model.input_name if name in same else name for name in node.inputs)
        nodes.append(replace(node, inputs=read))
    return replace(model, nodes=tuple(nodes))


def _extended(
    scaler: LeadingScaler, node: TrainedNode, name: str, constants: Mapping[str, Array]
) -> LeadingScaler | None:
    """The scaler with one node more, which reads `name`; None for a node that does something else."""
    nodes = (*scaler.nodes, node)
    if keeps_elements(node):
        return replace(scaler, nodes=nodes)
    if node.kind == "Gather":
        return _chosen(replace(scaler, nodes=nodes), node, name, constants)
    affine = _by_element(node, constants, scaler.factor.shape)
    if affine is None:
        return None
    offset = scaler.offset * affine.factor + affine.offset
    return replace(scaler, nodes=nodes, factor=scaler.factor * affine.factor, offset=offset)


def _chosen(
    scaler: LeadingScaler, node: TrainedNode, name: str, constants: Mapping[str, Array]
) -> LeadingScaler | None:
    """The scaler of places that are chosen along an axis; None where they are no list, or out of range."""
    places, rank = constants.get(node.inputs[1]), scaler.factor.ndim
    axis = node.attributes.get("axis", 0)
    if node.inputs[0] != name or places is None or places.ndim != 1 or places.dtype.kind not in "iu":
        return None
    if not isinstance(axis, int) or not -rank <= axis < rank or not places.size:
        return None
    extent = scaler.factor.shape[axis]
    if places.min() < -extent or places.max() >= extent:
        return None
    factor, offset = (np.take(part, places, axis=axis) for part in (scaler.factor, scaler.offset))
    return replace(scaler, choices=(*scaler.choices, node), factor=factor, offset=offset)


def _by_element(node: TrainedNode, constants: Mapping[str, Array], shape: tuple[int, ...]) -> Rescaling | None:
    """What a node does with features of `shape`, in arrays that broadcast to it; None where it does something else."""
    affine = affine_of(node, constants)
    if affine is None:
        return None
    if node.kind == "BatchNormalization":  # one number for each place of the second axis
        if len(shape) < 2 or affine.factor.shape != shape[1:2]:
            return None
        by_channel = (-1, *(1 for _ in shape[2:]))
        return replace(affine, factor=affine.factor.reshape(by_channel), offset=affine.offset.reshape(by_channel))
    try:
        return affine if np.broadcast_shapes(affine.factor.shape, affine.offset.shape, shape) == shape else None
    except ValueError:
        return None
