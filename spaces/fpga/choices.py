"""What is decided of a program's hardware: how each operation is done, whether it is pipelined, and read ports.

An operation has an unroll factor: so many lanes, or, for the product of a sparse parameter and a vector, processing elements with a way to
give columns to them. Its multiplications are made by the board's multipliers or of look-up tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.rtl.design import HardwareDesign
from kilotune.codegen.rtl.plan import takes_elements, takes_multipliers
from kilotune.codegen.rtl.processing import DYNAMIC_SHARE, ColumnShares, column_nonzeros, papers_shares
from kilotune.search.space import Assignment, Decision, Option

ELEMENTS = (1, 2, 4, 8, 16, 32)
PORTS = (1, 2, 3)

STATIC, QUARTER, EXACT = "static", "quarter", "exact"
"""How columns are given to processing elements: neighbours to each, the paper's way, in the fewest cycles."""

HARD, SOFT = "hard", "soft"
PIPELINED, PORTS_NAME = "pipelined", "ports"

EXACT_WORK = 0.2
"""What giving columns out may take, in CP-SAT's deterministic seconds."""


@dataclass(frozen=True)
class Way:
    """How an operation is done: `lanes`, or where `shared` says how columns are given out, so many processing elements."""

    lanes: int = 1
    shared: str = ""
    soft: bool = False

    @property
    def option(self) -> str:
        """As the unroll decision says it."""
        return f"{self.lanes} elements, {self.shared}" if self.shared else str(self.lanes)

    @staticmethod
    def of(option: Option, soft: bool) -> Way:
        """The way that an option of the unroll decision means."""
        count, _, shared = str(option).partition(" elements, ")
        return Way(int(count), shared, soft)


@dataclass(frozen=True, eq=False)
class HardwareChoices:
    """The decisions about one program. `factors`: the unroll factors of each operation (`codegen.rtl.plan.decidable`); `multipliers`:
    whether the board has any."""

    program: ir.Program
    parameters: Mapping[str, FloatArray]
    factors: Mapping[int, tuple[int, ...]]
    multipliers: bool
    _exact: dict[tuple[int, int], ColumnShares] = field(default_factory=dict, init=False)

    @cached_property
    def operations(self) -> tuple[ir.Operation, ...]:
        """In program order."""
        return tuple(ir.operations(self.program.body))

    @cached_property
    def nonzeros(self) -> Mapping[int, Sequence[int]]:
        """Non-zero values of each column, by the operations that processing elements can do."""
        return {
            row: column_nonzeros(self.parameters[operation.a.variable])
            for row, operation in enumerate(self.operations)
            if isinstance(operation, ir.MatMul) and takes_elements(operation, self.program)
        }

    def ways(self, row: int) -> tuple[Way, ...]:
        """All that an operation may be done in, the smallest first."""
        unrolled = [Way(lanes) for lanes in self.factors[row]]
        if row in self.nonzeros:
            counts = [count for count in ELEMENTS if count <= len(self.nonzeros[row])]
            unrolled += [
                Way(count, how) for count in counts for how in ((STATIC, QUARTER, EXACT) if count > 1 else (STATIC,))
            ]
        soft = (False, True) if self.multipliers else (True,)
        if not takes_multipliers(self.operations[row]):
            soft = (False,)
        return tuple(Way(way.lanes, way.shared, made) for way in unrolled for made in soft)

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """What is decided of all, then of each operation in program order."""
        result = [Decision(PIPELINED, (True, False)), Decision(PORTS_NAME, PORTS)]
        for row in range(len(self.operations)):
            ways = self.ways(row)
            result.append(Decision(self.unroll_name(row), tuple(dict.fromkeys(way.option for way in ways))))
            if len({way.soft for way in ways}) > 1:
                result.append(Decision(self.product_name(row), (HARD, SOFT)))
        return tuple(result)

    def unroll_name(self, row: int) -> str:
        """The decision about an operation's unroll factor."""
        return f"unroll {self.label(row)}"

    def product_name(self, row: int) -> str:
        """The decision about an operation's multiplications."""
        return f"products {self.label(row)}"

    def label(self, row: int) -> str:
        """What an operation is called: its number and its kind."""
        return f"{row} {self.operations[row].content_kind}"

    def chosen(self, assignment: Assignment) -> dict[int, Way]:
        """How each operation is done."""
        always = not self.multipliers
        return {
            row: Way.of(
                assignment[self.unroll_name(row)],
                takes_multipliers(operation) and (always or assignment[self.product_name(row)] == SOFT),
            )
            for row, operation in enumerate(self.operations)
        }

    def answers(self, ways: Mapping[int, Way], pipelined: bool, ports: int) -> dict[str, Option]:
        """The assignment that means this; operations that are not named are done one step after the other."""
        result: dict[str, Option] = {PIPELINED: pipelined, PORTS_NAME: ports}
        for row in range(len(self.operations)):
            way = ways.get(row, self.ways(row)[0])
            result[self.unroll_name(row)] = way.option
            if self.multipliers and takes_multipliers(self.operations[row]):
                result[self.product_name(row)] = SOFT if way.soft else HARD
        return result

    def design(self, ways: Mapping[int, Way], pipelined: bool, ports: int) -> HardwareDesign:
        """The design in which operations are done so."""
        return HardwareDesign(
            {row: way.lanes for row, way in ways.items() if not way.shared},
            {row: self._shares(row, way) for row, way in ways.items() if way.shared},
            pipelined,
            ports,
            frozenset(row for row, way in ways.items() if way.soft),
        )

    def design_of(self, assignment: Assignment) -> HardwareDesign:
        """The design of a complete assignment."""
        return self.design(self.chosen(assignment), bool(assignment[PIPELINED]), int(assignment[PORTS_NAME]))

    def _shares(self, row: int, way: Way) -> ColumnShares:
        counts = self.nonzeros[row]
        if way.shared != EXACT:
            return papers_shares(counts, way.lanes, DYNAMIC_SHARE if way.shared == QUARTER else 0.0)
        from kilotune.spaces.fpga.exact_shares import exact_shares  # OR-tools takes a second to import

        key = (row, way.lanes)
        if key not in self._exact:
            self._exact[key] = exact_shares(counts, way.lanes, EXACT_WORK)[0]
        return self._exact[key]
