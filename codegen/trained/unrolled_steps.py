"""Steps that an unrolled recurrent layer repeats: which values of one step are those of the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode
from kilotune.codegen.trained.sequence_places import SequencePlaces

MOST_STATES = 16
"""More values that one step reads of another are no recurrent layer's."""

ROUNDING = 0.02
"""How far, of the largest, constants of two steps may be apart that quantisation rounded: small biases are integers of few bits."""

PUT_OFF = frozenset(
    (
        "Gemm",
        "MatMul",
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Identity",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Unsqueeze",
        "Transpose",
    )
)
"""What may as well be done in the next step, where it hangs on one value besides constants."""


@dataclass(frozen=True, eq=False)
class UnrolledSteps:
    """Steps `first` to `last` do with their place of `places` (from the last one on where they are `backward`) and the states before them
    what step `model` does. `states`: by the role of a state, which is its name behind step `model`, the names behind all steps from
    `first - 1` to `last`; the first of them may be constants. `before`: the role of each state by its name before step `model`."""

    places: SequencePlaces
    backward: bool
    first: int
    last: int
    model: int
    states: Mapping[str, tuple[str, ...]]
    before: Mapping[str, str]
    nodes: tuple[TrainedNode, ...]

    @property
    def count(self) -> int:
        """How many steps there are."""
        return self.last - self.first + 1


def unrolled_steps(graph: TrainedGraph, places: SequencePlaces, *, backward: bool) -> UnrolledSteps | None:
    """The steps that a graph takes along a sequence; None where it takes none, or where they are not all the same in the middle."""
    known = _StepsOfValues.of(graph, places, backward)
    model = len(places.names) - 2
    before = _states(known, model)
    if before is None:
        return None
    roles = sorted(set(before.values()))
    steps: dict[int, dict[str, str]] = {model: {role: role for role in roles}}
    step = model
    while step in steps and step >= 0:
        found = _matched(known, model, step, steps[step], before)
        if found is None:
            break
        steps[step - 1] = found
        step -= 1
    first, last = step + 1, model
    if first > model:
        return None
    behind = _last_step(known, model, roles, steps[model], before)
    if behind is not None:
        steps[model + 1], last = behind, model + 1
    states = {role: tuple(steps[number][role] for number in range(first - 1, last + 1)) for role in roles}
    nodes = known.nodes_of(roles, model)
    return UnrolledSteps(places, backward, first, last, model, states, before, nodes)


@dataclass(frozen=True, eq=False)
class _StepsOfValues:
    """`levels`: the last step that a value hangs on, -1 for none; `readers`: the last step that reads it."""

    graph: TrainedGraph
    makers: Mapping[str, TrainedNode]
    levels: Mapping[str, int]
    readers: Mapping[str, int]
    step_of_place: Mapping[str, int]

    @classmethod
    def of(cls, graph: TrainedGraph, places: SequencePlaces, backward: bool) -> _StepsOfValues:
        names = places.names[::-1] if backward else places.names
        step_of_place = {name: step for step, name in enumerate(names)}
        levels = dict(step_of_place)
        for node in graph.nodes:
            level = max((levels.get(name, -1) for name in node.inputs), default=-1)
            for name in node.outputs:
                levels.setdefault(name, level)
        steps, readers = _put_off(graph, levels, step_of_place)
        makers = {name: node for node in graph.nodes for name in node.outputs if name}
        return cls(graph, makers, steps, readers, step_of_place)

    def level(self, name: str) -> int:
        """The last step that a value hangs on."""
        return self.levels.get(name, -1)

    def handed_on(self, step: int) -> list[str]:
        """What later steps, or what comes behind them, read of a step."""
        return [name for name in self.makers if self.level(name) == step and self.readers.get(name, -1) > step]

    def nodes_of(self, names: list[str], step: int) -> tuple[TrainedNode, ...]:
        """The nodes of a step that values hang on, in order."""
        wanted, open_ones = set[int](), list(names)
        while open_ones:
            name = open_ones.pop()
            node = self.makers.get(name)
            if self.level(name) == step and name not in self.step_of_place and node and id(node) not in wanted:
                wanted.add(id(node))
                open_ones += node.inputs
        return tuple(node for node in self.graph.nodes if id(node) in wanted)


