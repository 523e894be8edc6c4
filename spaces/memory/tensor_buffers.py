"""From a network's tensors to a placement problem: an order of its operators says when each tensor lives."""

from __future__ import annotations

from collections.abc import Sequence

from kilotune.codegen.tensor_graph import TensorGraph
from kilotune.spaces.memory.instance import Buffer, Instance


def buffers_in_order(graph: TensorGraph, order: Sequence[int], alignment_bytes: int = 1) -> Instance:
    """A buffer a tensor that holds a value at some time, in the order of the file, where the k-th operator to run is `order[k]`.
    ValueError, a sentence, for an order in which the operators cannot run."""
    lives = graph.lifetimes(order)
    return Instance(
        graph.name,
        tuple(
            Buffer(tensor.name, *lives[tensor.name], tensor.size_bytes, alignment_bytes)
            for tensor in graph.tensors
            if tensor.name in lives
        ),
    )
