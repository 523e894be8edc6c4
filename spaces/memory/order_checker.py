"""Do the operators compute what they should, in this order and at these addresses? Every byte is followed through an execution.

Nothing here knows of lifetimes: each byte belongs to the tensor that was written to it last, and an operator whose input has lost a byte is
named. It is run on whatever a search of orders returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kilotune.codegen.tensor_graph import TensorGraph
from kilotune.spaces.memory.checker import PlacementError


def check_execution(
    graph: TensorGraph, order: Sequence[str], offsets: Mapping[str, int], alignment_bytes: int = 1
) -> int:
    """The peak in bytes. `order`: names of operators; `offsets` in bytes, by tensor.

    PlacementError: an operator that is missing, twice, or unknown; a tensor without an address, or at no multiple of the alignment; an
    operator whose inputs are not (or no longer) in memory, or share bytes with what it writes; an output that is gone at the end.
    """
    operators = {operator.name: operator for operator in graph.operators}
    if sorted(order) != sorted(operators):
        raise PlacementError(f"An execution of {graph.name} runs each of its {len(operators)} operators once.")
    memory = _Memory({tensor.name: tensor.size_bytes for tensor in graph.tensors}, offsets, alignment_bytes)
    for name in graph.inputs:
        memory.write(name, "the inputs", graph.inputs)
    unread = graph.inputs  # inputs are there when the first operator runs, whether it reads them or not
    for step in order:
        operator = operators[step]
        for name in operator.reads:
            memory.require(name, step)
        for name in operator.writes:
            memory.write(name, step, (*operator.reads, *operator.writes, *unread))
        unread = ()
    for name in graph.outputs:
        memory.require(name, "the end")
    return memory.peak_bytes


class _Memory:
    """Stretches of bytes, and whose they are."""

    def __init__(self, sizes: Mapping[str, int], offsets: Mapping[str, int], alignment_bytes: int) -> None:
        self._sizes, self._offsets, self._alignment = sizes, offsets, alignment_bytes
        self._whole: set[str] = set()
        self.peak_bytes = 0

    def write(self, name: str, by: str, held: Sequence[str]) -> None:
        """Put the tensor in its place. `held`: tensors that may not lose a byte by it."""
        start, end = self._place(name)
        for other in [other for other in self._whole if other != name]:
            first, last = self._place(other)
            if max(first, start) < min(last, end):
                if other in held:
                    raise PlacementError(
                        f"{by} writes {name} over {other}, bytes {max(first, start)} to {min(last, end) - 1}."
                    )
                self._whole.remove(other)
        self._whole.add(name)
        self.peak_bytes = max(self.peak_bytes, end)

    def require(self, name: str, reader: str) -> None:
        """PlacementError: the tensor has not been written, or something has been written over it."""
        if name not in self._whole:
            raise PlacementError(f"{name} is not in memory when {reader} needs it.")

    def _place(self, name: str) -> tuple[int, int]:
        offset = self._offsets.get(name)
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0 or offset % self._alignment:
            raise PlacementError(f"{name} lies at {offset!r}, which is no multiple of {self._alignment}.")
        return offset, offset + self._sizes[name]
