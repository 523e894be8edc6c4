"""From a graph of sums to instructions: each node is computed at a transform of its own, its uses shift and scale from there.

Shifts of one node share their way: a value that must be there one and three cells to the east goes there once. The
macros of `scamp5` shift and add at once, so a node also chooses how much of its shift the addition itself does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kilotune.codegen.scamp.graph import SumGraph, Term, Transform
from kilotune.codegen.scamp.plan import Plan, PlanStep, without_dead_steps

ShiftPoint = tuple[int, int, int]
ShiftPointTree = Callable[[frozenset[ShiftPoint]], Mapping[ShiftPoint, ShiftPoint]]

TREES_KEPT = 4096
"""Sets of points whose trees are remembered at once."""

FUSED_SHIFTS = tuple((x, y) for x in range(-2, 3) for y in range(-2, 3) if abs(x) + abs(y) <= 2)
"""What an addition of `scamp5` can shift by: nothing, one cell, or two."""


_MOVES, _ADDITIONS, _DIFFERENCES = ("movx", "mov2x"), ("add", "addx", "add2x"), ("sub", "subx", "sub2x")


@dataclass(frozen=True)
class Placing:
    """By node, the image first: the transform at which it is computed (`stored`), and the shift that its addition does."""

    stored: tuple[Transform, ...]
    fused: tuple[tuple[int, int], ...]

    @classmethod
    def plain(cls, graph: SumGraph) -> Placing:
        """Every node as the graph has it."""
        count = len(graph.nodes) + 1
        return cls((Transform(),) * count, ((0, 0),) * count)


def needs(graph: SumGraph, placing: Placing) -> tuple[list[list[Transform]], list[Transform | None]]:
    """What remains to be done to the stored sources: by node and term, and by result (None: zero)."""
    undone = [transform.inverse() for transform in placing.stored]
    terms = [
        [term.transform.then(stored).then(undone[term.source]) for term in node]
        for node, stored in zip(graph.nodes, placing.stored[1:], strict=True)
    ]
    return terms, [None if r is None else r.transform.then(undone[r.source]) for r in graph.results]


def select(graph: SumGraph, placing: Placing, target: str, tree_of: ShiftPointTree | None = None) -> Plan:
    """The instructions of a target. Their sums may need a greater depth than the graph's where halvings moved early.

    `tree_of`: `tree`, or one that remembers its results, for whoever selects for many placings that are nearly alike.
    """
    return _Selection(graph, placing, target, tree_of or tree).plan()


@dataclass
class _SourcePoints:
    """The points at which a stored node is there or is wanted; `parents` say from where each is one step away."""

    values: dict[ShiftPoint, int]
    parents: Mapping[ShiftPoint, ShiftPoint]


class _Selection:
    def __init__(self, graph: SumGraph, placing: Placing, target: str, tree_of: ShiftPointTree) -> None:
        self._graph, self._placing, self._target = graph, placing, target
        self._steps: list[PlanStep] = []
        self._terms, self._results = needs(graph, placing)
        self._operands = [self._split(number) for number in range(len(graph.nodes))]
        wanted: list[set[ShiftPoint]] = [set() for _ in placing.stored]
        for node, needed in zip(graph.nodes, self._operands, strict=True):
            for term, transform in zip(node, needed, strict=True):
                wanted[term.source].add(transform.point)
        for result, rest in zip(graph.results, self._results, strict=True):
            if result is not None and rest is not None:
                wanted[result.source].add(rest.point)
        self._sources = [_SourcePoints({}, tree_of(frozenset(points))) for points in wanted]

    def plan(self) -> Plan:
        self._sources[0].values[0, 0, 0] = 0
        for number in range(1, len(self._placing.stored)):
            self._sources[number].values[0, 0, 0] = self._add(number)
        results = tuple(
            self._result(result, transform)
            for result, transform in zip(self._graph.results, self._results, strict=True)
        )
        plan = Plan(self._target, self._graph.depth, tuple(self._steps), results)
        return fused(plan) if self._target == "scamp5" else plan

    def _split(self, number: int) -> list[Transform]:
        """The needs of a node's terms without the part that its own addition does."""
        x, y = self._placing.fused[number + 1]
        terms = self._terms[number]
        if not (x or y) or len(terms) != 2:
            return terms
        back = Transform(-x, -y)
        mixed = terms[0].sign != terms[1].sign
        return [term if mixed and term.sign < 0 else term.then(back) for term in terms]

    def _write(self, op: str, *operands: int, directions: tuple[str, ...] = ()) -> int:
        self._steps.append(PlanStep(op, operands, directions))
        return len(self._steps)

    def _value(self, term: Term, transform: Transform) -> int:
        """The number of a source's value at a point, written now if it is not there."""
        source = self._sources[term.source]
        way = [transform.point]
        while way[-1] not in source.values:
            way.append(source.parents[way[-1]])
        for before, point in itertools.pairwise(reversed(way)):
            source.values[point] = self._unit_step(source.values[before], before, point)
        return source.values[transform.point]

    def _unit_step(self, value: int, before: ShiftPoint, point: ShiftPoint) -> int:
        auke = self._target == "auke"
        if point[2] > before[2]:
            return self._write("div2" if auke else "divq", value)
        if point[2] < before[2]:
            return self._write("add", value, value if auke else self._write("mov", value))
        name = _direction(point[0] - before[0], point[1] - before[1])
        return self._write(name, value) if auke else self._write("movx", value, directions=(name,))

    def _add(self, number: int) -> int:
        pairs = list(zip(self._graph.nodes[number - 1], self._operands[number - 1], strict=True))
        values = [(self._value(term, transform), transform.sign) for term, transform in pairs]
        positive = [value for value, sign in values if sign > 0]
        negative = [value for value, sign in values if sign < 0]
        if self._target == "auke":
            return self._add_auke(positive, negative)
        return self._add_scamp5(positive, negative, self._placing.fused[number])

    def _add_auke(self, positive: list[int], negative: list[int]) -> int:
        value = positive.pop(0) if positive else self._write("addneg", negative.pop(0), negative.pop(0))
        for other in positive:
            value = self._write("add", value, other)
        for other in negative:
            value = self._write("sub", value, other)
        return value

    def _add_scamp5(self, positive: list[int], negative: list[int], shift: tuple[int, int]) -> int:
        if len(positive) + len(negative) == 2:
            ways = _directions(*shift)
            suffix = ("", "x", "2x")[len(ways)]
            if len(positive) == 1:
                return self._write("sub" + suffix, positive[0], negative[0], directions=ways)
            value = self._write("add" + suffix, *(positive or negative), directions=ways)
            return value if positive else self._write("neg", value)
        value = self._add_all(positive or negative)
        for other in negative if positive else []:
            value = self._write("sub", value, other)
        return value if positive else self._write("neg", value)

    def _add_all(self, values: list[int]) -> int:
        value, rest = values[0], values[1:]
        while rest:
            value, rest = self._write("add", value, *rest[:2]), rest[2:]
        return value

    def _result(self, result: Term | None, transform: Transform | None) -> int:
        if result is None or transform is None:
            return self._write("zero" if self._target == "auke" else "res")
        value = self._value(result, transform)
        return value if transform.sign > 0 else self._write("neg", value)


