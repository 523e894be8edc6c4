"""Flash, RAM and operation counts of fixed-point programs, for whole batches of candidates at once.

Flash is what the search decides: parameters and tables (code is measured on the device). RAM is the
extent of the temporaries as the emitted C places them; the input stays in the caller's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.arrays import BoolArray, FloatArray, IntArray
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.codegen.fixed.encoding import LAYOUTS, stored_bytes
from kilotune.codegen.fixed.exponential import Exponential
from kilotune.codegen.fixed.quantised import quantised_tables
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.codegen.interference import find_interference
from kilotune.codegen.looped_steps import LoopedSteps
from kilotune.codegen.placement import PlacedVariables, Placer

WIDTHS = (8, 16, 32)

COUNTED = tuple(f"{kind}_{width}" for kind in ("multiplies", "adds") for width in WIDTHS)
"""Names of what is counted of executed operations."""

MOST_REMEMBERED = 50_000
"""Placements kept for width maps that come again, as they do when a search moves scales."""


Refine = Callable[[Placer, Mapping[str, int], PlacedVariables], PlacedVariables]
"""From widths in bits by variable and the placement found for them to one that is at least as good."""


PlaceMany = Callable[[Sequence[Mapping[str, int]]], list[PlacedVariables]]
"""From several widths in bits by variable to what `Placer.place` finds for each."""


@dataclass(frozen=True)
class ParameterStorage:
    """What a parameter occupies in flash: `values` codes of its stored width and `index_bytes` that no decision changes."""

    values: int
    index_bytes: int = 0

    def size_bytes(self, width: int) -> int:
        """Flash at a stored width."""
        return stored_bytes(self.values, width) + self.index_bytes

    def largest_array_bytes(self, width: int) -> int:
        """The larger of its two arrays, which are the codes of a stored width and the list of columns."""
        return max(stored_bytes(self.values, width), self.index_bytes)


def parameter_storage(program: ir.Program, parameters: Mapping[str, FloatArray]) -> dict[str, ParameterStorage]:
    """Storage of every parameter that is used. A sparse one keeps its non-zero values, and per row the columns they stand in; one that is
    all zeros keeps one, since C has no empty arrays."""
    result = {}
    used = ir.used_variables(program)
    for variable in program.variables:
        if variable.role is ir.Role.PARAMETER and variable.name in used:
            nonzero = int(np.count_nonzero(parameters[variable.name]))
            if variable.sparse:
                rows, columns = variable.shape
                result[variable.name] = ParameterStorage(
                    max(nonzero, 1), (nonzero + rows) * (1 if columns < 256 else 2)
                )
            else:
                result[variable.name] = ParameterStorage(variable.size)
    return result


class Footprint:
    """Counts for one program, prepared once.

    `in_place`: results may overwrite operands that die (`codegen.in_place`). `refine` may improve each placement. `placing` may
    give a faster way to the same placements. `steps`: what `loop_steps` gives, where the caller has it already. `with_input`: the input
    lies among the temporaries, which may overwrite it.
    """

    def __init__(
        self,
        program: ir.Program,
        parameters: Mapping[str, FloatArray],
        in_place: bool = True,
        refine: Refine | None = None,
        placing: Callable[[Placer], PlaceMany] | None = None,
        steps: LoopedSteps | None = None,
        *,
        with_input: bool = False,
    ) -> None:
        self.program = program
        self.refine = refine
        self.in_place = in_place
        self.placer = Placer(find_interference(program, in_place, steps, with_input=with_input))
        self._place_many = placing(self.placer) if placing else self.placer.place_each
        self._placed: dict[bytes, PlacedVariables] = {}
        index = {v.name: i for i, v in enumerate(program.variables)}
        self.storage = parameter_storage(program, parameters)
        bytes_of = np.zeros((len(index), WIDTHS[-1] + 1), dtype=np.int64)
        for name, storage in self.storage.items():
            for width in (*LAYOUTS, *WIDTHS):
                bytes_of[index[name], width] = storage.size_bytes(width)
        self._bytes_of = TableByWidth(bytes_of)
        self._names = [v.name for v in program.variables]
        self._temporaries = np.array([index[name] for name in self.placer.interference.names], dtype=np.intp)
        self._constant_bytes = sum(len(entries) * bits // 8 for bits, entries in quantised_tables(program))
        works = [_work(operation, times, program, parameters) for operation, times in ir.executions(program.body)]
        self._works = TableByWidth(_by_width(np.array(works, dtype=np.int64).reshape(-1, 2)))
        operations = list(enumerate(ir.operations(program.body)))
        self._summing = [(row, o) for row, o in operations if isinstance(o, ir.MatMul | ir.Conv2D)]
        self._tabled = np.array([row for row, o in operations if isinstance(o, ir.TableFunction)], dtype=np.intp)
        self._tables: _TablesOfFunctions | None = None

    def flash_bytes(self, stored: IntArray, tables: IntArray | int = 0) -> IntArray:
        """Flash [N] of candidates with `stored` bits [N, variables], plus `tables` bytes of exponential tables."""
        return np.asarray(self._bytes_of.sums(stored) + tables)

    def beside_bytes(self, batch: FixedBatch) -> IntArray:
        """Flash [N] of what lies beside parameters' codes: shifts of rows and codebooks."""
        total = np.zeros(len(batch), dtype=np.int64)
        for number, encoding in enumerate(batch.encodings):
            if encoding.table_bytes:
                total += (batch.encoded == number).sum(axis=1) * encoding.table_bytes
        return total

    def ram_bytes(self, bits: IntArray) -> IntArray:
        """RAM [N] of candidates with `bits` [N, variables]: the extent of what is placed."""
        return np.array([placed.peak_bytes for placed in self._placements(bits)], dtype=np.int64)

    def scratch_bytes(self, batch: FixedBatch) -> IntArray:
        """RAM [N] that operations need besides, at most (only one runs at a time).

        SeeDot's tree sums keep one partial sum a level, convolutions a filter whose codes are unpacked, and of quantised programs what lies
        under a window.
        """
        most = np.zeros(len(batch), dtype=np.int64)
        any_tree = bool((batch.rows[:, :, Column.HALVINGS] >= 0).any())
        for row, operation in self._summing:
            if any_tree:
                sums = (operation.taps - 1).bit_length() + 1
                by_tree = batch.rows[:, row, Column.HALVINGS] >= 0
                most = np.maximum(most, by_tree * sums * batch.rows[:, row, Column.ACC_BITS] // 8)
            if isinstance(operation, ir.Conv2D):
                if operation.pads_with_numbers:  # the window is copied, so that padding counts
                    most = np.maximum(most, -(-operation.taps // 4) * 4)
                if batch.encodings:
                    packed = batch.packed[:, self._names.index(operation.b.variable)]
                    most = np.maximum(most, packed * operation.taps)
        return most

    def least_ram_bytes(self, bits: IntArray) -> IntArray:
        """What no placement of such candidates goes below [N]; more bits never make it less."""
        return np.array([self.placer.bound_bytes(self._by_name(row)) for row in bits], dtype=np.int64)

    def placed(self, bits: IntArray) -> PlacedVariables:
        """The placement of one candidate's temporaries; `bits` [variables]."""
        return self._placements(bits[None])[0]

    def _placements(self, bits: IntArray) -> list[PlacedVariables]:
        """One for each of `bits` [N, variables]. Equal widths are placed once."""
        widths, size = bits.take(self._temporaries, axis=1).astype(np.uint8).tobytes(), len(self._temporaries)
        keys = [widths[place * size : (place + 1) * size] for place in range(len(bits))]
        try:
            return [self._placed[key] for key in keys]
        except KeyError:
            self._place(keys, bits)
            return [self._placed[key] for key in keys]

    def _place(self, keys: Sequence[bytes], bits: IntArray) -> None:
        """Have the placements of these keys among those that are remembered."""
        new = {key: self._by_name(row) for key, row in zip(keys, bits, strict=True) if key not in self._placed}
        found = dict(zip(new, self._place_many(list(new.values())), strict=True))
        if self.refine:
            found = {key: self.refine(self.placer, new[key], placed) for key, placed in found.items()}
        if len(self._placed) + len(found) > MOST_REMEMBERED:
            found |= {key: self._placed[key] for key in keys if key not in found}
            self._placed.clear()
        self._placed |= found

    def _by_name(self, bits: IntArray) -> dict[str, int]:
        return dict(zip(self._names, bits.tolist(), strict=True))

    def table_bytes(self, batch: FixedBatch) -> IntArray:
        """Flash [N] of the exponential tables, and of those of quantised programs; equal arrays are stored once."""
        if not batch.functions or not len(self._tabled):
            return np.full(len(batch), self._constant_bytes, dtype=np.int64)
        known = self._tables
        if known is None or known.functions is not batch.functions or known.rounding is not batch.rounding:
            known = self._tables = _tables_of(batch.functions, batch.rounding)
        chosen = known.arrays.take(batch.rows[:, :, Column.FUNCTION].take(self._tabled, axis=1), axis=0)
        return np.asarray(chosen.any(axis=1) @ known.sizes + self._constant_bytes)

    def operation_counts(self, batch: FixedBatch) -> dict[str, IntArray]:
        """Executed multiplications and additions [N] by the width they are done in: multiplies_8, ..., adds_32."""
        counts = self._works.sums(batch.rows[:, :, Column.ACC_BITS]).T
        return dict(zip(COUNTED, counts, strict=True))


class TableByWidth:
    """Amounts [rows, widths, ...] of things that each have one width of a few."""

    def __init__(self, amounts: IntArray) -> None:
        self._flat = amounts.reshape(-1, *amounts.shape[2:])
        self._starts = np.arange(len(amounts)) * amounts.shape[1]

    def sums(self, widths: npt.NDArray[np.signedinteger]) -> IntArray:
        """What all rows have together [N, ...] at `widths` [N, rows]."""
        return np.asarray(np.add.reduce(self._flat.take(widths + self._starts, axis=0), axis=1))


@dataclass(frozen=True)
class _TablesOfFunctions:
    """What functions keep in flash, rounded in a way: which of the different arrays each has [functions, arrays], and their bytes."""

    functions: tuple[Exponential, ...]
    rounding: Rounding
    arrays: BoolArray
    sizes: IntArray


def _tables_of(functions: tuple[Exponential, ...], rounding: Rounding) -> _TablesOfFunctions:
    held = [[(function.bits, array) for array in function.stored_arrays(rounding)] for function in functions]
    different = list(dict.fromkeys(array for arrays in held for array in arrays))
    sizes = [len(array) * bits // 8 for bits, array in different]
    has = [[array in arrays for array in different] for arrays in held]
    return _TablesOfFunctions(functions, rounding, np.array(has, dtype=np.bool_), np.array(sizes, dtype=np.int64))


def _by_width(works: IntArray) -> IntArray:
    """Multiplications and additions [operations, widths of sums, kinds and widths] of `works` [operations, kinds] as they are counted: of
    other widths than WIDTHS nothing is."""
    counted = np.zeros((len(works), WIDTHS[-1] + 1, 2, len(WIDTHS)), dtype=np.int64)
    for place, width in enumerate(WIDTHS):
        counted[:, width, :, place] = works
    return counted.reshape(len(works), WIDTHS[-1] + 1, -1)


def _work(
    operation: ir.Operation, times: int, program: ir.Program, parameters: Mapping[str, FloatArray]
) -> tuple[int, int]:
    """(multiplications, additions) of an operation that is executed so many times: of a sparse matrix only its non-zeros are multiplied,
    and those of a row added."""
    if isinstance(operation, ir.MatMul) and program.variable(operation.a.variable).sparse:
        sums = times * operation.b.shape[1]
        terms = np.count_nonzero(parameters[operation.a.variable].reshape(operation.a.shape), axis=1)
        return sums * int(terms.sum()), sums * int(np.maximum(terms - 1, 0).sum())
    multiplies, adds = operation.work
    return times * operation.out.size * multiplies, times * operation.out.size * adds
