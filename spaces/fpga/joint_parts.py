"""Parts of operations that many sets of formats have in common.

What an operation costs depends on its own row, on the widths of what it reaches and on the integers of its parameters. So another format
of one variable changes the parts of the few operations that reach it (or what their scales follow from), and the others are known.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kilotune.codegen import ir
from kilotune.codegen.fixed.table import Column
from kilotune.codegen.rtl.plan import HardwarePlan
from kilotune.evaluators.fpga.boards import Board
from kilotune.spaces.fpga.candidates import FixedProgram, HardwareGoal
from kilotune.spaces.fpga.parts import OperationPart, PartTable
from kilotune.spaces.fpga.space import FpgaSpace

MOST_REMEMBERED = 200_000
"""Parts, of about a kilobyte each. Beyond, all are forgotten."""

Levels = Mapping[str, tuple[int, ...]]


@dataclass(eq=False)
class RememberedParts:
    """The parts of operations of one program on one board, by what they depend on. Empty again in another process."""

    parts: dict[Hashable, tuple[OperationPart, ...]] = field(default_factory=dict)
    levels: dict[Hashable, Levels] = field(default_factory=dict)
    count: int = 0

    def __getstate__(self) -> dict[str, Any]:
        return {"parts": {}, "levels": {}, "count": 0}

    def remember(self, key: Hashable, parts: tuple[OperationPart, ...]) -> None:
        """Keep these parts for whoever asks for them again."""
        if self.count + len(parts) > MOST_REMEMBERED:
            self.parts.clear()
            self.count = 0
        self.parts[key] = parts
        self.count += len(parts)


@dataclass(frozen=True, eq=False)
class RememberingTable(PartTable):
    """A table of parts, of which only those are computed that no table before it had."""

    remembered: RememberedParts

    @cached_property
    def levels(self) -> Levels:
        """As in `PartTable`: lanes and strides have nothing to do with formats."""
        key = self.pipelined, self.ports
        if key not in self.remembered.levels:
            self.remembered.levels[key] = PartTable(
                self.choices, self.batch, self.parameters, self.board, self.pipelined, self.ports
            ).levels
        return self.remembered.levels[key]

    def made_parts(self, row: int) -> Iterator[OperationPart]:
        """As in `PartTable`; those that are known at once."""
        key = self.pipelined, self.ports, operation_signature(self.sequential, row)
        known = self.remembered.parts.get(key)
        if known is not None:
            yield from known
            return
        parts = list[OperationPart]()
        for part in self.parts_of(row, self.unrolled_alone(row)):
            parts.append(part)
            yield part
        self.remembered.remember(key, tuple(parts))


def operation_signature(plan: HardwarePlan, row: int) -> Hashable:
    """All that formats have to do with what an operation of a plan costs: equal signatures, equal parts."""
    operation = next(o for number, o in enumerate(ir.operations(plan.batch.program.body)) if number == row)
    columns = plan.batch.rows[0, row].copy()
    function = None
    if isinstance(operation, ir.TableFunction):
        function = plan.batch.functions[int(columns[Column.FUNCTION])]
    columns[Column.FUNCTION] = 0  # numbered in the order in which a batch met them
    reached = []
    for name in reached_variables(operation):
        constants = plan.constants.get(name)
        reached.append(plan.memories[name] if constants is None else constants.tobytes())
    return row, columns.tobytes(), function, tuple(reached)


def reached_variables(operation: ir.Operation) -> tuple[str, ...]:
    """What an operation reads and writes, each once."""
    views = (*(operand for operand in operation.operands if isinstance(operand, ir.View)), operation.out)
    return tuple(dict.fromkeys(view.variable for view in views))


class RememberingSpace(FpgaSpace):
    """The hardware alone, for widths and scales that differ from those of other such spaces in a few variables."""

    def __init__(self, program: FixedProgram, board: Board, goal: HardwareGoal, remembered: RememberedParts) -> None:
        self._remembered = remembered
        super().__init__(program, board, goal)

    def part_table(self, pipelined: bool, ports: int) -> PartTable:
        """As in `HardwareCandidates`."""
        program = self.program
        return RememberingTable(
            self.choices, program.batch, program.parameters, self.board, pipelined, ports, self._remembered
        )

    def narrowed(self, pipelined: bool, ports: int) -> RememberingSpace:
        """The candidates that are pipelined or not and have so many read ports, as far as the tables are concerned."""
        self.tables = {(pipelined, ports): self.tables[pipelined, ports]}
        return self
