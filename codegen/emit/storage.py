"""Where every variable of a program lives in the emitted C, and how its elements are written as expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kilotune.codegen import ir
from kilotune.codegen.emit.iteration import element_number
from kilotune.codegen.emit.names import c_identifiers
from kilotune.codegen.emit.operators import Value
from kilotune.codegen.emit.parameters import stored_sparse
from kilotune.codegen.fixed.table import FixedBatch

LABEL_BITS = 16
"""Width of what ArgMax and Sign write, whatever the variable's own width."""


@dataclass(frozen=True)
class Storage:
    """C names, stored widths and scales by variable; `loop_names` are the C names of the loop indices."""

    program: ir.Program
    names: Mapping[str, str]
    loop_names: Mapping[str, str]
    bits: Mapping[str, int]
    scales: Mapping[str, int]
    sparse: frozenset[str]

    def element(self, view: ir.View, moves: Sequence[tuple[str, int]]) -> Value:
        """The element at `view.offset` moved by (counter expression, elements a step) pairs."""
        variable = self.program.variable(view.variable)
        number = element_number(view.offset, [m for m in moves if m[0] != "0"], self.loop_names)
        bits = self.bits[view.variable]
        if variable.role is ir.Role.PARAMETER:
            return Value(f"KT_LOAD{bits}(&{self.names[view.variable]}[{number}])", bits)
        name = "x" if variable.role is ir.Role.INPUT else self.names[view.variable]
        return Value(f"{name}[{number}]", bits)

    def describe(self, name: str) -> str:
        """Format of a variable for comments."""
        variable = self.program.variable(name)
        shape = f"[{', '.join(map(str, variable.shape))}]" if variable.shape else "scalar"
        if name in ir.label_variables(self.program):
            return f"{shape}, label"
        return f"{shape}, {self.bits[name]} bits, scale {self.scales[name]}"


def describe_storage(batch: FixedBatch) -> Storage:
    """The storage of the only candidate of a batch."""
    program = batch.program
    loops = [loop.index for loop in _loops(program.body)]
    variables = [v.name for v in program.variables]
    identifiers = c_identifiers([*variables, *(f"loop {name}" for name in loops)])
    scales = [int(s) for s in batch.scales[0]]
    return Storage(
        program,
        {name: identifiers[name] for name in variables},
        {name: identifiers[f"loop {name}"] for name in loops},
        stored_bits(batch),
        dict(zip(variables, scales, strict=True)),
        frozenset(stored_sparse(program)),
    )


def stored_bits(batch: FixedBatch) -> dict[str, int]:
    """Width in storage by variable."""
    labels = ir.label_variables(batch.program)
    return {
        v.name: LABEL_BITS if v.name in labels else int(bits)
        for v, bits in zip(batch.program.variables, batch.bits[0], strict=True)
    }


def _loops(body: tuple[ir.Statement, ...]) -> list[ir.Loop]:
    found = []
    for statement in body:
        if isinstance(statement, ir.Loop):
            found += [statement, *_loops(statement.body)]
    return found
