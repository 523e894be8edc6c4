"""What the emitted C of one program's candidates does, counted for whole batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.emit.fusion import find_chains
from kilotune.codegen.emit.literal_factors import emitted_rows
from kilotune.codegen.emit.row_layout import axis_of_rows
from kilotune.codegen.emit.schedule import norm_bits, schedule_elements, window_axes
from kilotune.codegen.emit.shape import CodeShape
from kilotune.codegen.emit.storage import make_storage
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.evaluators.call_memory import CallMemory
from kilotune.evaluators.cost_collector import Access, Collector, CountedOperand
from kilotune.evaluators.cost_features import Terms, kind_position, loop_kind, number, width_position
from kilotune.evaluators.cost_narrow import NarrowSums
from kilotune.evaluators.cost_products import ProductCosts
from kilotune.evaluators.cost_requantising import count_quantised, count_shares
from kilotune.evaluators.cost_sharing import SharedDivisions
from kilotune.evaluators.cost_variables import CountedVariables, access_of, written
from kilotune.evaluators.pointwise_costs import CountedNumbers


class CostFeatures:
    """The features of one program's candidates."""

    def __init__(
        self, program: ir.Program, parameters: Mapping[str, FloatArray], shape: CodeShape | None = None
    ) -> None:
        shape, self._program, self._variables = shape or CodeShape(), program, CountedVariables(program)
        columns = self._variables.columns
        self._labels = [columns[name] for name in ir.label_variables(program)]
        storage = make_storage(program, dict.fromkeys(columns, 16), dict.fromkeys(columns, 0))
        self._products = ProductCosts(self._variables, parameters, storage, shape)
        self._memory = CallMemory(self._variables, storage, shape) if shape.rows or shape.unroll else None
        chains = list(find_chains(program, storage, shape).values())
        self._chains = {row: chain for chain in chains for row in chain.rows}
        by_rows = [c for c in chains if shape.rows and axis_of_rows(storage, c.operations[0]) is not None]
        self._written = {chain.rows[-1]: columns[chain.out.variable] for chain in by_rows}
        self._narrow = NarrowSums(program, parameters)
        self._shared = SharedDivisions() if shape.shared else None
        self._executed = tuple(ir.executions(program.body))
        self._rounds = float(sum(ir.rounds(program.body)))

    def terms(self, batch: FixedBatch) -> Terms:
        """All features of a batch."""
        return self.terms_by_row(batch)[0]

    def terms_by_row(self, batch: FixedBatch) -> tuple[Terms, IntArray]:
        """All features of a batch, and the row of the operation that each term is of [terms]; the number of rows for terms of none: the
        call, rounds of loops, the copy of the result. In a chain the loops are its first operation's."""
        ends: list[int] = []
        rows = emitted_rows(batch)
        self._narrow.apply(batch, rows)
        collector = Collector(batch, rows, self._labels)
        collector.add(1.0, number("program"))
        collector.add(self._rounds, number("loop"))
        outside = collector.term_count
        for row, (operation, times) in enumerate(self._executed):
            chain = self._chains.get(row)
            registers = frozenset(self._variables.columns[name] for name in chain.registers) if chain else frozenset()
            if row in self._written:  # by a call for all rows, whose sums are counted with their storing
                registers |= {self._written[row]}
                collector.add(float(times) * operation.out.size, number("finish"))
            with collector.chained(registers, chain is None or chain.first == row):
                self._operation(collector, row, operation, float(times))
            ends.append(collector.term_count)
        if self._program.result_kind is ir.ResultKind.REAL:
            self._copy_result(collector)
        terms = collector.collected()
        owners = np.searchsorted(ends, np.arange(len(terms.counts)), side="right")
        owners[:outside] = len(ends)
        return terms if self._shared is None else self._shared.applied(terms, batch.rounding), owners

    def scratch_bytes(self, batch: FixedBatch) -> IntArray:
        """RAM that operations need besides [candidates], at most, where code is written for speed; only one of them runs at a time."""
        most = np.zeros(len(batch), dtype=np.int64)
        if self._memory is None:
            return most
        collector = Collector(batch, emitted_rows(batch), self._labels)
        for row, (operation, _) in enumerate(self._executed):
            most = np.maximum(most, self._memory.scratch_bytes(collector, row, operation))
        return most

    def _copy_result(self, c: Collector) -> None:
        result, size = self._program.result, float(self._program.result.size)
        c.add(size, number("element", kind_position("Copy"), 0))
        c.load(self._variables.operand(result), Access(size, False))
        c.store(self._variables.columns[result.variable], Access(size, False))

    def _operation(self, c: Collector, row: int, operation: ir.Operation, times: float) -> None:
        kind = type(operation).__name__
        if isinstance(operation, ir.Elementwise):
            self._elementwise(c, row, operation, times)
            return
        match operation:
            case ir.MatMul() | ir.Conv2D():
                self._products.count(c, row, operation, times)
            case ir.ArgMax(a=a):
                c.add(times, number("start", kind_position(kind)))
                c.scan(times * a.size, kind, self._variables.operand(a))
            case ir.MaxPool(a=a, kernel=kernel):
                elements = times * operation.out.size
                taps = elements * kernel[0] * kernel[1]
                c.frame(kind, times, elements, elements * kernel[0], operation.out.shape[-1])
                c.scan(taps, kind, self._variables.operand(a))
                c.add(taps * sum(axis.checks for axis in window_axes(operation)), number("check"))
                self._variables.finish(
                    c, row, operation, c.bits(self._variables.operand(a), row, 0), Access(elements, False)
                )
            case ir.QuantisedSoftmax():
                elements = times * operation.out.size
                c.frame("NormaliseL2", times, elements, 0.0, operation.length)
                count_shares(c, elements)
                c.store(self._variables.columns[operation.out.variable], Access(elements, False))
            case ir.NormaliseL2():
                self._normalise(c, row, operation, times)
            case _:
                assert_never(operation)

    def _normalise(self, c: Collector, row: int, operation: ir.NormaliseL2, times: float) -> None:
        operand, length = self._variables.operand(operation.a), operation.length
        elements = times * operation.out.size
        shifts = c.column(row, Column.SHIFT_A), c.column(row, Column.SHIFT_B)
        wide = np.where(norm_bits(length, c.bits(operand, row, 0), *shifts) == 64, 1, 0)
        c.frame("NormaliseL2", times, elements, 0.0, length)
        for what, count in enumerate((elements / length, elements, elements)):
            c.add(count, number("norm", what, wide))
        c.load(operand, Access(2.0 * elements, False))
        c.shifted(2.0 * elements, operand, c.column(row, Column.SHIFT_A), c.bits(operand, row, 0))
        width = np.where(c.column(row, Column.SHIFT_B) < 15, 16, 32)
        self._variables.finish(c, row, operation, width, Access(elements, False))

    def _elementwise(self, c: Collector, row: int, operation: ir.Elementwise, times: float) -> None:
        kind = loop_kind(operation)
        nest = schedule_elements(operation)
        elements = times * operation.out.size
        extents = [count for _, count in nest.loops]
        outer = float(ir.count_elements(tuple(extents[:-1]))) if len(extents) > 1 else 0.0
        c.frame(kind, times, elements, times * outer, extents[-1] if extents else 1)
        operands = [self._variables.operand(item) for item in operation.operands]
        read = [self._variables.operand(cursor.view) for cursor in nest.reads]
        for operand, cursor in zip(read, nest.reads, strict=True):
            c.load(operand, access_of(times, nest, cursor))
        write = written(times, nest)
        if isinstance(operation, ir.QuantisedElements):
            count_quantised(c, elements, operation)
            c.store(self._variables.columns[operation.out.variable], write)
            return
        self._applied(c, row, operation, (elements, operands, write))

    def _applied(
        self,
        c: Collector,
        row: int,
        operation: ir.RealElements,
        counted: tuple[float, list[CountedOperand], Access],
    ) -> None:
        """What is computed of each element. `counted`: how many there are, the operands, and how they are written."""
        (elements, operands, write), kind = counted, loop_kind(operation)
        accumulator, width = c.column(row, Column.ACC_BITS), c.column(row, Column.BITS)
        match operation:
            case ir.TableFunction():
                wide = np.maximum(c.bits(operands[0], row, 0), 16)
                c.shifted(elements, operands[0], c.column(row, Column.SHIFT_A), wide)
                c.function(elements, row, kind)
                self._variables.finish(c, row, operation, c.function_bits(row), write)
            case ir.Fill() | ir.Sign():
                c.add(elements, number("apply", kind_position(kind), width_position(width)))
                c.store(self._variables.columns[operation.out.variable], write)
            case ir.Add() | ir.Subtract() | ir.Multiply() | ir.Select():
                pair = operands[1:] if isinstance(operation, ir.Select) else operands
                wide = width if isinstance(operation, ir.Select) else accumulator
                if isinstance(operation, ir.Add | ir.Subtract):  # nothing above the result's bits comes down into it
                    wide = np.where(c.column(row, Column.SHIFT_OUT) <= 0, np.minimum(accumulator, width), accumulator)
                for operand, shift in zip(pair, (Column.SHIFT_A, Column.SHIFT_B), strict=True):
                    if operand.column >= 0:
                        c.shifted(elements, operand, c.column(row, shift), wide, of_sum=wide is not width)
                if isinstance(operation, ir.Multiply):
                    factors = c.factors(row, operands[0], operands[1])
                    c.add(elements, number("product", *factors, width_position(accumulator)))
                else:
                    c.add(elements, number("apply", kind_position(kind), width_position(wide)))
                self._variables.finish(c, row, operation, wide, write)
            case ir.Pointwise():
                numbers = CountedNumbers(c, elements, accumulator)
                columns = (Column.CONSTANT_A, Column.CONSTANT_B, Column.SHIFT_B)
                constants = ir.Constants(*(c.column(row, column) for column in columns))
                wide = operation.integer(numbers, c.bits(operands[0], row, 0), constants)
                if not numbers.counted:
                    numbers.apply(kind, wide)
                self._variables.finish(c, row, operation, wide, write)
            case _:
                assert_never(operation)
