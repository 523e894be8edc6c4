"""C of the operations that visit elements one by one: sums, products, moves, functions."""

from __future__ import annotations

from kilotune.codegen import ir
from kilotune.codegen.emit.context import Context, Row, counters_of
from kilotune.codegen.emit.iteration import iterate
from kilotune.codegen.emit.walk import Access, Walk


def emit_elementwise(context: Context, operation: ir.Operation, row: Row) -> None:
    """One loop nest in which every element of `out` is computed from elements at the same place."""
    items = operation.operands
    views = [item for item in items if isinstance(item, ir.View)]
    loops = iterate([operation.out, *views])
    reads = [Access(view, strides) for view, strides in zip(views, loops.strides[1:], strict=True)]
    walk = Walk(context, counters_of(loops), reads, Access(operation.out, loops.strides[0]))
    with walk.inside(0, len(loops.extents)):
        read = iter(walk.values)
        values = [
            next(read) if isinstance(item, ir.View) else context.arithmetic.literal(operation, item, place, row)
            for place, item in enumerate(items)
        ]
        walk.store(context.arithmetic.element(context, operation, row, values))