class RememberedTrees:
    """`tree`, which computes each set of points once. It belongs to whoever asks for many plans that are nearly alike; a copy
    that is sent to another process has computed nothing yet."""

    def __init__(self) -> None:
        self._known: dict[frozenset[ShiftPoint], Mapping[ShiftPoint, ShiftPoint]] = {}

    def __call__(self, points: frozenset[ShiftPoint]) -> Mapping[ShiftPoint, ShiftPoint]:
        found = self._known.get(points)
        if found is None:
            if len(self._known) >= TREES_KEPT:
                self._known.clear()
            found = self._known[points] = tree(points)
        return found

    def __reduce__(self) -> tuple[type[RememberedTrees], tuple[()]]:
        return RememberedTrees, ()


def tree(points: frozenset[ShiftPoint]) -> Mapping[ShiftPoint, ShiftPoint]:
    """Unit steps from the origin to all points, shared where that is easy: each point's parent.

    Nearest points first, each from the nearest one reached so far; of the orders of the three dimensions along the way the
    one with the fewest steps in all.
    """
    wanted = sorted(points - {(0, 0, 0)}, key=lambda p: (sum(map(abs, p)), p))
    if len(wanted) == 0:
        return {}
    if len(wanted) == 1:
        return _grown(wanted, (2, 0, 1))
    return min((_grown(wanted, order) for order in itertools.permutations(range(3))), key=len)


