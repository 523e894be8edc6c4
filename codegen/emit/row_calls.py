"""Which products of a program are calls for all rows of weights (`emit.blocks`), before any of them is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kilotune.codegen import ir
from kilotune.codegen.emit.blocks import places_at_once, result_of_rows, takes_rows, takes_windows
from kilotune.codegen.emit.context import Context, OperationRow
from kilotune.codegen.emit.pairs import interleaves
from kilotune.codegen.emit.row_factors import FinishedSum, take_out_factors
from kilotune.codegen.emit.row_layout import rows_of_matrices
from kilotune.codegen.emit.row_results import RowCall
from kilotune.codegen.emit.runs import kind_of
from kilotune.codegen.emit.schedule import Convolution, DenseProduct, in_order, schedule_product
from kilotune.codegen.fixed.table import Column


@dataclass(frozen=True)
class CalledProduct:
    """A product whose sums a call takes: `weights` is the number of the operand that has them, and `context` what they are read in;
    `number`: of the operation."""

    operation: ir.MatMul | ir.Conv2D
    context: Context
    total: FinishedSum
    weights: int
    number: int

    @property
    def names(self) -> tuple[str, str]:
        """The variables of weights and operand."""
        names = self.operation.a.variable, self.operation.b.variable
        return names if self.weights == 0 else names[::-1]


def row_calls(context: Context) -> tuple[RowCall, ...]:
    """All calls of the program."""
    found = []
    for product in _called_products(context):
        operation, inner, total = product.operation, product.context, product.total
        weights, operand = product.names
        kinds = kind_of(inner, weights), kind_of(inner, operand)
        rows = operation.b.shape[4] if isinstance(operation, ir.Conv2D) else operation.out.shape[product.weights]
        result = result_of_rows(inner, total, product.weights, operation.out, product.number)
        calls = {1}
        if isinstance(operation, ir.Conv2D):
            places = places_at_once(inner, operation, total)
            calls = {places, *([1] if operation.out.shape[2] % places else [])}
        found += [RowCall(kinds, (operation.taps, rows), result, places) for places in sorted(calls)]
    return tuple(found)


def interleaved_weights(context: Context) -> dict[str, int]:
    """Parameters that are faster to read interleaved (`VariableStorage.interleaved`), with the length of their rows: whole ones that such
    calls alone read, all with operands of a width for which that holds. None where products are taken in vectors, which widen bytes as
    they are loaded."""
    if context.shape.vectors:
        return {}
    storage, found = context.storage, dict[str, int]()
    others = {storage.program.result.variable}
    called = {id(product.operation): product for product in _called_products(context)}
    for operation in ir.operations(storage.program.body):
        views = [operand for operand in operation.operands if isinstance(operand, ir.View)]
        product = called.get(id(operation))
        if product is not None:
            weights, operand = product.names
            view = (product.operation.a, product.operation.b)[product.weights]
            read = product.context.storage  # by which codes are read as they are
            whole = view.size == read.program.variable(weights).size and read.in_flash(weights)
            if whole and interleaves(read.bits[weights], read.bits[operand]) and read.is_integer(weights):
                length = product.operation.taps
                others |= {weights} if found.setdefault(weights, length) != length else set()
                views = [other for other in views if other is not view]
        others |= {view.variable for view in views}
    return {name: length for name, length in found.items() if name not in others}


def _called_products(context: Context) -> Iterator[CalledProduct]:
    for number, operation in enumerate(ir.operations(context.storage.program.body)):
        row = OperationRow(number, context.rows[number])
        if not isinstance(operation, ir.MatMul | ir.Conv2D) or not in_order(row[Column.HALVINGS]):
            continue
        whole = context.arithmetic.sum(context, operation, row)
        inner, finish = take_out_factors(context, operation, whole)
        total = FinishedSum(whole, finish, None, context.arithmetic.completing(context, operation, row))
        weights = _weights_of_call(inner, operation, total)
        if weights is not None:
            yield CalledProduct(operation, inner, total, weights, number)


def _weights_of_call(context: Context, operation: ir.MatMul | ir.Conv2D, total: FinishedSum) -> int | None:
    """The number of the operand that has the weights, where a product is such a call; None where it is none."""
    schedule = schedule_product(operation, context.storage)
    beside = isinstance(schedule, DenseProduct | Convolution) and schedule.beside
    if not (beside and takes_rows(context, operation, total)):
        return None
    if isinstance(operation, ir.MatMul):
        return rows_of_matrices(context.storage, operation)
    return 1 if takes_windows(context, operation, total) else None
