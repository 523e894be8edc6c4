"""Unrolled recurrent layers become loops again: their steps, written one after the other, are one Scan."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.trained.constant_nodes import with_executed_constants
from kilotune.codegen.trained.conversion import Converted, convert
from kilotune.codegen.trained.endings import Returns
from kilotune.codegen.trained.first_steps import begins_with_zeros
from kilotune.codegen.trained.folding import pruned
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode
from kilotune.codegen.trained.scan import BODY, ScanBody, TakenPlace
from kilotune.codegen.trained.sequence_places import sequence_places
from kilotune.codegen.trained.unrolled_steps import UnrolledSteps, unrolled_steps

MOST_LOOPS = 16
"""How many unrolled layers of one model become loops."""


def rolled(graph: TrainedGraph) -> TrainedGraph:
    """The graph with a Scan for each run of at least three steps that do the same with one place of a sequence after the other.

    The first step is one of them too where it does the same with a state of zeros, which converters compute beforehand: that is
    seen from how both are computed (`first_steps.py`). What reads a state of a step in the middle reads it from where the Scan collects it.
    """
    for _ in range(MOST_LOOPS):
        graph = pruned(graph)
        found = _first_steps(graph)
        made = None if found is None else _with_scan(graph, found)
        if found is None or made is None or (_shapes(graph, found) and not _shapes(made, found)):
            break  # what cannot be converted in a loop stays as it is
        graph = made
    return graph


def _first_steps(graph: TrainedGraph) -> UnrolledSteps | None:
    for places in sequence_places(graph):
        for backward in (False, True):
            found = unrolled_steps(graph, places, backward=backward)
            if found is not None and found.count > 2 and _alone(graph, found):
                return found
    return None


def _alone(graph: TrainedGraph, steps: UnrolledSteps) -> bool:
    """Whether operators that write states write nothing else, which a Scan would write again."""
    names = {name for states in steps.states.values() for name in states}
    return all(len(node.outputs) == 1 for node in graph.nodes if names.intersection(node.outputs))


def _with_scan(graph: TrainedGraph, steps: UnrolledSteps) -> TrainedGraph:
    """The graph with those steps as a Scan."""
    shapes = _shapes(graph, steps)
    begun = _Begun(steps, steps.first, {role: names[0] for role, names in steps.states.items()}, shapes)
    constants = dict(graph.constants)
    if shapes and steps.first == 1 and begins_with_zeros(graph, steps, shapes):
        begun = _from_zeros(steps, shapes)
        constants.update({begun.initial[role]: np.zeros(shape) for role, shape in shapes.items()})
    for place in range(steps.last - begun.first + 1):
        constants[begun.number(place)] = np.array(place)
    with_all = _ordered(graph, _made(graph, begun, tuple(steps.states)))
    read = {name for node in with_all for name in node.inputs}.union(graph.outputs)
    collected = tuple(role for role in steps.states if begun.collected(role) in read)
    return pruned(replace(graph, nodes=_ordered(graph, _made(graph, begun, collected)), constants=constants))


@dataclass(frozen=True, eq=False)
class _Begun:
    """Steps from `first` on, before which the states are `initial`, by their role; `shapes`: of the states, where they are known."""

    steps: UnrolledSteps
    first: int
    initial: Mapping[str, str]
    shapes: Mapping[str, tuple[int, ...]]

    def states(self, role: str) -> tuple[str, ...]:
        """The names of a state behind each of these steps."""
        return self.steps.states[role][self.first - self.steps.first + 1 :]

    @property
    def first_place(self) -> int:
        """The first place of the sequence that these steps take."""
        return len(self.steps.places.names) - 1 - self.steps.last if self.steps.backward else self.first

    def collected(self, role: str) -> str:
        """What a state behind all of these steps is called, by place."""
        return f"{self.steps.states[role][-1]}/all"

    def number(self, place: int) -> str:
        """The constant that is the number of a place."""
        return f"{next(iter(self.steps.states))}/place{place}"


def _from_zeros(steps: UnrolledSteps, shapes: Mapping[str, tuple[int, ...]]) -> _Begun:
    """All steps, where the first one is like the others."""
    return _Begun(steps, 0, {role: f"{role}/start" for role in steps.states}, shapes)


def _made(graph: TrainedGraph, begun: _Begun, collected: Sequence[str]) -> dict[str, TrainedNode]:
    """The Scan, which collects the states of some roles, and what reads what it collects, by the names that they write."""
    scan = _scan(begun, collected)
    made: dict[str, TrainedNode] = dict.fromkeys(scan.outputs, scan)
    for role in collected:
        names = begun.states(role)
        for step, name in enumerate(names[:-1]):
            number = begun.number(len(names) - 1 - step if begun.steps.backward else step)
            made[name] = scan.in_its_place("Gather", begun.collected(role), number, write=name, axis=0)
    for node in graph.nodes:
        stacked = _stacked(graph, node, begun)
        if stacked is not None and stacked[0] in collected:
            made[node.output] = stacked[1]
    return made


def _scan(begun: _Begun, collected: Sequence[str]) -> TrainedNode:
    """The node; `collected` are the roles of states that it collects."""
    steps, places = begun.steps, begun.steps.places
    taken = (places.names[::-1] if steps.backward else places.names)[steps.model]
    inner = {taken, *steps.before, *(name for node in steps.nodes for name in node.outputs)}

    def renamed(name: str) -> str:
        return f"{name}/step" if name in inner else name

    nodes = tuple(
        replace(n, inputs=tuple(map(renamed, n.inputs)), outputs=tuple(map(renamed, n.outputs))) for n in steps.nodes
    )
    name_before = {role: name for name, role in steps.before.items()}
    body = ScanBody(
        nodes,
        tuple(renamed(name_before[role]) for role in steps.states),
        tuple(renamed(role) for role in steps.states),
        (TakenPlace(renamed(taken), places.axis, places.keeps_axis),),
        tuple(renamed(role) for role in collected),
        steps.last - begun.first + 1,
        begun.first_place,
        steps.backward,
    )
    outside = sorted({name for node in steps.nodes for name in node.inputs if name and name not in inner})
    reads = (*(begun.initial[role] for role in steps.states), places.source, *outside)
    writes = (*(names[-1] for names in steps.states.values()), *(begun.collected(role) for role in collected))
    return replace(steps.nodes[0], kind="Scan", inputs=reads, outputs=writes, attributes={BODY: body}, opset=13)


def _stacked(graph: TrainedGraph, node: TrainedNode, begun: _Begun) -> tuple[str, TrainedNode] | None:
    """The role of the state that a node puts together, in the order of places and along the first axis, as it is behind all steps, and
    the node that reads what is collected in its place."""
    if node.kind != "Concat" or node.attributes.get("axis") != 0:
        return None
    makers = {name: one for one in graph.nodes for name in one.outputs}
    parts = [makers.get(name) for name in node.inputs]
    sources = tuple(p.inputs[0] for p in parts if p is not None and _adds_first_axis(graph, p))
    for role in begun.steps.states:
        names = begun.states(role)
        in_order = names[::-1] if begun.steps.backward else names
        if sources == in_order:
            return role, node.in_its_place("Identity", begun.collected(role))
        if node.inputs == in_order and begun.shapes.get(role, ())[:1] == (1,):
            return role, node.in_its_place("Squeeze", begun.collected(role), axes=(1,))
    return None


def _adds_first_axis(graph: TrainedGraph, node: TrainedNode) -> bool:
    axes = graph.constants.get(node.inputs[1]) if len(node.inputs) > 1 else node.attributes.get("axes")
    return node.kind == "Unsqueeze" and axes is not None and np.asarray(axes).reshape(-1).tolist() == [0]


def _ordered(graph: TrainedGraph, made: Mapping[str, TrainedNode]) -> tuple[TrainedNode, ...]:
    """The nodes that the outputs hang on, those of `made` in place of others that write the same, each behind what it reads."""
    makers = {name: node for node in graph.nodes for name in node.outputs if name} | dict(made)
    number = {id(node): place for place, node in enumerate(graph.nodes)}
    needed: dict[int, TrainedNode] = {}
    open_ones = list(graph.outputs)
    while open_ones:
        node = makers.get(open_ones.pop())
        if node is not None and id(node) not in needed:
            needed[id(node)] = node
            open_ones += node.inputs
    missing = {key: len({id(makers[n]) for n in node.inputs if n in makers}) for key, node in needed.items()}
    readers: dict[int, set[int]] = {}
    for key, node in needed.items():
        for name in node.inputs:
            if name in makers:
                readers.setdefault(id(makers[name]), set()).add(key)
    ready = [(number.get(key, -1), key) for key, count in missing.items() if not count]
    heapq.heapify(ready)
    ordered: list[TrainedNode] = []
    while ready:
        _, key = heapq.heappop(ready)
        ordered.append(needed[key])
        for reader in sorted(readers.get(key, ())):
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, (number.get(reader, -1), reader))
    return tuple(ordered)


def _shapes(graph: TrainedGraph, steps: UnrolledSteps) -> dict[str, tuple[int, ...]]:
    """The shapes of the states; none where something before them cannot be converted, which conversion says."""
    try:
        return {
            role: _converted(replace(graph, outputs=(names[-1],))).program.result.shape
            for role, names in steps.states.items()
        }
    except InputError:
        return {}


def _converted(graph: TrainedGraph) -> Converted:
    return convert(with_executed_constants(pruned(graph)), "", Returns.VALUE)