def _grown(wanted: Sequence[ShiftPoint], order: Sequence[int]) -> dict[ShiftPoint, ShiftPoint]:
    parents: dict[ShiftPoint, ShiftPoint] = {}
    for point in wanted:
        if point in parents:
            continue
        reached = ((0, 0, 0), *parents)
        here = min(reached, key=lambda p: sum(abs(a - b) for a, b in zip(p, point, strict=True)))
        for axis in order:
            while here[axis] != point[axis]:
                step = 1 if point[axis] > here[axis] else -1
                there = tuple(v + step if i == axis else v for i, v in enumerate(here))
                following: ShiftPoint = (there[0], there[1], there[2])
                if following not in parents and following != (0, 0, 0):
                    parents[following] = here
                here = following
    return parents


def fused(plan: Plan) -> Plan:
    """Pairs of `scamp5` instructions that one macro does, as `_fusion` says; the inner value must not be used else."""
    steps = list(plan.steps)
    uses = [0] * (len(steps) + 1)
    for number in itertools.chain(plan.results, *(step.operands for step in steps)):
        uses[number] += 1
    for number in range(1, len(steps) + 1):
        for place, operand in enumerate(steps[number - 1].operands):
            inner = steps[operand - 1] if operand and uses[operand] == 1 else None
            both = None if inner is None else _fusion(inner, steps[number - 1], place)
            if both is not None:
                uses[operand] = 0
                steps[number - 1] = both
                break
    return without_dead_steps(Plan(plan.target, plan.depth, tuple(steps), plan.results))


def _fusion(inner: PlanStep, outer: PlanStep, place: int) -> PlanStep | None:
    """One instruction for both, where `inner` is the operand of `outer` at that place; None where there is none.

    A shift of a shift or of an addition, an addition of an addition, and a difference whose first operand is shifted; two cells at most.
    """
    ways = inner.directions + outer.directions
    if inner.op == "add" and outer.op == "add":
        other = outer.operands[1 - place] if len(outer.operands) == 2 else None
        if other is not None and len(inner.operands) == 2 and other not in inner.operands:
            return PlanStep("add", (*inner.operands, other))
        return None
    if len(ways) > 2 or len(inner.operands) > 2:
        return None
    suffix = ("", "x", "2x")[len(ways)]
    if outer.op in _MOVES and inner.op in (*_MOVES, *_ADDITIONS):
        return PlanStep(("mov" if inner.op in _MOVES else "add") + suffix, inner.operands, ways)
    if outer.op in _DIFFERENCES and place == 0 and inner.op in _MOVES:
        return PlanStep("sub" + suffix, (inner.operands[0], outer.operands[1]), ways)
    return None


def _directions(x: int, y: int) -> tuple[str, ...]:
    return ("east" if x > 0 else "west",) * abs(x) + ("north" if y > 0 else "south",) * abs(y)


def _direction(x: int, y: int) -> str:
    return _directions(x, y)[0]
