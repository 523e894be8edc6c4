"""Layers of a program: the operations that a line of its source, or a node of an imported file, has become."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import PurePath

from kilotune.codegen import ir
from kilotune.codegen.diagnostics import sentence

ROUNDED = ", rounded"
"""What the place of an operation ends with that rounds the result of a file's node: it is of that node's layer."""

PRODUCTS = (ir.MatMul, ir.Conv2D)


@dataclass(frozen=True)
class Layer:
    """`rows`: the numbers of its operations in program order (`ir.operations`). `executions`: how often each of them runs in one inference,
    all rounds of the loops around it together."""

    name: str
    rows: tuple[int, ...]
    operations: tuple[ir.Operation, ...]
    executions: tuple[int, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        """What its operations are, each kind once."""
        return tuple(dict.fromkeys(type(operation).__name__ for operation in self.operations))

    @property
    def macs(self) -> int:
        """Products of sums in one inference, those with zeros of sparse matrices included."""
        pairs = zip(self.operations, self.executions, strict=True)
        return sum(o.out.size * o.work[0] * times for o, times in pairs if isinstance(o, PRODUCTS))

    @property
    def read(self) -> frozenset[str]:
        """The variables that it reads, parameters and others."""
        return frozenset(item.variable for o in self.operations for item in o.operands if isinstance(item, ir.View))


def find_layers(program: ir.Program, unstored: Collection[int] = ()) -> tuple[Layer, ...]:
    """All layers, in the order of their first operations. Operations of one line or node are one layer; `unstored`: rows of operations that
    run in one nest of loops with the next one (`codegen.emit.fusion`), whose layers are one too."""
    executed = tuple(ir.executions(program.body))
    names = [layer_name(operation.location) for operation, _ in executed]
    joined = {name: name for name in names}

    def first(name: str) -> str:
        while joined[name] != name:
            name = joined[name]
        return name

    for row in sorted(unstored):
        joined[first(names[row + 1])] = first(names[row])
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(first(name), []).append(row)
    return tuple(
        Layer(
            " + ".join(dict.fromkeys(names[row] for row in of_one)),
            tuple(of_one),
            tuple(executed[row][0] for row in of_one),
            tuple(executed[row][1] for row in of_one),
        )
        for of_one in rows.values()
    )


def layer_name(location: ir.Location) -> str:
    """What the layer of an operation at that place is called: a file's name and line, or the node of a file without lines."""
    if location.place is None:
        return sentence(f"{PurePath(location.path).name}:{location.line}")
    return sentence(location.place.removesuffix(ROUNDED))
