"""Flash, RAM and operation counts of fixed-point programs, for whole batches of candidates at once.

Flash is what the search decides: parameters and tables (code is measured on the device). RAM is the largest sum of
live temporaries; the input stays in the caller's memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kilotune.codegen import ir
from kilotune.codegen.fixed.arithmetic import FloatArray
from kilotune.codegen.fixed.table import Column, FixedBatch
from kilotune.codegen.live_ranges import liveness

Ints = npt.NDArray[np.int64]
WIDTHS = (8, 16, 32)


@dataclass(frozen=True)
class Storage:
    """What a parameter occupies in flash: `values` elements of its bitwidth and `index_bytes` that no decision changes."""

    values: int
    index_bytes: int = 0


def parameter_storage(program: ir.Program, parameters: Mapping[str, FloatArray]) -> dict[str, Storage]:
    """Storage of every parameter. A sparse one keeps its non-zero values, and per column the rows they stand in (SeeDot Section 5.1)."""
    result = {}
    for variable in program.variables:
        if variable.role is ir.Role.PARAMETER:
            nonzero = int(np.count_nonzero(parameters[variable.name]))
            if variable.sparse:
                rows, columns = variable.shape
                result[variable.name] = Storage(nonzero, (nonzero + columns) * (1 if rows < 256 else 2))
            else:
                result[variable.name] = Storage(variable.size)
    return result


class Footprint:
    """Counts for one program, prepared once."""

    def __init__(self, program: ir.Program, parameters: Mapping[str, FloatArray]) -> None:
        self.program = program
        index = {v.name: i for i, v in enumerate(program.variables)}
        self.storage = parameter_storage(program, parameters)
        self._values = np.zeros(len(index), dtype=np.int64)
        self._index_bytes = sum(s.index_bytes for s in self.storage.values())
        for name, storage in self.storage.items():
            self._values[index[name]] = storage.values
        names, live = liveness(program)
        self._live = np.zeros((live.shape[0], len(index)), dtype=np.int64)
        for column, name in enumerate(names):
            self._live[:, index[name]] = live[:, column] * program.variable(name).size
        integers = {o.out.variable for o in ir.operations(program.body) if isinstance(o, ir.INTEGER_RESULTS)}
        self._integers = [index[name] for name in sorted(integers)]
        self._works = tuple(_works(program.body, 1))

    def flash_bytes(self, bits: Ints, tables: Ints | int = 0) -> Ints:
        """Flash [N] of candidates with `bits` [N, variables], plus `tables` bytes of exponential tables."""
        return np.asarray(bits @ self._values // 8 + self._index_bytes + tables)

    def ram_bytes(self, bits: Ints) -> Ints:
        """RAM [N]: the largest sum of live temporaries. A label is a 16-bit integer whatever its variable's width."""
        held = bits // 8
        held[:, self._integers] = 2
        return np.asarray((held @ self._live.T).max(axis=1, initial=0))

    def table_bytes(self, batch: FixedBatch) -> Ints:
        """Flash [N] of the exponential tables; operations that use equal tables share them."""
        total = np.zeros(len(batch), dtype=np.int64)
        rows = [
            r for r, o in enumerate(ir.operations(self.program.body)) if isinstance(o, ir.Exp | ir.Sigmoid | ir.Tanh)
        ]
        for number, table in enumerate(batch.functions):
            used = (batch.rows[:, rows, Column.FUNCTION] == number).any(axis=1)
            total += used * table.table_bytes
        return total

    def operation_counts(self, batch: FixedBatch) -> dict[str, Ints]:
        """Executed multiplications and additions [N] by the width they are done in: multiplies_8, ..., adds_32."""
        counts = {
            f"{kind}_{width}": np.zeros(len(batch), dtype=np.int64)
            for kind in ("multiplies", "adds")
            for width in WIDTHS
        }
        for row, (multiplies, adds) in enumerate(self._works):
            if not multiplies and not adds:
                continue
            width = batch.rows[:, row, Column.ACC_BITS]
            for step in WIDTHS:
                chosen = width == step
                counts[f"multiplies_{step}"] += chosen * multiplies
                counts[f"adds_{step}"] += chosen * adds
        return counts


def _works(body: tuple[ir.Statement, ...], times: int) -> Iterator[tuple[int, int]]:
    """By row: (multiplications, additions) executed in one inference."""
    for statement in body:
        if isinstance(statement, ir.Loop):
            yield from _works(statement.body, times * statement.count)
            continue
        size = statement.out.size
        match statement:
            case ir.MatMul(a=a):
                yield times * size * a.shape[-1], times * size * (a.shape[-1] - 1)
            case ir.Conv2D(b=b):
                taps = ir.count_elements(b.shape[1:4])
                yield times * size * taps, times * size * (taps - 1)
            case ir.Multiply():
                yield times * size, 0
            case ir.Add() | ir.Subtract():
                yield 0, times * size
            case _:
                yield 0, 0
