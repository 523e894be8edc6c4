"""Is the first step of an unrolled layer one of the others, of a state that is zero? Exporters simplify it: what hangs on zeros alone is
computed beforehand, and what is added as zero is gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from kilotune.codegen.arrays import Array
from kilotune.codegen.trained.constant_nodes import constant_results
from kilotune.codegen.trained.model import TrainedGraph, TrainedNode
from kilotune.codegen.trained.unrolled_steps import ROUNDING, UnrolledSteps, same_attributes

TOLERANCE = 1e-5
"""How far, of the largest, a constant may be from what a converter computed in 32-bit floats."""

PLACE = "a place of the sequence"


@dataclass(frozen=True, eq=False)
class Computed:
    """A value as it is computed: an operator's output of that number, or, where `node` is None, the value of that name."""

    node: TrainedNode | None
    number: int = 0
    operands: tuple[Term, ...] = ()
    name: str = ""


Term = Array | Computed
"""A constant, or what is computed."""


@dataclass(eq=False)
class _Terms:
    """Simplified terms of values, by name; `given` are those that are known."""

    graph: TrainedGraph
    makers: Mapping[str, TrainedNode]
    given: Mapping[str, Term]
    known: dict[str, Term] = field(default_factory=dict)

    def of(self, name: str) -> Term:
        """The term of a value."""
        if name not in self.known:
            self.known[name] = self._made(name)
        return self.known[name]

    def _made(self, name: str) -> Term:
        if name in self.given:
            return self.given[name]
        if name in self.graph.constants:
            return self.graph.constants[name]
        node = self.makers.get(name)
        if node is None:
            return Computed(None, name=name)
        return simplified(node, node.outputs.index(name), tuple(self.of(read) for read in node.inputs if read))


def simplified(node: TrainedNode, number: int, operands: tuple[Term, ...]) -> Term:
    """An operator's output, computed where its operands are constants, without sums with zeros and products with them."""
    constants = [one for one in operands if isinstance(one, np.ndarray)]
    if len(constants) == len(operands):
        results = constant_results(node, constants)
        return Computed(node, number, operands) if results is None else results[number]
    zeros = [one for one in constants if not np.any(one)]
    if node.kind == "Identity":
        return operands[0]
    if node.kind == "Mul" and zeros:
        return zeros[0]
    if zeros and (node.kind == "Add" or (node.kind == "Sub" and operands[1] is zeros[0])):
        return next(one for one in operands if one is not zeros[0])
    if node.kind == "Gemm" and len(operands) == 3 and node.number("beta", 1.0) == 1:
        product = replace(node, attributes={k: v for k, v in node.attributes.items() if k != "beta"})
        plus = node.in_its_place("Add")
        return simplified(plus, 0, (Computed(product, 0, operands[:2]), operands[2]))
    return Computed(node, number, operands)


def begins_with_zeros(graph: TrainedGraph, steps: UnrolledSteps, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether the step before the first one of `steps` computes what the others do of states of zeros, of `shapes` by their role."""
    makers = {name: node for node in graph.nodes for name in node.outputs if name}
    names = steps.places.names[::-1] if steps.backward else steps.places.names
    place = Computed(None, name=PLACE)
    states = {name: np.zeros(shapes[role]) for name, role in steps.before.items()}
    others = _Terms(graph, makers, {names[steps.model]: place, **states})
    first = _Terms(graph, makers, {names[0]: place})
    tolerance = ROUNDING if graph.rounded else TOLERANCE
    return all(_alike(first.of(known[0]), others.of(role), tolerance) for role, known in steps.states.items())


def _alike(a: Term, b: Term, tolerance: float) -> bool:
    """Whether two terms are the same, but for what constants were rounded by."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and _near(a, b, tolerance)
    if a.node is None or b.node is None:
        return a.node is b.node and a.name == b.name
    if a.node.kind != b.node.kind or a.number != b.number or len(a.operands) != len(b.operands):
        return False
    if not same_attributes(a.node, b.node):
        return False
    in_order = all(_alike(x, y, tolerance) for x, y in zip(a.operands, b.operands, strict=True))
    swapped = a.node.kind in ("Add", "Mul") and len(a.operands) == 2
    return in_order or (
        swapped and all(_alike(x, y, tolerance) for x, y in zip(a.operands, b.operands[::-1], strict=True))
    )


def _near(a: Array, b: Array, tolerance: float) -> bool:
    if a.size != b.size or a.dtype.kind not in "fiub" or b.dtype.kind not in "fiub":
        return False
    flat = np.asarray(a, dtype=np.float64).reshape(-1), np.asarray(b, dtype=np.float64).reshape(-1)
    return not a.size or bool(np.abs(flat[0] - flat[1]).max() <= tolerance * np.abs(flat[0]).max())
