"""Which bytes of an operand an operation may overwrite with its result, from the order in which it visits elements.

Emitted operations read and write element by element in a fixed order. A result may share bytes with an operand that
nobody reads later, as long as no byte is written before the last read of what it held. Whether that holds depends only
on the distance between the two, `offset of the result - offset of the operand`. A `WriteOrder` says which distances are
forbidden, for any element widths: an elementwise operation of equal widths may write straight over its operand or
below it; a pooling over what it has left behind; a matrix product over little more than nothing.

The order is that of `codegen/emit`, row-major over the result, operands read at the element they are needed for
(`ir.Order.ROWS` reads rows twice, but the second reading is the last one). A convolution may as well go from the last
place of its window (and of its groups) to the first: then its result may lie a little above its operand instead of a
little below it, so that a chain of padded convolutions goes to and fro in the room of its largest image and a row or two.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import IntArray
from kilotune.codegen.live_ranges import in_ram
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
    No pairs at all: everything is read before anything is written. `backward`: the order from the last place to the first, of an
    operation that may go either way; which way it goes is chosen when it is placed.
    """

    below: tuple[AccessPoint, ...]
    above: tuple[AccessPoint, ...]
    backward: WriteOrder | None = None

    @property
    def ways(self) -> tuple[WriteOrder, ...]:
        """This order, and the other way round where there is one."""
        return (self,) if self.backward is None else (self, self.backward)

    def forbidden(self, result_bytes: int, operand_bytes: int) -> tuple[int, int] | None:
        """The open interval of distances in bytes that are forbidden whichever way it goes, for these bytes an element; None when there is
        none."""
        met = [way.forbidden_forward(result_bytes, operand_bytes) for way in self.ways]
        between = [interval for interval in met if interval is not None]
        if len(between) < len(met):
            return None
        low, high = max(low for low, _ in between), min(high for _, high in between)
        return (low, high) if high - low > 1 else None

    def forbidden_forward(self, result_bytes: int, operand_bytes: int) -> tuple[int, int] | None:
        """The open interval of distances in bytes that are forbidden in this order alone."""
        if not self.below:
            return None
        low = min(read * operand_bytes - written * result_bytes for read, written in self.below)
        high = max(read * operand_bytes - written * result_bytes for read, written in self.above)
        return (low, high) if high - low > 1 else None


def write_orders(steps: LoopedSteps, with_input: bool = False) -> dict[tuple[int, str], WriteOrder]:
    """By row and operand: the order of every operation of a program that may share bytes with an operand.

    Rows number the operations in program order from 0. Missing: operands that must stay clear of the result, and those
    that are the result's own variable. `with_input`: the input is such an operand too.
    """
    program = steps.program
    temporaries = in_ram(program, with_input)
    orders: dict[tuple[int, str], WriteOrder] = {}
    for execution, counts in _executions(steps):
        operation = execution[0].first.operation
        if _keeps_apart(program, operation):
            continue
        both_ways = _goes_backward(operation, temporaries)
        for instances in _corners(execution, counts):
            for name, *visit in _visits(instances):
                if name in temporaries and name != operation.out.variable:
                    key = instances[0].row, name
                    met = _write_order(*visit, backward=both_ways)
                    orders[key] = _both(orders[key], met) if key in orders else met
    return orders


def _executions(steps: LoopedSteps) -> Iterator[tuple[tuple[Step, ...], Mapping[str, int]]]:
    """The steps of each execution of an operation, several where a convolution has groups, with the rounds of the loops around."""
    places = iter(steps.places)
    for step, counts in places:
        others = itertools.islice(places, step.first.operation.steps - 1)
        yield (step, *(other for other, _ in others)), counts


def _both(one: WriteOrder, other: WriteOrder) -> WriteOrder:
    """What keeps clear in two orders of the same operation."""
    backward = None
    if one.backward is not None and other.backward is not None:
        backward = _both(one.backward, other.backward)
    below, above = {*one.below, *other.below}, {*one.above, *other.above}
    return WriteOrder(tuple(sorted(below)), tuple(sorted(above)), backward)


def _corners(execution: Sequence[Step], counts: Mapping[str, int]) -> Iterator[tuple[OperationInstance, ...]]:
    """An execution where each loop that moves it is in its first or last round. What a pair binds is linear in the loops' indices, so it
    is least, and greatest, at such a place."""
    names = execution[0].indices
    for indices in itertools.product(*(sorted({0, counts[name] - 1}) for name in names)):
        yield tuple(step.at(dict(zip(names, indices, strict=True))) for step in execution)


def _keeps_apart(program: ir.Program, operation: ir.Operation) -> bool:
    """Sparse products add up in the result itself, column by column."""
    return isinstance(operation, ir.MatMul) and program.variable(operation.a.variable).sparse


def _goes_backward(operation: ir.Operation, temporaries: Set[str]) -> bool:
    """Whether an operation may begin with the last place of its window: a convolution of an image in RAM, which alone says which way it
    goes."""
    if not isinstance(operation, ir.Conv2D):
        return False
    image, weights, out = (view.variable for view in (operation.a, operation.b, operation.out))
    return image in temporaries and weights not in temporaries and out != image


def _visits(execution: Sequence[OperationInstance]) -> Iterator[tuple[str, IntArray, IntArray, IntArray]]:
    """By operand variable: places written, and the first and the last place read for each [places, groups, results of one], in order of
    execution. Groups of a convolution take turns at every place."""
    written = _in_turn([step.out.astype(np.int64) for step in execution], execution)
    by_name: dict[str, list[tuple[IntArray, IntArray]]] = {}
    for number, source in enumerate(execution[0].sources):
        if source.variable is not None:
            spans = [_spans_read(step, number, step.sources[number].elements) for step in execution]
            first, last = (_in_turn(list(ends), execution) for ends in zip(*spans, strict=True))
            by_name.setdefault(source.variable, []).append((first, last))
    for name, spans_read in by_name.items():
        first = np.minimum.reduce([first for first, _ in spans_read])
        last = np.maximum.reduce([last for _, last in spans_read])
        yield name, written, first, last


def _in_turn(numbers: Sequence[IntArray], execution: Sequence[OperationInstance]) -> IntArray:
    """What each group has for its elements [places, groups, results of one]."""
    count = len(execution[0].out)
    return np.stack([of_one.reshape(count, -1) for of_one in numbers], axis=1)


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


def _write_order(written: IntArray, first: IntArray, last: IntArray, *, backward: bool = False) -> WriteOrder:
    """Over all elements of the result: what is read for each of them, against all places written before it. `backward`: also from the last
    place to the first, and there from the last group."""
    other = _write_order(*(numbers[::-1, ::-1] for numbers in (written, first, last))) if backward else None
    written, first, last = (numbers.reshape(-1) for numbers in (written, first, last))
    reads = last[1:] >= 0
    if not reads.any():
        return WriteOrder((), (), other)
    done = np.maximum.accumulate(written)[:-1][reads] + 1
    least = np.minimum.accumulate(written)[:-1][reads]
    return WriteOrder(_binding(first[1:][reads], done, 1), _binding(last[1:][reads] + 1, least, -1), other)


def _binding(read: IntArray, written: IntArray, sign: int) -> tuple[AccessPoint, ...]:
    """The pairs at which `read * operand_bytes - written * result_bytes` is least (sign 1) or greatest for some widths."""
    kept = set()
    for operand_bytes, result_bytes in _RATIOS:
        place = int(np.argmin(sign * operand_bytes * read - sign * result_bytes * written))
        kept.add((int(read[place]), int(written[place])))
    return tuple(sorted(kept))
