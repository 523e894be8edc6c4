"""Which bytes of an operand an operation may overwrite with its result, from the order in which it visits elements.

Emitted operations read and write element by element in a fixed order. A result may share bytes with an operand that
nobody reads later, as long as no byte is written before the last read of what it held. Whether that holds depends only
on the distance between the two, `offset of the result - offset of the operand`. A `WriteOrder` says which distances are
forbidden, for any element widths: an elementwise operation of equal widths may write straight over its operand or
below it; a pooling over what it has left behind; a matrix product over little more than nothing.

The order is that of `codegen/emit`, row-major over the result, operands read at the element they are needed for
(`ir.Order.ROWS` reads rows twice, but the second reading is the last one).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import IntArray
from kilotune.codegen.looped_steps import LoopedSteps, Step
from kilotune.codegen.straight_line import Elements, OperationInstance

AccessPoint = tuple[int, int]

ELEMENT_BYTES = (1, 2, 4)

_RATIOS = ((1, 1), (1, 2), (1, 4), (2, 1), (4, 1))  # of an operand's element bytes to a result's


@dataclass(frozen=True)
class WriteOrder:
    """How the places written by an operation stand to those it has still to read in one operand, in element numbers.

    A pair (read, written) of `below`: while place `read` of the operand is still wanted, places before `written` of the
    result are done. The result keeps clear of it from below when its offset less the operand's is at most
    `read * operand_bytes - written * result_bytes`, and from above, with the pairs of `above`, when it is at least that.
    No pairs at all: everything is read before anything is written.
    """

    below: tuple[AccessPoint, ...]
    above: tuple[AccessPoint, ...]

    def forbidden(self, result_bytes: int, operand_bytes: int) -> tuple[int, int] | None:
        """The open interval of forbidden distances in bytes, for these bytes an element; None when there is none."""
        if not self.below:
            return None
        low = min(read * operand_bytes - written * result_bytes for read, written in self.below)
        high = max(read * operand_bytes - written * result_bytes for read, written in self.above)
        return (low, high) if high - low > 1 else None


def write_orders(steps: LoopedSteps) -> dict[tuple[int, str], WriteOrder]:
    """By row and operand: the order of every operation of a program that may share bytes with an operand.

    Rows number the operations in program order from 0. Missing: operands that must stay clear of the result, and those
    that are the result's own variable.
    """
    program = steps.program
    temporaries = {v.name for v in program.variables if v.role is ir.Role.TEMPORARY}
    orders: dict[tuple[int, str], WriteOrder] = {}
    for step, counts in steps.places:
        if _keeps_apart(program, step.first.operation):
            continue
        for instance in _corners(step, counts):
            for name, written, first, last in _visits(instance):
                if name in temporaries and name != instance.operation.out.variable:
                    met = _write_order(written, first, last)
                    known = orders.get((instance.row, name), WriteOrder((), ()))
                    orders[instance.row, name] = WriteOrder(
                        tuple(sorted({*known.below, *met.below})), tuple(sorted({*known.above, *met.above}))
                    )
    return orders


def _corners(step: Step, counts: Mapping[str, int]) -> Iterator[OperationInstance]:
    """A step where each loop that moves it is in its first or last round. What a pair binds is linear in the loops' indices, so it is
    least, and greatest, at such a place."""
    names = step.indices
    for indices in itertools.product(*(sorted({0, counts[name] - 1}) for name in names)):
        yield step.at(dict(zip(names, indices, strict=True)))


def _keeps_apart(program: ir.Program, operation: ir.Operation) -> bool:
    """Sparse products add up in the result itself, column by column; grouped convolutions are several steps."""
    sparse = isinstance(operation, ir.MatMul) and program.variable(operation.a.variable).sparse
    return sparse or operation.steps > 1


def _visits(step: OperationInstance) -> Iterator[tuple[str, IntArray, IntArray, IntArray]]:
    """By operand variable: places written, and the first and the last place read for each of them, in order of execution."""
    written = step.out.reshape(-1).astype(np.int64)
    by_name: dict[str, list[tuple[IntArray, IntArray]]] = {}
    for number, source in enumerate(step.sources):
        if source.variable is not None:
            spans = _spans_read(step, number, source.elements)
            by_name.setdefault(source.variable, []).append(spans)
    for name, spans_read in by_name.items():
        first = np.minimum.reduce([first for first, _ in spans_read])
        last = np.maximum.reduce([last for _, last in spans_read])
        yield name, written, first, last


def _spans_read(step: OperationInstance, number: int, elements: Elements) -> tuple[IntArray, IntArray]:
    """First and last place of one operand that is read for each element of the result."""
    match step.operation.order:
        case ir.Order.PRODUCTS:
            rows, columns = step.out.shape
            first, last = _span(elements if number == 0 else elements.T)
            if number == 0:
                return np.repeat(first, columns), np.repeat(last, columns)
            return np.tile(first, rows), np.tile(last, rows)
        case ir.Order.WINDOWS:
            return _span(elements)
        case ir.Order.READS_FIRST:
            return _span(elements.reshape(1, -1))
        case ir.Order.ELEMENTS | ir.Order.ROWS:
            places = np.broadcast_to(elements.reshape(-1), (step.out.size,)).astype(np.int64)
            return places, places
        case unknown:
            assert_never(unknown)


def _span(windows: Elements) -> tuple[IntArray, IntArray]:
    """First and last place of each row. Padding reads nothing: where there is nothing else, the last place is -1."""
    wide = windows.astype(np.int64)
    return np.where(wide < 0, np.iinfo(np.int32).max, wide).min(axis=1), wide.max(axis=1)


def _write_order(written: IntArray, first: IntArray, last: IntArray) -> WriteOrder:
    """Over all elements of the result: what is read for each of them, against all places written before it."""
    reads = last[1:] >= 0
    if not reads.any():
        return WriteOrder((), ())
    done = np.maximum.accumulate(written)[:-1][reads] + 1
    least = np.minimum.accumulate(written)[:-1][reads]
    return WriteOrder(_binding(first[1:][reads], done, 1), _binding(last[1:][reads] + 1, least, -1))


def _binding(read: IntArray, written: IntArray, sign: int) -> tuple[AccessPoint, ...]:
    """The pairs at which `read * operand_bytes - written * result_bytes` is least (sign 1) or greatest for some widths."""
    kept = set()
    for operand_bytes, result_bytes in _RATIOS:
        place = int(np.argmin(sign * operand_bytes * read - sign * result_bytes * written))
        kept.add((int(read[place]), int(written[place])))
    return tuple(sorted(kept))
