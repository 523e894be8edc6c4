"""What a candidate of order and placement means, and what it measures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from kilotune.codegen.counts import counted
from kilotune.codegen.tensor_graph import TensorGraph
from kilotune.search.space import Assignment, Constraint, Measurement, Objective, Option
from kilotune.spaces.memory.bounds import LiveSum
from kilotune.spaces.memory.candidates import MemoryLayout
from kilotune.spaces.memory.checker import PlacementError
from kilotune.spaces.memory.instance import Instance
from kilotune.spaces.memory.live_sums import LiveSums
from kilotune.spaces.memory.order_checker import check_execution
from kilotune.spaces.memory.order_search import ExecutionOrder
from kilotune.spaces.memory.space import MemorySpace
from kilotune.spaces.memory.tensor_buffers import buffers_in_order

OPERATOR = "operator "
"""How the decisions of the order begin, before the step from 1."""


def operator_decision(step: int) -> str:
    """The name of the decision which operator runs at that step, from 0."""
    return f"{OPERATOR}{step + 1}"


class OrderedCandidates:
    """Orders and addresses of a graph's tensors, these at multiples of `alignment_bytes`. Least peak in bytes; with a capacity, whether
    there is one within it."""

    def __init__(self, graph: TensorGraph, alignment_bytes: int = 1, capacity_bytes: int | None = None) -> None:
        self.graph, self.alignment_bytes, self.capacity_bytes = graph, alignment_bytes, capacity_bytes
        self.in_file_order = self.placements_of(graph.file_order)
        self.sums = LiveSums(graph, alignment_bytes)

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """Those of a placement."""
        return self.in_file_order.objectives

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """Those of a placement."""
        return self.in_file_order.constraints

    @property
    def instance(self) -> Instance:
        """The buffers as they live in the file's order."""
        return self.in_file_order.instance

    @cached_property
    def largest_sum(self) -> LiveSum:
        """What no order beats, known without a search: the operator that holds most by itself; `point` is its place in the file."""
        if not self.sums.count:
            return self.in_file_order.largest_sum
        most = max(range(self.sums.count), key=self.sums.alone)
        operator = self.graph.operators[most]
        held = {*operator.reads, *operator.writes}
        return LiveSum(self.sums.alone(most), most, tuple(b for b in self.instance.buffers if b.id in held and b.size))

    def sentence(self) -> str:
        """What no order beats, without its full stop."""
        if not self.sums.count:
            return self.largest_sum.sentence()
        named = self.graph.operators[self.largest_sum.point].name
        held = len(self.largest_sum.buffers)
        return f"in any order {named} alone holds {counted(self.largest_sum.peak_bytes, 'byte')} in {counted(held, 'tensor')}"

    def placements_of(self, order: Sequence[int]) -> MemorySpace:
        """Where tensors may lie, in that order of execution. ValueError, a sentence, for an order that cannot be executed."""
        return MemorySpace(buffers_in_order(self.graph, order, self.alignment_bytes), self.capacity_bytes)

    def order_of(self, assignment: Assignment) -> ExecutionOrder:
        """The places in the file of the operators, in the order in which they run. ValueError, a sentence, for names of no operator."""
        place = {operator.name: k for k, operator in enumerate(self.graph.operators)}
        names = [str(assignment.get(operator_decision(k))) for k in range(self.sums.count)]
        unknown = next((name for name in names if name not in place), None)
        if unknown is not None:
            raise ValueError(f"{self.graph.name} has no operator {unknown}.")
        return tuple(place[name] for name in names)

    def layout(self, assignment: Assignment) -> MemoryLayout:
        """The residences of a candidate; see `MemorySpace.layout`."""
        return self.placements_of(self.order_of(assignment)).layout(placement_in(assignment))

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """Metrics of a placement, and `order_bytes`: what the candidate's order takes at least. Both checkers have passed it."""
        return [self._measure(assignment) for assignment in batch]

    def _measure(self, assignment: Assignment) -> Measurement:
        try:
            order = self.order_of(assignment)
            space = self.placements_of(order)
        except ValueError as error:
            return Measurement(failure=str(error))
        (found,) = space.evaluate([placement_in(assignment)])
        if found.failure is not None or found.metrics["bytes_migrated"]:
            return found
        residences = space.layout(placement_in(assignment)).residences
        names = [self.graph.operators[k].name for k in order]
        try:
            check_execution(self.graph, names, {r.id: r.offset for r in residences}, self.alignment_bytes)
        except PlacementError as error:
            return Measurement(failure=str(error))
        return Measurement({**found.metrics, "order_bytes": float(space.least_peak_bytes)})

    def candidate(self, order: ExecutionOrder, placement: Assignment) -> Assignment:
        """An order and a candidate of the placements in it."""
        steps = {operator_decision(k): self.graph.operators[place].name for k, place in enumerate(order)}
        return {**steps, **placement}


def placement_in(assignment: Assignment) -> dict[str, Option]:
    """What a candidate says besides its order."""
    return {name: option for name, option in assignment.items() if not name.startswith(OPERATOR)}
