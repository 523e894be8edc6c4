"""What becomes of results of a call for all rows of weights (`row_calls`) before it writes them: the rest of a chain, in registers."""

from __future__ import annotations

import dataclasses

from kilotune.codegen import ir
from kilotune.codegen.emit.chain_values import ChainValues
from kilotune.codegen.emit.context import Context
from kilotune.codegen.emit.fusion import OperationChain, steps_of_rows
from kilotune.codegen.emit.operators import CExpression, cast
from kilotune.codegen.emit.row_layout import axis_of_rows
from kilotune.codegen.emit.row_results import RowTail
from kilotune.codegen.emit.writer import Writer


def row_tail(context: Context, number: int) -> tuple[RowTail, str] | None:
    """What a call goes on to with the results of the product of that row, and the expression of a pointer to what the first row of
    weights meets there; None where it does not, or cannot read the parameter."""
    chain = context.chains.get(number)
    axis = None if chain is None else axis_of_rows(context.storage, chain.operations[0])
    if chain is None or axis is None or not context.shape.rows:
        return None
    storage, first = context.storage, chain.operations[0]
    reads = chain.reads
    if any(storage.packing(view.variable) is not None or not storage.in_flash(view.variable) for view in reads):
        return None
    if steps_of_rows(chain.out, first.out, axis)[0] != 1:
        return None
    inner = dataclasses.replace(context, writer=Writer(depth=1))
    values = ChainValues(inner, chain, {view: CExpression("more", storage.bits[view.variable]) for view in reads})
    values.made[first.out.variable] = CExpression("v", storage.bits[first.out.variable])
    last = len(chain.operations) - 1
    for place in range(1, last):
        values.keep(place)
    bits = storage.bits[chain.out.variable]
    lines = [*inner.writer.lines, f"    return {cast(values.computed(last), bits).text};"]
    tail = RowTail(
        tuple(lines),
        storage.bits[first.out.variable],
        storage.bits[reads[0].variable] if reads else None,
        bits,
    )
    return tail, storage.address(reads[0], []) if reads else "0"


def written_by(context: Context, number: int, operation: ir.Product) -> ir.View:
    """Where the elements are stored that a product of that row begins."""
    chain: OperationChain | None = context.chains.get(number)
    return operation.out if chain is None else chain.out
