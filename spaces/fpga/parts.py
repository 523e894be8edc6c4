"""What each way to do an operation costs, whatever the others are: the parts that an estimate of the whole is the sum of.

The cost model promises that (`evaluators.fpga.cost_model`). What operations have to do with one another are the banks of the variables that
they share: a part is a way together with the banks of all variables that its operation reaches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.rtl.plan import HardwarePlan, make_plan, settled
from kilotune.codegen.rtl.timeline import sites
from kilotune.codegen.rtl.units import Item, Repeat, Unit
from kilotune.evaluators.fpga.boards import Board, Gates
from kilotune.evaluators.fpga.cost_model import controller_gates, memory_gates, unit_gates, unit_path_ns
from kilotune.spaces.fpga.choices import HardwareChoices, Way
from kilotune.spaces.fpga.dependences import Waiting, waiting


@dataclass(frozen=True)
class OperationPart:
    """`banks` of the variables that the operation reaches, of which it needs at least `needed` itself; cycles, and elements read at once
    of each variable, by unit."""

    way: Way
    banks: Mapping[str, int]
    needed: Mapping[str, int]
    cycles: Mapping[str, int]
    reads: Mapping[str, int]
    gates: Gates
    path_ns: float


@dataclass(frozen=True, eq=False)
class PartTable:
    """The parts of one candidate's program on a board, pipelined or not, with so many read ports."""

    choices: HardwareChoices
    batch: FixedBatch
    parameters: Mapping[str, FloatArray]
    board: Board
    pipelined: bool
    ports: int

    def __getstate__(self) -> dict[str, Any]:
        """For worker processes, which make what is cached anew."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def waiting(self) -> tuple[Waiting, ...]:
        """The items of every design, with what each waits for."""
        return waiting(self.sequential.items)

    @cached_property
    def sequential(self) -> HardwarePlan:
        """One step after the other."""
        first = {row: self.choices.ways(row)[0] for row in range(len(self.choices.operations))}
        return self._plan(first)

    @cached_property
    def controller(self) -> Gates:
        """What is there whatever is decided."""
        return controller_gates(self.sequential, self.board)

    def memory(self, name: str, banks: int, ports: int) -> Gates:
        """A variable's memory."""
        plan = replace(self.sequential, banks={name: banks}, ports={name: ports})
        return memory_gates(name, plan, self.board)

    @cached_property
    def parts(self) -> tuple[tuple[OperationPart, ...], ...]:
        """The parts of each operation, in program order. Ways that no memory can feed are left out."""
        self.prepare(lambda: False)
        return tuple(self._made[row] for row in range(len(self.choices.operations)))

    def prepare(self, is_over: Callable[[], bool]) -> bool:
        """Make the parts, which takes seconds for large programs, unless it `is_over` before; whether all are made. What is made is
        kept."""
        for row in range(len(self.choices.operations)):
            if row not in self._made:
                parts = list[OperationPart]()
                for part in self.made_parts(row):
                    if is_over():
                        return False
                    parts.append(part)
                self._made[row] = tuple(parts)
        return True

    @cached_property
    def _made(self) -> dict[int, tuple[OperationPart, ...]]:
        return {}

    def made_parts(self, row: int) -> Iterator[OperationPart]:
        """The parts of an operation, one after the other."""
        return self.parts_of(row, self._alone[row])

    @cached_property
    def levels(self) -> Mapping[str, tuple[int, ...]]:
        """The numbers of banks that a variable may have."""
        found: dict[str, set[int]] = {name: {1} for name in self.sequential.memories}
        for alone in self._alone:
            for _, plan in alone:
                for name, banks in plan.banks.items():
                    found[name].add(banks)
        return {name: tuple(sorted(levels)) for name, levels in found.items()}

    @cached_property
    def _alone(self) -> tuple[tuple[tuple[Way, HardwarePlan], ...], ...]:
        """The ways of each operation, with plans in which only it is unrolled."""
        return tuple(self.unrolled_alone(row) for row in range(len(self.choices.operations)))

    def unrolled_alone(self, row: int) -> tuple[tuple[Way, HardwarePlan], ...]:
        """The ways of an operation, with plans in which only it is unrolled."""
        planned = []
        for way in self.choices.ways(row):
            try:
                planned.append((way, self._plan({row: way})))
            except ValueError:
                continue
        return tuple(planned)

    def _plan(self, ways: Mapping[int, Way]) -> HardwarePlan:
        return make_plan(self.batch, self.parameters, self.choices.design(ways, self.pipelined, self.ports))

    def parts_of(self, row: int, alone: Sequence[tuple[Way, HardwarePlan]]) -> Iterator[OperationPart]:
        """The parts of an operation, whose ways and plans these are."""
        for way, plan in alone:
            own = [unit for unit in plan.units if unit.row == row]
            reached = sorted(frozenset().union(*(unit.reads | unit.writes for unit in own)) & plan.memories.keys())
            needed = {name: plan.banks[name] for name in reached}
            above = [[level for level in self.levels[name] if level >= needed[name]] for name in reached]
            reads = {name: count for unit in own for name, count in sites(unit).items() if name in plan.memories}
            for levels in itertools.product(*above):
                banks = dict(zip(reached, levels, strict=True))
                placed = replace(plan, banks={**plan.banks, **banks})
                units = [unit for item in own for unit in leaves([settled(item, placed.banks)])]
                gates = sum((unit_gates(unit, placed, self.board) for unit in units), Gates())
                path_ns = max(unit_path_ns(unit, placed, self.board) for unit in units)
                cycles = {unit.name: unit.duration for unit in units}
                yield OperationPart(way, banks, needed, cycles, reads, gates, path_ns)


def leaves(items: Sequence[Item]) -> Iterator[Unit]:
    """The units of a body, in program order."""
    for item in items:
        if isinstance(item, Repeat):
            yield from leaves(item.body)
        else:
            yield item
