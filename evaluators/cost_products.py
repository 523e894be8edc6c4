"""What products of matrices and convolutions cost: sums by runs, by rows, by steps, by channels, or term by term, as they are emitted."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.emit.blocks import follows, lies_in_one_run
from kilotune.codegen.emit.copied_windows import copies_long
from kilotune.codegen.emit.packing import in_whole_groups, walks
from kilotune.codegen.emit.row_layout import channels_lie_beside, filters_lie_beside, rows_of_matrices
from kilotune.codegen.emit.schedule import (
    Convolution,
    DenseProduct,
    SparseProduct,
    in_order,
    scales_terms,
    schedule_product,
)
from kilotune.codegen.emit.shape import CodeShape
from kilotune.codegen.emit.storage import VariableStorage
from kilotune.codegen.emit.unrolled import divisor
from kilotune.codegen.fixed.encoding import LAYOUTS
from kilotune.codegen.fixed.table import Column
from kilotune.evaluators.cost_collector import Access, Collector, CountedOperand, Mask
from kilotune.evaluators.cost_features import kind_position, length_position, number, width_position
from kilotune.evaluators.cost_requantising import count_completed
from kilotune.evaluators.cost_rows import count_calls, takes_rows, writes_results
from kilotune.evaluators.cost_steps import count_products, steps_of
from kilotune.evaluators.cost_variables import CountedVariables, access_of, written


class ProductCosts:
    """The products of one program's candidates. `storage`: of 16 bits, since only places in it are asked for."""

    def __init__(
        self,
        variables: CountedVariables,
        parameters: Mapping[str, FloatArray],
        storage: VariableStorage,
        shape: CodeShape,
    ) -> None:
        self._variables, self._parameters, self._storage, self._shape = variables, parameters, storage, shape
        self._steps_a_round = steps_of(variables.program, shape.unroll)

    def count(self, c: Collector, row: int, operation: ir.Product, times: float) -> None:
        """The products of an operation that is executed so many times, and what comes with them."""
        for view in (operation.a, operation.b):
            c.multiplied(times * operation.out.size, row, self._variables.operand(view))
        if operation.completion is not None:
            count_completed(c, times * operation.out.size, operation.completion)
        schedule = schedule_product(operation, self._storage)
        match operation, schedule:
            case ir.MatMul(), SparseProduct():
                self._sparse(c, row, operation, times)
            case ir.MatMul(), DenseProduct():
                self._dense(c, row, operation, schedule, times)
            case ir.Conv2D(), Convolution():
                self._convolution(c, row, operation, schedule, times)
            case _:
                raise TypeError(f"{type(operation).__name__} has another schedule than {type(schedule).__name__}")

    def _dense(self, c: Collector, row: int, operation: ir.MatMul, schedule: DenseProduct, times: float) -> None:
        nest, out = schedule.nest, operation.out
        (_, height), (_, width), (_, length) = nest.loops
        elements = times * out.size
        factors = (self._variables.operand(operation.a), self._variables.operand(operation.b))
        runs = in_order(c.column(row, Column.HALVINGS)) & schedule.beside
        by_rows = self._by_rows(c, row, operation, times) if schedule.beside else ~runs & runs
        with c.only(~writes_results(c, row, operation, by_rows)):
            c.frame("MatMul", times, elements, times * height if width > 1 else 0.0, max(height, width))
        with c.only(runs & ~by_rows):
            c.add(elements, number("run", kind_position("MatMul")))
            for view, factor, step in zip((operation.a, operation.b), factors, self._steps(operation), strict=True):
                self._unpacked_run(c, view, factor, step, elements)
            stepped = ~(c.is_packed(factors[0]) | c.is_packed(factors[1])) & bool(self._steps_a_round)
            self._run(c, row, "MatMul", elements * length, factors, (length, self._steps_a_round), stepped)
            c.store(self._variables.columns[out.variable], Access(elements, False))
        with c.only(~runs):
            c.add(elements * length, number("tap", kind_position("MatMul"), length_position(length)))
            c.add(elements, number("nest", kind_position("MatMul")))
            for factor, cursor in zip(factors, nest.reads, strict=True):
                c.load(factor, access_of(times, nest, cursor))
            self._sum(c, row, (elements * length, elements), factors, length)
            c.store(self._variables.columns[out.variable], written(times, nest))
        with c.only(~writes_results(c, row, operation, by_rows)):
            widths = c.column(row, Column.ACC_BITS), c.column(row, Column.BITS)
            c.down(elements, widths[0], c.column(row, Column.SHIFT_OUT), widths[1])

    def _by_rows(self, c: Collector, row: int, operation: ir.MatMul, times: float) -> Mask:
        """Count what is taken for all rows in one call; for which candidates that is."""
        found = rows_of_matrices(self._storage, operation)
        factors = (self._variables.operand(operation.a), self._variables.operand(operation.b))
        taken = takes_rows(c, row, self._shape, factors)
        if found is None:
            return taken & ~taken
        pair = factors if found == 0 else factors[::-1]
        with c.only(taken):
            calls = times * operation.out.shape[1 - found]
            with c.only(writes_results(c, row, operation, taken)):
                c.frame("MatMul", times, 0.0, calls if calls > times else 0.0, operation.out.shape[found])
            count_calls(c, row, self._shape, pair, (calls, operation.out.shape[found], operation.taps))
        with c.only(taken & ~writes_results(c, row, operation, taken)):
            c.store(self._variables.columns[operation.out.variable], Access(times * operation.out.size, False))
        return taken

    def _convolved_by_rows(
        self, c: Collector, row: int, operation: ir.Conv2D, schedule: Convolution, elements: float
    ) -> Mask:
        """Count calls for all filters of a convolution whose pixels lie beside each other; for which candidates there are some."""
        a, b = self._variables.operand(operation.a), self._variables.operand(operation.b)
        taken = takes_rows(c, row, self._shape, (a, b)) & schedule.beside
        taken = taken & filters_lie_beside(self._storage, operation)
        filters = operation.b.shape[4]
        places = elements / filters
        with c.only(taken):
            operands = min(self._shape.places, operation.out.shape[2])
            together, left = divmod(operation.out.shape[2], operands)
            lines = places / operation.out.shape[2]
            c.frame("Conv2D", elements / operation.out.size, 0.0, lines * (together + left), filters)
            self._windows(c, row, operation, schedule, places, operands)
            count_calls(c, row, self._shape, (b, a), (lines * together, filters, operation.taps), operands)
            count_calls(c, row, self._shape, (b, a), (lines * left, filters, operation.taps))
        with c.only(taken & ~writes_results(c, row, operation, taken)):
            c.frame("Conv2D", 0.0, elements, places, filters)
        return taken

    def _convolved_by_steps(
        self, c: Collector, row: int, operation: ir.Conv2D, schedule: Convolution, elements: float, runs: Mask
    ) -> Mask:
        """Count a convolution that copies what lies under its window, since its channels are too few for rounds of several steps, and then
        takes a run for each filter; for which candidates that is."""
        a, b = self._variables.operand(operation.a), self._variables.operand(operation.b)
        short = self._steps_a_round and not divisor(self._shape.unroll, operation.b.shape[3])
        taken = runs & ~c.is_packed(b) & bool(short and filters_lie_beside(self._storage, operation))
        places = elements / operation.b.shape[4]
        with c.only(taken):
            c.frame(
                "Conv2D", places / operation.out.size * operation.b.shape[4], elements, places, operation.b.shape[4]
            )
            self._windows(c, row, operation, schedule, places)
            c.add(elements, number("run", kind_position("Conv2D")))
            rounds = operation.taps, self._steps_a_round
            self._run(c, row, "Conv2D", elements * operation.taps, (a, b), rounds, taken)
        return taken

    def _convolved_by_channels(
        self, c: Collector, row: int, operation: ir.Conv2D, schedule: Convolution, elements: float
    ) -> Mask:
        """Count sums of each channel with a filter of its own whose taps are written out; for which candidates there are some."""
        factors = (self._variables.operand(operation.a), self._variables.operand(operation.b))
        taken = takes_rows(c, row, self._shape, factors) & channels_lie_beside(self._storage, operation)
        places, (rows, columns) = elements / operation.groups, schedule.axes
        products = elements * operation.taps
        with c.only(taken):
            c.frame("Conv2D", places / operation.out.size * operation.groups, elements, places, operation.groups)
            padded = places * (1.0 - rows.share_whole * columns.share_whole)
            inside = operation.taps * operation.groups * rows.share_inside * columns.share_inside
            self._copied(c, row, operation, schedule, padded, inside)
            c.add(places * _is_padded(schedule), number("bounded", 1))
            for factor in factors:
                c.load(factor, Access(products, True))
            self._sum(c, row, (products, elements), factors, operation.taps)
        return taken

    def _windows(
        self, c: Collector, row: int, operation: ir.Conv2D, schedule: Convolution, places: float, operands: int = 1
    ) -> None:
        """What lies under the window is copied, at so many places, unless the image has it in one run, and that of neighbours behind it.
        What is copied besides, where results lie over the image, is left out."""
        if lies_in_one_run(operation, schedule) and (operands == 1 or follows(operation)):
            return
        inside = schedule.axes[0].share_inside * schedule.axes[1].share_inside
        self._copied(c, row, operation, schedule, places, operation.taps * inside)

    def _copied(
        self, c: Collector, row: int, operation: ir.Conv2D, schedule: Convolution, places: float, elements: float
    ) -> None:
        """So many windows are copied, each with so many `elements` inside the image."""
        bits = c.bits(self._variables.operand(operation.a), row, 0)
        height, width, channels = operation.b.shape[1:4]
        length = width * channels * operation.groups
        is_long = np.array([copies_long(length, int(width)) for width in bits], dtype=np.int64)
        c.add(places, number("window"))
        c.add(places * _is_padded(schedule), number("bounded", 1))
        c.add(places * height * schedule.axes[0].share_inside, number("line"))
        c.add(places * elements, number("copied", width_position(bits), is_long))

    def _run(
        self,
        c: Collector,
        row: int,
        kind: str,
        products: float,
        factors: tuple[CountedOperand, CountedOperand],
        rounds: tuple[int, int],
        stepped: Mask,
    ) -> None:
        """Products of neighbours by a function of their own: plain ones as a whole, scaled ones by their parts. `rounds`: the length of a
        run and how many steps a round has, for candidates that are `stepped`."""
        scaled = _is_scaled(c, row)
        with c.only(~scaled):
            a, b = factors
            widths = [width_position(c.bits(f, row, place)) for place, f in enumerate(factors)]
            accumulator = width_position(c.column(row, Column.ACC_BITS))
            count_products(c, (a.place, widths[0], b.place, widths[1], accumulator), products, rounds, stepped)
        with c.only(scaled):
            c.add(products, number("tap", kind_position(kind), length_position(rounds[0])))
            for factor in factors:
                c.load(factor, Access(products, True), grouped=True)
            self._sum(c, row, (products, 0.0), factors, rounds[0])

    def _steps(self, operation: ir.MatMul) -> tuple[int, int]:
        """How far the runs of both operands are apart; 0 where there is one alone."""
        (a0, _), (_, b1) = self._storage.strides(operation.a), self._storage.strides(operation.b)
        return (a0 if operation.a.shape[0] > 1 else 0), (b1 if operation.b.shape[1] > 1 else 0)

    def _unpacked_run(self, c: Collector, view: ir.View, factor: CountedOperand, step: int, runs: float) -> None:
        """Codes of runs: taken apart in whole groups, or on the way, or one by one."""
        length = view.shape[-1] if view.shape[-1] != 1 else view.size
        for width in LAYOUTS:
            if in_whole_groups(width, view, [step], length):
                c.unpack(runs * length, factor, "group", (width,))
            elif walks(width):
                c.unpack(runs * length, factor, "walk", (width,))
                c.unpack(runs, factor, "run", (width,))
            else:
                c.unpack(runs * length, factor, "single", (width,))

    def _sparse(self, c: Collector, row: int, operation: ir.MatMul, times: float) -> None:
        a, b = self._variables.operand(operation.a), self._variables.operand(operation.b)
        products = times * float(np.count_nonzero(self._parameters[operation.a.variable])) * operation.b.shape[1]
        elements = times * operation.out.size
        c.frame("SparseMatMul", times, elements, elements, operation.a.shape[0])
        c.add(products, number("tap", kind_position("SparseMatMul"), length_position(operation.a.shape[1])))
        c.load(a, Access(products, True), grouped=True)
        for width in LAYOUTS:
            c.unpack(products, a, "walk" if walks(width) else "single", (width,))
        c.load(b, Access(products, False))
        self._sum(c, row, (products, elements), (a, b), operation.a.shape[1])
        self._variables.finish(c, row, operation, c.column(row, Column.ACC_BITS), Access(elements, False))

    def _convolution(self, c: Collector, row: int, operation: ir.Conv2D, schedule: Convolution, times: float) -> None:
        factors = (self._variables.operand(operation.a), self._variables.operand(operation.b))
        length = operation.taps
        elements = times * operation.out.size
        share_of_rows, share_of_columns = (axis.share_inside for axis in schedule.axes)
        inside = elements * length * share_of_rows * share_of_columns
        runs = in_order(c.column(row, Column.HALVINGS)) & schedule.beside
        packed = c.is_packed(factors[1])
        by_rows = self._convolved_by_rows(c, row, operation, schedule, elements)
        apart = by_rows | self._convolved_by_steps(c, row, operation, schedule, elements, runs & ~by_rows)
        steps = divisor(self._shape.unroll, operation.b.shape[3])
        for buffered in (False, True):
            with c.only(runs & ~apart & (packed == buffered)):
                rows_begun = elements if buffered else elements / operation.b.shape[4]
                c.frame("Conv2D", times, elements, rows_begun, operation.b.shape[4])
                rows_met = elements * operation.b.shape[1] * share_of_rows
                c.add(rows_met, number("run", kind_position("Conv2D")))
                c.add(rows_met * bool(schedule.axes[1].checks), number("bounded", 0))
                c.add(rows_begun * _is_padded(schedule), number("bounded", 1))
                weights = factors[1]
                if buffered:  # unpacked into RAM, one filter after the other
                    weights = CountedOperand(weights.column, 1)
                    c.load(factors[1], Access(times * operation.b.size, False))
                    c.store(weights.column, Access(times * operation.b.size, False))
                stepped = np.full(len(c), bool(steps))
                self._run(c, row, "Conv2D", inside, (factors[0], weights), (operation.b.shape[3], steps), stepped)
                c.add(0.0 if steps else inside, number("tap", kind_position("Conv2D"), 1))
        alone = self._convolved_by_channels(c, row, operation, schedule, elements)
        with c.only(~runs & ~alone):
            kind = kind_position("GroupedConv2D")
            c.frame("GroupedConv2D", times, elements, elements * operation.b.shape[1], operation.b.shape[4])
            c.add(elements * length, number("tap", kind, 0))
            c.add(elements * length * sum(axis.checks for axis in schedule.axes), number("check"))
            for factor in factors:
                c.load(factor, Access(inside, False))
            self._sum(c, row, (inside, elements), factors, length)
        with c.only(~writes_results(c, row, operation, by_rows)):
            self._variables.finish(c, row, operation, c.column(row, Column.ACC_BITS), Access(elements, False))

    def _sum(
        self,
        c: Collector,
        row: int,
        counts: tuple[float, float],
        factors: tuple[CountedOperand, CountedOperand],
        length: int,
    ) -> None:
        """`counts`: products, and elements of the result."""
        products, elements = counts
        accumulator = c.column(row, Column.ACC_BITS)
        shifts = [c.column(row, column) for column in (Column.SHIFT_A, Column.SHIFT_B, Column.SHIFT_TERM)]
        for operand, shift in zip(factors, shifts[:2], strict=True):
            c.shifted(products, operand, shift, accumulator)
        scaled = np.asarray(_is_scaled(c, row), dtype=np.int64)
        c.add(products, number("mac", *c.factors(row, *factors), width_position(accumulator), scaled))
        c.down(products, accumulator, shifts[2], accumulator)
        halvings = c.column(row, Column.HALVINGS)
        width = width_position(accumulator)
        with c.only(halvings > 0):
            c.add(products, number("tree", 0, width))
            c.add(elements, number("tree", 2, width))
        for level in range((length - 1).bit_length() if elements else 0):
            with c.only(halvings > level):
                c.add(elements * (length >> (level + 1)), number("tree", 1, width))


def _is_padded(schedule: Convolution) -> bool:
    """Whether the ends of what lies under the window depend on its place."""
    return any(axis.checks for axis in schedule.axes)


def _is_scaled(c: Collector, row: int) -> Mask:
    """Where factors or products are shifted before they are summed."""
    return scales_terms(*(c.column(row, column) for column in (Column.SHIFT_A, Column.SHIFT_B, Column.SHIFT_TERM)))