def _put_off(
    graph: TrainedGraph, levels: Mapping[str, int], places: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """The step of every value, and the last step that reads it: what only later steps read, and hangs on one value of this step, is part of
    the next one, so that a step hands on a state and not its product with recurrent weights, which is wider."""
    steps, first, last = dict(levels), dict[str, int](), dict[str, int]()
    end = max(levels.values(), default=0) + 1
    for name in graph.outputs:
        first[name], last[name] = -1, end
    for node in reversed(graph.nodes):
        step = steps[node.output]
        readers = [first.get(name, end) for name in node.outputs]
        alone = node.kind in PUT_OFF and len({name for name in node.inputs if name not in graph.constants}) == 1
        if alone and 0 <= step < min(readers) < end and places.keys().isdisjoint(node.outputs):
            step += 1
            steps.update(dict.fromkeys(node.outputs, step))
        for name in node.inputs:
            first[name] = min(first.get(name, end), step)
            last[name] = max(last.get(name, -1), step)
    return steps, last


@dataclass(eq=False)
class _Match:
    """Compares what a value of step `model` is made of with what one of `step` is made of; `carried`: by each value of earlier steps that
    the first reads, what the second reads in its place."""

    known: _StepsOfValues
    model: int
    step: int
    carried: dict[str, str] = field(default_factory=dict)
    same: dict[str, str] = field(default_factory=dict)

    def __call__(self, first: str, second: str) -> bool:
        """Whether both are the same but for what earlier steps hand on."""
        open_ones = [(first, second)]
        while open_ones:
            a, b = open_ones.pop()
            if self.same.get(a) == b:
                continue
            if a in self.same or not self._alike(a, b):
                return False
            self.same[a] = b
            if self.known.level(a) == self.model and a not in self.known.step_of_place:
                open_ones += zip(self.known.makers[a].inputs, self.known.makers[b].inputs, strict=True)
        return True

    def _alike(self, a: str, b: str) -> bool:
        """As far as can be seen without their operands."""
        known, constants = self.known, self.known.graph.constants
        if not a or not b:
            return a == b
        if a in constants:
            return b in constants and _equal(constants[a], constants[b], rounded=known.graph.rounded)
        if known.level(a) < 0:
            return a == b
        if known.level(a) < self.model:
            self.carried[a] = b
            return known.level(b) < self.step
        if known.level(b) not in (self.step, -1) or (a in known.step_of_place) != (b in known.step_of_place):
            return False  # -1: a product with the first state, where that is constant
        return a in known.step_of_place or _same_operator(known, a, b)


def _same_operator(known: _StepsOfValues, a: str, b: str) -> bool:
    first, second = known.makers.get(a), known.makers.get(b)
    if first is None or second is None or first.kind != second.kind or len(first.inputs) != len(second.inputs):
        return False
    if first.outputs.index(a) != second.outputs.index(b) or first.opset != second.opset:
        return False
    return not (first.refusal or second.refusal) and same_attributes(first, second)


def same_attributes(first: TrainedNode, second: TrainedNode) -> bool:
    """Whether two operators have the same attributes."""
    if set(first.attributes) != set(second.attributes):
        return False
    return all(_equal(value, second.attributes[name]) for name, value in first.attributes.items())


def _equal(a: Array | object, b: Array | object, *, rounded: bool = False) -> bool:
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return not isinstance(a, np.ndarray) and not isinstance(b, np.ndarray) and a == b
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if rounded and a.dtype.kind == "f" and a.size:
        return bool(np.abs(a - b).max() <= ROUNDING * np.abs(a).max())
    return np.array_equal(a, b)


def _states(known: _StepsOfValues, model: int) -> dict[str, str] | None:
    """The role, a name behind step `model`, of each value that this step reads of the one before; None where there are none."""
    now, earlier = known.handed_on(model), known.handed_on(model - 1)
    if not now or not earlier or max(len(now), len(earlier)) > MOST_STATES:
        return None
    reads: dict[str, set[str]] = {}
    role_of: dict[str, str] = {}
    for name in now:
        alike = [(other, match) for other in earlier if (match := _Match(known, model, model - 1))(name, other)]
        if len(alike) == 1:
            other, match = alike[0]
            reads[name] = set(match.carried)
            if other in role_of:
                return None
            role_of[other] = name
    kept = set(reads)
    while True:
        fitting = {role for role in kept if all(role_of.get(name) in kept for name in reads[role])}
        wanted = {role_of[name] for role in fitting if reads[role] for name in reads[role]}
        if fitting & wanted == kept:
            break
        kept = fitting & wanted
    before = {name: role for name, role in role_of.items() if role in kept}
    return before or None


def _matched(
    known: _StepsOfValues, model: int, step: int, names: Mapping[str, str], before: Mapping[str, str]
) -> dict[str, str] | None:
    """What the states are called before a step, of which `names` says what they are called behind it; None where it does something else
    than step `model`."""
    match = _Match(known, model, step)
    if not all(match(role, name) for role, name in names.items()):
        return None
    if set(match.carried) != set(before):
        return None
    return {before[name]: other for name, other in match.carried.items()}


def _last_step(
    known: _StepsOfValues, model: int, roles: list[str], states: Mapping[str, str], before: Mapping[str, str]
) -> dict[str, str] | None:
    """What the states are called behind the last step, which others need not read; None where it does something else."""
    found: dict[str, str] = {}
    for role in roles:
        kind = known.makers[role].kind
        for name, node in known.makers.items():
            if node.kind == kind and known.level(name) == model + 1 and role not in found:
                match = _Match(known, model, model + 1)
                if match(role, name) and all(states[before[a]] == b for a, b in match.carried.items()):
                    found[role] = name
    return found if len(found) == len(roles) else None
