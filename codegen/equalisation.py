"""Cross-layer equalisation: channels between two layers are scaled so that the weights before and behind them span alike.

What a layer multiplies by s, the next one may divide by s where only functions lie between that scale along: sums, the largest of a window,
max(a, 0). The float program computes the same; with one scale for a whole matrix, or image, the channels of small weights or small values
lose less (Nagel et al. 2019, "Data-free quantization through weight equalization and bias correction", Section 4.1).

Each element of a temporary has a factor, and so has what goes into a weight and what comes out of it. Operations say which of these are
equal, and which are one: `factor_classes` finds the classes of equal ones. Every other class that weights lead to and from is free to be
chosen.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.looped_steps import loop_steps
from kilotune.codegen.straight_line import NOWHERE, OperationInstance, Source

Nodes = npt.NDArray[np.int64]
Equation = tuple[Nodes, Nodes]
"""Nodes whose factors are equal, pair by pair."""

ONE = 0
"""The node whose factor is one: inputs, results, and what goes through a function that does not scale along."""

MOST_EQUATIONS = 50_000_000
"""More take too long to be solved."""

SOLVED_TOGETHER = 1 << 22

SWEEPS = 200
STEP = 0.5
"""How far towards the balance of its own class a factor goes in a sweep, since its neighbours go towards theirs at the same time."""


@dataclass(frozen=True)
class Equalised:
    """Parameters by name, and how many channels have been scaled."""

    parameters: Mapping[str, FloatArray]
    channels: int


def equalised(program: ir.Program, parameters: Mapping[str, FloatArray]) -> Equalised:
    """Parameters with which `program` computes the same, and whose layers are balanced. ValueError, a sentence, for a program that is
    too large, or quantised."""
    ir.check_formats_open(program)
    classes = factor_classes(program)
    logs = classes.balanced(parameters)
    return Equalised(classes.scaled(parameters, logs), int(np.count_nonzero(logs)))


@dataclass(frozen=True)
class FactorClasses:
    """Which factors of a program are equal. Each class has a number below `count`, and that of `fixed` is one.

    `into`, `out_of` [elements of all parameters, one after the other]: the classes that lead into each weight and out of it; it is
    multiplied by the factor of the latter over that of the former. `multiplied`: which weights are factors of products, not added.
    """

    sizes: Mapping[str, int]
    into: Nodes
    out_of: Nodes
    multiplied: npt.NDArray[np.bool_]
    fixed: int
    count: int

    def balanced(self, parameters: Mapping[str, FloatArray]) -> FloatArray:
        """Logarithms of the factors that make the largest weight which leads to a class, and the largest one behind it, equal; 0 for those
        that cannot be chosen."""
        values = np.concatenate([np.abs(np.ravel(parameters[name])) for name in self.sizes] or [np.zeros(0)])
        weights = (values > 0) & self.multiplied
        return _balanced(np.log(values[weights]), self.into[weights], self.out_of[weights], self.fixed, self.count)

    def scaled(self, parameters: Mapping[str, FloatArray], logs: FloatArray) -> Mapping[str, FloatArray]:
        """Parameters under factors whose logarithms are `logs` [count]; that of `fixed` must be 0."""
        factors = np.exp(logs[self.out_of] - logs[self.into])
        ends = itertools.accumulate(self.sizes.values())
        parts = {name: factors[end - size : end] for (name, size), end in zip(self.sizes.items(), ends, strict=True)}
        return {
            name: np.asarray(parameters[name]) * part.reshape(np.shape(parameters[name]))
            for name, part in parts.items()
        }


def factor_classes(program: ir.Program) -> FactorClasses:
    """What the operations of a program say of the factors of its values and weights. ValueError, a sentence, for a program that is too
    large."""
    nodes = _factor_nodes(program)
    classes = _classes(program, nodes)
    into, out_of = classes[nodes.first_into : nodes.first_out_of], classes[nodes.first_out_of :]
    count = int(classes.max(initial=0)) + 1
    return FactorClasses(
        nodes.parameters, into, out_of, _weights_that_multiply(program, nodes), int(classes[ONE]), count
    )


def _balanced(sizes: FloatArray, into: Nodes, out_of: Nodes, fixed: int, count: int) -> FloatArray:
    """Logarithms of the factors of `count` classes, 0 for those that cannot be chosen: the largest weight that leads to a class, and the
    largest one behind it, come to be equal. `sizes`: logarithms of weights, with the classes that lead into and out of each."""
    logs = np.zeros(count)
    free = np.zeros(count, dtype=bool)
    free[np.intersect1d(into, out_of)] = True
    free[fixed] = False
    for _ in range(SWEEPS if free.any() else 0):
        now = sizes + logs[out_of] - logs[into]
        before, behind = np.full(count, -np.inf), np.full(count, -np.inf)
        np.maximum.at(before, out_of, now)
        np.maximum.at(behind, into, now)
        logs[free] += STEP * 0.5 * (behind[free] - before[free])
    return logs


@dataclass(frozen=True)
class _FactorNodes:
    """Numbers of the nodes: `ONE`, elements of variables that are no parameters, what goes into each weight, and what comes out of it.

    `starts`: the first number of each variable that is no parameter. `weights`: the place of each parameter's first weight among all.
    """

    starts: Mapping[str, int]
    parameters: Mapping[str, int]
    weights: Mapping[str, int]
    first_into: int
    first_out_of: int
    count: int

    def is_weight(self, source: Source) -> bool:
        """Whether a source is a parameter."""
        return source.variable in self.parameters

    def weights_read(self, source: Source) -> Nodes:
        """Places, among all weights, of those that a source reads."""
        elements = source.elements.astype(np.int64).reshape(-1)
        return np.asarray(elements[elements != NOWHERE] + self.weights[source.variable or ""])

    def into(self, source: Source, elements: Nodes) -> Nodes:
        """What goes into weights."""
        return elements + (self.first_into + self.weights[source.variable or ""])

    def out_of(self, source: Source, elements: Nodes) -> Nodes:
        """What comes out of weights."""
        return elements + (self.first_out_of + self.weights[source.variable or ""])

    def elements(self, variable: str | None, elements: Nodes) -> Nodes:
        """Elements of a variable that is no parameter."""
        return elements + self.starts[variable or ""]


def _factor_nodes(program: ir.Program) -> _FactorNodes:
    parameters = {v.name: v.size for v in program.variables if v.role is ir.Role.PARAMETER}
    others = {v.name: v.size for v in program.variables if v.role is not ir.Role.PARAMETER}
    first_into = 1 + sum(others.values())
    first_out_of = first_into + sum(parameters.values())
    return _FactorNodes(
        starts=_placed(others, 1),
        parameters=parameters,
        weights=_placed(parameters, 0),
        first_into=first_into,
        first_out_of=first_out_of,
        count=first_out_of + sum(parameters.values()),
    )


def _placed(sizes: Mapping[str, int], first: int) -> dict[str, int]:
    """Where each of several, one after the other, begins."""
    return dict(zip(sizes, itertools.accumulate(sizes.values(), initial=first), strict=False))


def _scaling(nodes: _FactorNodes, step: OperationInstance) -> Source | None:
    """The weights of a product through which factors pass: those of the one operand that is weights, if the other one is computed."""
    operation = step.operation
    if not (operation.order is ir.Order.PRODUCTS or isinstance(operation, ir.Multiply)):
        return None
    known = [source for source in step.sources if source.variable is None or nodes.is_weight(source)]
    return known[0] if len(known) == 1 and known[0].variable is not None else None


def _weights_that_multiply(program: ir.Program, nodes: _FactorNodes) -> npt.NDArray[np.bool_]:
    """Which weights are factors of products, rather than added."""
    multiplied = np.zeros(sum(nodes.parameters.values()), dtype=bool)
    for step in loop_steps(program):
        source = _scaling(nodes, step)
        if source is not None:
            multiplied[nodes.weights_read(source)] = True
    return multiplied


def _classes(program: ir.Program, nodes: _FactorNodes) -> Nodes:
    """A class for every node. ValueError."""
    labels, waiting, count = np.arange(nodes.count), list[Equation](), 0
    for equation in _equations(program, nodes):
        waiting.append(equation)
        count += len(equation[0])
        if count > MOST_EQUATIONS:
            raise ValueError(
                f"--equalise: expected a program of at most {MOST_EQUATIONS} reads and writes, found more in {program.name}."
            )
        if sum(len(one) for one, _ in waiting) > SOLVED_TOGETHER:
            labels, waiting = _merged(labels, waiting), []
    labels = _merged(labels, waiting)
    _, classes = np.unique(labels, return_inverse=True)
    return classes.reshape(-1)


def _merged(labels: Nodes, equations: list[Equation]) -> Nodes:
    """Labels, the least node of each class, after more equations: each round hooks classes below their neighbours and shortens chains."""
    if not equations:
        return labels
    one, other = (np.concatenate(side) for side in zip(*equations, strict=True))
    while True:
        a, b = labels[one], labels[other]
        apart = a != b
        if not apart.any():
            return labels
        one, other, a, b = one[apart], other[apart], a[apart], b[apart]
        labels = labels.copy()
        np.minimum.at(labels, np.maximum(a, b), np.minimum(a, b))
        while not np.array_equal(shorter := labels[labels], labels):
            labels = shorter


def _equations(program: ir.Program, nodes: _FactorNodes) -> Iterator[Equation]:
    """What the operations of a program say of factors."""
    given = [v for v in program.variables if v.role is ir.Role.INPUT]
    for variable in given:
        yield _all_one(nodes.elements(variable.name, np.arange(variable.size)))
    if program.result.variable in nodes.starts:
        size = program.variable(program.result.variable).size
        yield _all_one(nodes.elements(program.result.variable, np.arange(size)))
    for step in loop_steps(program):
        if step.operation.order is ir.Order.PRODUCTS:
            yield from _products(nodes, step)
        else:
            yield from _others(nodes, step)


def _all_one(nodes: Nodes) -> Equation:
    return nodes, np.full_like(nodes, ONE)


def _products(nodes: _FactorNodes, step: OperationInstance) -> Iterator[Equation]:
    """[P, Q] times [Q, R]: where one of them is weights, its columns go in and its rows come out; else nothing scales along."""
    left, right = step.sources
    a, b = (source.elements.astype(np.int64) for source in step.sources)
    out = nodes.elements(step.operation.out.variable, step.out.astype(np.int64))
    source = _scaling(nodes, step)
    if source is None:
        yield from _pinned(nodes, step)
        return
    if source is left:
        weights, read, other, written = a, b.T, right, out.T
    else:
        weights, read, other, written = b.T, a, left, out
    # weights [outputs, Q], read [groups, Q], written [groups, outputs]
    for column in range(weights.shape[1]):
        some = read[:, column][read[:, column] != NOWHERE]
        ways = weights[:, column][weights[:, column] != NOWHERE]
        if some.size and ways.size:
            joined = np.concatenate([nodes.elements(other.variable, some), nodes.into(source, ways)])
            yield joined[1:], np.broadcast_to(joined[:1], joined[1:].shape)
    for row in range(weights.shape[0]):
        ways = weights[row][weights[row] != NOWHERE]
        joined = np.concatenate([written[:, row], nodes.out_of(source, ways)])
        yield joined[1:], np.broadcast_to(joined[:1], joined[1:].shape)


def _others(nodes: _FactorNodes, step: OperationInstance) -> Iterator[Equation]:
    """Operations that go element by element, over windows or over rows."""
    operation = step.operation
    out = nodes.elements(operation.out.variable, step.out.astype(np.int64).reshape(-1))
    match operation:
        case ir.Add() | ir.Subtract():
            yield from _alike(nodes, step.sources, out)
        case ir.Select():
            yield from _alike(nodes, step.sources[1:], out)
        case ir.Fill(value=0.0):
            return
        case ir.Multiply() if len([s for s in step.sources if s.variable is None or nodes.is_weight(s)]) == 1:
            yield from _multiplied(nodes, step, out)
        case ir.MaxPool() if not nodes.is_weight(step.sources[0]):
            window = step.sources[0].elements.astype(np.int64)
            outside = window == NOWHERE
            read = np.where(outside, out[:, None], nodes.elements(step.sources[0].variable, window))
            yield read.reshape(-1), np.repeat(out, window.shape[1])
        case ir.Pointwise() if operation.scales_along:
            yield from _alike(nodes, step.sources, out)
        case _:
            yield from _pinned(nodes, step)


def _alike(nodes: _FactorNodes, sources: tuple[Source, ...], out: Nodes) -> Iterator[Equation]:
    """Every operand has the factor of the result; what is a parameter by what comes out of it, and a number only if it is zero."""
    for source in sources:
        elements = source.elements.astype(np.int64).reshape(-1)
        if source.variable is None:
            if source.literal != 0.0:
                yield _all_one(out)
        elif nodes.is_weight(source):
            yield _all_one(nodes.into(source, elements))
            yield nodes.out_of(source, elements), out
        else:
            yield nodes.elements(source.variable, elements), out


def _multiplied(nodes: _FactorNodes, step: OperationInstance, out: Nodes) -> Iterator[Equation]:
    """An element times a weight, or times a number."""
    for source in step.sources:
        elements = source.elements.astype(np.int64).reshape(-1)
        if nodes.is_weight(source):
            other = next(one for one in step.sources if one is not source)
            yield (
                nodes.into(source, elements),
                nodes.elements(other.variable, other.elements.astype(np.int64).reshape(-1)),
            )
            yield nodes.out_of(source, elements), out
            return
    read = next(source for source in step.sources if source.variable is not None)
    yield nodes.elements(read.variable, read.elements.astype(np.int64).reshape(-1)), out


def _pinned(nodes: _FactorNodes, step: OperationInstance) -> Iterator[Equation]:
    """All that an operation reads and writes has the factor one."""
    yield _all_one(nodes.elements(step.operation.out.variable, step.out.astype(np.int64).reshape(-1)))
    for source in step.sources:
        elements = source.elements.astype(np.int64).reshape(-1)
        elements = elements[elements != NOWHERE]
        if source.variable is None:
            continue
        if nodes.is_weight(source):
            yield _all_one(nodes.into(source, elements))
            yield _all_one(nodes.out_of(source, elements))
        else:
            yield _all_one(nodes.elements(source.variable, elements))
