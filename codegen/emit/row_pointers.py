"""Pointers that walk from one row of a matrix in flash to the next, in loops over the elements of a product: of compact code.

By numbers of rows avr-gcc finds pointers of its own, which it compares with where they end: more registers to save, and more instructions
in each round than a counter takes.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from kilotune.codegen import ir
from kilotune.codegen.emit.context import Context, OperationRow, RowPointer
from kilotune.codegen.emit.packing import layout_of
from kilotune.codegen.emit.row_factors import take_out_factors


def point_at_rows(context: Context, products: Sequence[tuple[ir.MatMul, OperationRow]]) -> Context:
    """The context in which these products, elements of which one loop computes together, find their rows by pointers. What declares them is
    written. As it was where code is to be fast, and for operands that do not lie row behind row."""
    if not context.shape.shared:
        return context
    found = dict(context.row_pointers)
    read = Counter(view for operation, _ in products for view in (operation.a, operation.b))
    for operation, row in products:
        whole = context.arithmetic.sum(context, operation, row)
        packed = [context.storage.packing(view.variable) is not None for view in (operation.a, operation.b)]
        if 1 not in operation.out.shape or whole.numbered or all(packed):
            continue
        of_codes, _ = take_out_factors(context, operation, whole)
        for number, view in enumerate((operation.a, operation.b)):
            name = f"kt_row{row.number}_{number}"
            pointer = _pointer(of_codes, operation, number, name) if read[view] == 1 else None
            if pointer is not None:
                found[view] = pointer
    return dataclasses.replace(context, row_pointers=found)


def _pointer(context: Context, operation: ir.MatMul, number: int, name: str) -> RowPointer | None:
    view, taps, storage = (operation.a, operation.b)[number], operation.taps, context.storage
    step, rows = storage.strides(view)[number], view.shape[number]
    if rows == 1 or step != taps or not storage.in_flash(view.variable) or view.variable in storage.interleaved:
        return None
    packing, declared, length = storage.packing(view.variable), "const uint8_t", taps
    if packing is None:
        start, declared = storage.address(view, []), f"const {storage.type_of(view.variable)}"
    else:
        layout = layout_of(packing.width)
        groups = storage.group_address(view, [], taps)
        if groups is None:
            return None
        start, length = groups, taps // layout.codes * layout.group_bytes
    context.writer.line(f"{declared} *{name} = {start};")
    return RowPointer(name, length)


def count_rows(context: Context, counters: Sequence[str]) -> None:
    """In a loop with pointers to rows: its counter stays one, beside them."""
    for counter in counters if context.row_pointers else ():
        if counter != "0":
            context.writer.line(f"KT_COUNT({counter});")
