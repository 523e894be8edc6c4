"""A model of one step that keeps states, as a model of so many frames: the steps are a Scan, whose last results are the model's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kilotune.codegen.trained.model import TrainedGraph, TrainedNode
from kilotune.codegen.trained.scan import BODY, ScanBody, TakenPlace


def over_frames(graph: TrainedGraph, count: int) -> TrainedGraph:
    """The graph that reads `count` frames, one after the other along a new first axis, and returns what it returns behind the last one;
    as it is where it keeps no state.

    Only what states hang on is done in every step; the rest reads their last values.
    """
    if not graph.kept:
        return graph
    makers = {name: node for node in graph.nodes for name in node.outputs if name}
    every = _needed(makers, [state.behind for state in graph.kept])
    inside = tuple(node for node in graph.nodes if id(node) in every)
    outside = tuple(node for node in graph.nodes if id(node) not in every)
    made = {graph.input_name, *(state.before for state in graph.kept), *(n for node in inside for n in node.outputs)}
    read = dict.fromkeys(name for node in outside for name in node.inputs if name in made)
    last = tuple(dict.fromkeys([*read, *(name for name in graph.outputs if name in made)]))
    states, behind = (tuple(getattr(state, when) for state in graph.kept) for when in ("before", "behind"))

    def renamed(name: str) -> str:
        return f"{name}/step" if name in made else name

    steps = tuple(
        replace(n, inputs=tuple(map(renamed, n.inputs)), outputs=tuple(map(renamed, n.outputs))) for n in inside
    )
    body = ScanBody(
        steps,
        (*(renamed(name) for name in states), *(f"{name}/last" for name in last)),
        (*map(renamed, behind), *map(renamed, last)),
        (TakenPlace(renamed(graph.input_name)),),
        (),
        count,
    )
    nothing = f"{graph.input_name}/nothing"
    captured = sorted({name for node in inside for name in node.inputs if name and name not in made})
    first = [*(state.first for state in graph.kept), *(nothing for _ in last)]
    frames = f"{graph.input_name}/frames"
    writes = (*(f"{name}/behind" for name in states), *last)
    place = inside[0].place if inside else "variables"
    scan = TrainedNode("Scan", (*first, frames, *captured), writes, place, {BODY: body})
    constants = {**graph.constants, nothing: np.zeros(())}
    shape = (count, *graph.input_shape)
    return replace(graph, nodes=(scan, *outside), constants=constants, input_name=frames, input_shape=shape, kept=())


def _needed(makers: dict[str, TrainedNode], names: list[str]) -> set[int]:
    """The nodes that values hang on, by identity."""
    needed, open_ones = set[int](), list(names)
    while open_ones:
        node = makers.get(open_ones.pop())
        if node is not None and id(node) not in needed:
            needed.add(id(node))
            open_ones += node.inputs
    return needed
