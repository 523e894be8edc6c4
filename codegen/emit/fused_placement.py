"""Where temporaries lie when chains that begin with sums of products run as one (`fusion`): what stays in registers takes no room."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from kilotune.codegen import ir
from kilotune.codegen.emit.fusion import OperationChain
from kilotune.codegen.emit.iteration import along
from kilotune.codegen.emit.layout import PlacedTemporaries
from kilotune.codegen.emit.storage import VariableStorage
from kilotune.codegen.interference import find_interference
from kilotune.codegen.placement import Placer


def place_fused(
    storage: VariableStorage, placed: PlacedTemporaries, chains: Mapping[int, OperationChain]
) -> PlacedTemporaries:
    """The temporaries anew, with each of these chains, which are all of `is_one_product`, an operation of its own that writes its last
    result; what is not stored then lies anywhere. As they were `placed` where that takes more RAM."""
    body, _ = _fused(storage.program.body, 0, chains)
    program, before = dataclasses.replace(storage.program, body=body), placed.interference
    with_input = program.input is not None and program.input.name in before.names
    found = Placer(find_interference(program, bool(before.meetings), with_input=with_input)).place(storage.bits)
    if found.peak_bytes > placed.peak_bytes:
        return placed
    offsets = {name: found.offsets.get(name, 0) for name in placed.offsets}
    return dataclasses.replace(placed, offsets=offsets, peak_bytes=found.peak_bytes)


def is_one_product(placed: Collection[str], chain: OperationChain) -> bool:
    """Whether everything of what is `placed` in RAM that its operations read is read by the first of them, a product."""
    products = [operation for operation in chain.operations if not isinstance(operation, ir.Elementwise)]
    alone = isinstance(chain.operations[0], ir.Product) and len(products) == 1
    return alone and not any(view.variable in placed for view in chain.reads)


def _fused(
    body: Sequence[ir.Statement], row: int, chains: Mapping[int, OperationChain]
) -> tuple[tuple[ir.Statement, ...], int]:
    """Statements whose first operation is `row`, with a chain in one operation; and the row after them."""
    found: list[ir.Statement] = []
    end = row
    for statement in body:
        if isinstance(statement, ir.Loop):
            inner, row = _fused(statement.body, row, chains)
            found.append(dataclasses.replace(statement, body=inner))
            continue
        if isinstance(statement, ir.Periodic):
            inner, row = _fused(statement.body, row, chains)
            operations = tuple(item for item in inner if not isinstance(item, ir.Loop | ir.Periodic))
            found.append(dataclasses.replace(statement, body=operations))
            continue
        if row >= end:
            chain = chains.get(row)
            found.append(statement if chain is None else _as_product(chain))
            end = row + (1 if chain is None else len(chain.operations))
        row += 1
    return tuple(found), row


def _as_product(chain: OperationChain) -> ir.Operation:
    """The first operation of the chain, which writes what the last one does."""
    first, out = chain.operations[0], chain.out
    steps = iter(along(out, tuple(extent for extent in first.out.shape if extent != 1)))
    strides = tuple(0 if extent == 1 else next(steps) for extent in first.out.shape)
    return dataclasses.replace(first, out=ir.View(out.variable, first.out.shape, strides, out.offset))
