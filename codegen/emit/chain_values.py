"""The elements that a chain of operations (`fusion`) has at hand for one element of its result, as C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kilotune.codegen import ir
from kilotune.codegen.emit.context import Context, OperationRow
from kilotune.codegen.emit.fusion import OperationChain
from kilotune.codegen.emit.operators import CExpression, cast


def row_of(context: Context, number: int) -> OperationRow:
    """The integers of the operation of that number."""
    return OperationRow(number, context.rows[number])


@dataclass
class ChainValues:
    """Elements that a chain has at hand, by view: those that were read, and those that were computed."""

    context: Context
    chain: OperationChain
    read: Mapping[ir.View, CExpression]
    made: dict[str, CExpression] = field(default_factory=dict)

    def name(self, number: int) -> str:
        """The C name of what operation `number` computes."""
        return f"v{len(self.chain.reads) + number}"

    def computed(self, number: int) -> CExpression:
        """The element of operation `number`, an elementwise one."""
        operation, row = self.chain.operations[number], row_of(self.context, self.chain.first + number)
        assert isinstance(operation, ir.Elementwise)
        values = [
            self.context.arithmetic.literal(operation, item, place, row)
            if isinstance(item, ir.Literal)
            else self.made.get(item.variable) or self.read[item]
            for place, item in enumerate(operation.operands)
        ]
        return self.context.arithmetic.element(self.context, operation, row, values)

    def keep(self, number: int) -> None:
        """Compute the element of operation `number` into a variable."""
        out = self.chain.operations[number].out.variable
        bits = self.context.storage.bits[out]
        value = cast(self.computed(number), bits)
        self.context.writer.line(f"const {self.context.storage.type_of(out)} {self.name(number)} = {value.text};")
        self.made[out] = CExpression(self.name(number), bits)
