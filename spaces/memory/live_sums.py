"""What an order of execution needs at least: the largest sum of what is alive together, step by step.

An order is a path through the sets of operators that have run (downsets of the graph): what is alive after a set does not depend on the
order within it. Sets of operators and of tensors are integers with a bit each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kilotune.codegen.tensor_graph import TensorGraph


@dataclass(frozen=True, slots=True)
class ExecutionPoint:
    """Where an execution stands: the operators that have run and those that can run next, the tensors that are alive, and their sizes
    rounded up to the alignment."""

    done: int
    ready: int
    alive: int
    alive_bytes: int


class LiveSums:
    """The steps of a graph's executions. All addresses are multiples of `alignment_bytes`: each tensor takes whole units of it, but for the
    one that may lie on top of the others, so a step costs the rounded sizes less the largest rounding among them."""

    def __init__(self, graph: TensorGraph, alignment_bytes: int = 1) -> None:
        place = {tensor.name: k for k, tensor in enumerate(graph.tensors)}
        sizes = [tensor.size_bytes for tensor in graph.tensors]
        self.count = len(graph.operators)
        self._rounded = [-(-size // alignment_bytes) * alignment_bytes for size in sizes]
        roundings = [rounded - size for rounded, size in zip(self._rounded, sizes, strict=True)]
        self._roundings = [
            (rounding, _bits(k for k, own in enumerate(roundings) if own == rounding and sizes[k]))
            for rounding in sorted(set(roundings), reverse=True)
        ]
        self.reads = [_bits(place[name] for name in operator.reads) for operator in graph.operators]
        self.writes = [_bits(place[name] for name in operator.writes) for operator in graph.operators]
        self._readers = [_bits(k for k, reads in enumerate(self.reads) if reads >> t & 1) for t in range(len(sizes))]
        self._outputs = _bits(place[name] for name in graph.outputs)
        self._inputs = _bits(place[name] for name in graph.inputs)
        writer = {t: k for k, writes in enumerate(self.writes) for t in ones(writes)}
        self._before = [_bits(writer[t] for t in ones(reads) if t in writer) for reads in self.reads]
        self._after = [0] * self.count
        for operator, before in enumerate(self._before):
            for writing in ones(before):
                self._after[writing] |= 1 << operator
        kept = [t for t in ones(self._inputs & ~self._outputs) if not self._readers[t]]
        self._unread = _bits(iter(kept))

    def start(self) -> ExecutionPoint:
        """Nothing has run, and the inputs are there."""
        ready = _bits(k for k, before in enumerate(self._before) if not before)
        return ExecutionPoint(0, ready, self._inputs, self._bytes(self._inputs))

    def step(self, at: ExecutionPoint, operator: int) -> tuple[int, ExecutionPoint]:
        """What running it costs, in bytes, and where the execution stands then."""
        writes = self.writes[operator] & ~at.alive
        during, held = at.alive | writes, at.alive_bytes + self._bytes(writes)
        done = at.done | 1 << operator
        candidates = self.reads[operator] | writes
        if not at.done:
            candidates |= self._unread  # is there for the first step
        dead = _bits(t for t in ones(candidates & ~self._outputs) if not self._readers[t] & ~done)
        ready = at.ready & ~(1 << operator) | _bits(
            k for k in ones(self._after[operator]) if not self._before[k] & ~done
        )
        return held - self.rounding(during), ExecutionPoint(done, ready, during & ~dead, held - self._bytes(dead))

    def costs_nothing(self, at: ExecutionPoint, after: ExecutionPoint) -> bool:
        """Whether running the operators between the two first is never worse than running them later.

        What is freed takes as much as what stays, now and, since more of their inputs may have been read by then, at any later time. What
        nobody reads is freed by whichever operator runs first, and one that writes anything costs more than the inputs by themselves.
        """
        if after.alive_bytes != at.alive_bytes:
            return after.alive_bytes < at.alive_bytes
        return self.rounding(at.alive & ~after.alive) <= self.rounding(after.alive & ~at.alive)

    def cost(self, order: tuple[int, ...]) -> int:
        """The largest cost of a step; that of the inputs where there are no operators."""
        at = self.start()
        most = at.alive_bytes - self.rounding(at.alive)
        for operator in order:
            cost, at = self.step(at, operator)
            most = max(most, cost)
        return most

    def alone(self, operator: int) -> int:
        """What the operator costs in every order: what it reads and writes."""
        held = self.reads[operator] | self.writes[operator]
        return self._bytes(held) - self.rounding(held)

    def rounding(self, tensors: int) -> int:
        """The largest rounding among them, in bytes."""
        return next((rounding for rounding, members in self._roundings if tensors & members), 0)

    def _bytes(self, tensors: int) -> int:
        return sum(self._rounded[t] for t in ones(tensors))


def ones(bits: int) -> Iterator[int]:
    """The places of the bits that are set, lowest first."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _bits(places: Iterator[int]) -> int:
    found = 0
    for place in places:
        found |= 1 << place
    return found
