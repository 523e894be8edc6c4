"""Operators that take one place of a sequence each, as an unrolled recurrent layer begins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from kilotune.codegen.trained.model import TrainedGraph, TrainedNode

LEAST_PLACES = 4
"""Fewer steps are left as they are: of three, the first and the last may each be another."""

WHOLE_AXIS = (1 << 30) - 1
"""An end beyond this number is that of an axis, however long it is."""


@dataclass(frozen=True)
class SequencePlaces:
    """`names` are the places 0, 1, ... of the value `source` along an axis, which is kept with extent 1 or left out."""

    source: str
    axis: int
    keeps_axis: bool
    names: tuple[str, ...]


def sequence_places(graph: TrainedGraph) -> list[SequencePlaces]:
    """The values of which a graph takes every place from 0 on, at least `LEAST_PLACES`, one by one."""
    found: dict[tuple[str, int, bool], dict[int, str]] = defaultdict(dict)
    for node in graph.nodes:
        for key, place, name in _taken(graph, node):
            found[key].setdefault(place, name)
    return [
        SequencePlaces(*key, tuple(names[place] for place in range(len(names))))
        for key, names in found.items()
        if len(names) >= LEAST_PLACES and set(names) == set(range(len(names)))
    ]


_Axis = tuple[str, int, bool]
"""A value, an axis of it, and whether the axis is kept."""


def _taken(graph: TrainedGraph, node: TrainedNode) -> Iterator[tuple[_Axis, int, str]]:
    """What a node takes of which axis: the place, and the name of what it is then."""
    if not node.inputs or node.inputs[0] in graph.constants:
        return
    given = [graph.constants.get(name) for name in node.inputs[1:] if name]
    whole = [array for array in given if array is not None and array.dtype.kind in "iu"]
    if len(whole) == len(given):
        numbers = [array.astype(np.int64).reshape(-1).tolist() for array in whole]
        taker = _TAKERS.get(node.kind)
        yield from () if taker is None else taker(node, numbers, whole[0].ndim if whole else 0)


def _gathered(node: TrainedNode, numbers: list[list[int]], rank: int) -> Iterator[tuple[_Axis, int, str]]:
    if len(numbers) == 1 and len(numbers[0]) == 1 and numbers[0][0] >= 0:
        yield (node.inputs[0], node.attributes.get("axis", 0), rank > 0), numbers[0][0], node.output


def _split(node: TrainedNode, numbers: list[list[int]], rank: int) -> Iterator[tuple[_Axis, int, str]]:
    if len(numbers) == 1 and numbers[0] == [1] * len(node.outputs):
        for place, name in enumerate(node.outputs):
            yield (node.inputs[0], node.attributes.get("axis", 0), True), place, name


def _cut(node: TrainedNode, numbers: list[list[int]], rank: int) -> Iterator[tuple[_Axis, int, str]]:
    """A Slice of one place along one axis, and of all of every other."""
    if (
        len(numbers) < 2
        or len({len(one) for one in numbers}) != 1
        or any(step != 1 for step in (numbers[3:] or [[]])[0])
    ):
        return
    axes = numbers[2] if len(numbers) > 2 else list(range(len(numbers[0])))
    spans = list(zip(axes, numbers[0], numbers[1], strict=True))
    parts = [(axis, start) for axis, start, end in spans if not (start == 0 and end >= WHOLE_AXIS)]
    if len(parts) == 1 and parts[0][1] >= 0 and (*parts[0], parts[0][1] + 1) in spans:
        yield (node.inputs[0], parts[0][0], True), parts[0][1], node.output


_TAKERS: Mapping[str, Callable[[TrainedNode, list[list[int]], int], Iterator[tuple[_Axis, int, str]]]] = (
    MappingProxyType({"Gather": _gathered, "Split": _split, "Slice": _cut})
)
"""By operator: what a node takes, from its constants as lists of numbers and the number of axes of the first one."""
