"""C of the operations that visit elements one by one: sums, products, moves, functions."""

from __future__ import annotations

from kilotune.codegen import ir
from kilotune.codegen.emit.context import Context, OperationRow
from kilotune.codegen.emit.schedule import schedule_elements
from kilotune.codegen.emit.walk import LoopNestWriter


def emit_elementwise(context: Context, operation: ir.Elementwise, row: OperationRow) -> None:
    """One loop nest in which every element of `out` is computed from elements at the same place."""
    items = operation.operands
    nest = schedule_elements(operation)
    walk = LoopNestWriter(context, nest)
    with walk.inside(0, len(nest.loops)):
        read = iter(walk.values)
        values = [
            next(read) if isinstance(item, ir.View) else context.arithmetic.literal(operation, item, place, row)
            for place, item in enumerate(items)
        ]
        walk.store(context.arithmetic.element(context, operation, row, values))
