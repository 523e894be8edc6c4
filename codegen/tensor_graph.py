"""What memory planners need to know of a network, wherever it comes from: tensors with their sizes, and which operators read and write
them in which order.

Constants (weights) are no tensors of such a graph: they are not in the memory that is planned. An operator holds all that it reads and
writes while it runs; nothing is computed in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class GraphTensor:
    """`name` is unique in its graph. `number`: its place in the file's own list of tensors."""

    name: str
    size_bytes: int
    number: int


@dataclass(frozen=True)
class GraphOperator:
    """`name` is unique in its graph; `reads` and `writes` are names of tensors, each once."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class TensorGraph:
    """Operators in the file's order of execution. `inputs` are written before the first one, `outputs` are read after the last one."""

    name: str
    tensors: tuple[GraphTensor, ...]
    operators: tuple[GraphOperator, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def __post_init__(self) -> None:
        """ValueError "expected X, found Y": the operators cannot be executed in this order."""
        written = set(self.inputs)
        known = {tensor.name for tensor in self.tensors}
        for operator in self.operators:
            for name in operator.reads:
                if name not in written:
                    raise ValueError(
                        f"expected {name!r} to be written before {operator.name} reads it, found no writer"
                    )
            for name in operator.writes:
                if name in written:
                    raise ValueError(f"expected one writer of {name!r}, found {operator.name} beside another one")
                written.add(name)
        for name in (*self.inputs, *self.outputs, *written):
            if name not in written or name not in known:
                raise ValueError(f"expected {name!r} to be a tensor that something writes, found none")

    @cached_property
    def file_order(self) -> tuple[int, ...]:
        """Indices of the operators as the file has them."""
        return tuple(range(len(self.operators)))

    def lifetimes(self, order: Sequence[int]) -> dict[str, tuple[int, int]]:
        """From when to before when each tensor that is ever written holds a value, by name.

        The k-th operator to run is `order[k]`, at program point k. Outputs live to the end, which is 1 where there are no operators.
        ValueError, a sentence, for an order in which something is read before it is written, or that does not have every operator once.
        """
        if sorted(order) != list(range(len(self.operators))):
            raise ValueError(f"An order of the {len(self.operators)} operators of {self.name} has each of them once.")
        end = max(len(order), 1)
        lives = dict.fromkeys(self.inputs, (0, 1))
        for point, number in enumerate(order):
            operator = self.operators[number]
            for name in operator.reads:
                if name not in lives:
                    raise ValueError(f"{operator.name} reads {name} before it is written.")
                lives[name] = (lives[name][0], point + 1)
            lives.update(dict.fromkeys(operator.writes, (point, point + 1)))
        lives.update({name: (lives[name][0], end) for name in self.outputs})
        return lives
