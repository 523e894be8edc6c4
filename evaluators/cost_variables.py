"""Variables and accesses of a program as costs are counted of them."""

from __future__ import annotations

from kilotune.codegen import ir
from kilotune.codegen.arrays import IntArray
from kilotune.codegen.emit.schedule import Cursor, Nest
from kilotune.codegen.fixed.table import Column
from kilotune.evaluators.cost_collector import Access, Collector, CountedOperand


class CountedVariables:
    """The variables of a program, with their columns in a batch."""

    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self.columns = {v.name: i for i, v in enumerate(program.variables)}

    def operand(self, item: ir.Operand) -> CountedOperand:
        """What an operation reads."""
        if isinstance(item, ir.Literal):
            return CountedOperand(-1, 0)
        role = self.program.variable(item.variable).role
        return CountedOperand(self.columns[item.variable], 0 if role is ir.Role.PARAMETER else 1)

    def finish(self, c: Collector, row: int, operation: ir.Operation, width: IntArray, access: Access) -> None:
        """The last division of an element, to the width of the result, and its storing."""
        c.down(access.times, width, c.column(row, Column.SHIFT_OUT), c.column(row, Column.BITS))
        c.store(self.columns[operation.out.variable], access)


def access_of(times: float, nest: Nest, cursor: Cursor) -> Access:
    """How a cursor of a nest reaches its elements."""
    return Access(times * nest.visits(cursor), cursor.start is not None, times * nest.pointers(cursor))


def written(times: float, nest: Nest) -> Access:
    """How a nest writes its elements."""
    assert nest.write is not None
    return access_of(times, nest, nest.write)
