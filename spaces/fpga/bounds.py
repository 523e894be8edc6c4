"""What no completion of some decisions undercuts, and whether a board has room at all: least costs of each part, added up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field

from kilotune.evaluators.fpga.boards import GATE_KINDS, Gates, counted_gates
from kilotune.evaluators.fpga.cost_model import crowding, energy_nj, least_path_ns
from kilotune.search.space import Assignment, Option
from kilotune.spaces.fpga.choices import PIPELINED, PORTS_NAME, SOFT
from kilotune.spaces.fpga.dependences import least_cycles
from kilotune.spaces.fpga.parts import OperationPart, PartTable


@dataclass(frozen=True)
class Least:
    """The least of each figure of several parts."""

    gates: Gates
    path_ns: float
    cycles: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class LeastCosts:
    """`tables` by whether hardware is pipelined, and its read ports; `limits` on metrics."""

    tables: Mapping[tuple[bool, int], PartTable]
    objective: str
    limits: Mapping[str, float]
    _known: dict[tuple[bool, int, int, Option | None, Option | None], Least] = field(default_factory=dict, init=False)
    _known_shared: dict[tuple[bool, int], Gates] = field(default_factory=dict, init=False)

    def loss(self, decided: Assignment) -> float:
        """A loss of the first objective that no completion undercuts; +inf where the gates that there are do not do."""
        asked = decided.get(PIPELINED), decided.get(PORTS_NAME)
        tables = [
            table
            for (pipelined, ports), table in self.tables.items()
            if asked[0] in (None, pipelined) and asked[1] in (None, ports)
        ]
        return min(self._loss(table, decided) for table in tables)

    def shortage(self, name: str) -> str | None:
        """Why nothing fits, a sentence; None where a part of each operation may."""
        for kind in GATE_KINDS:
            limit, needs = self.limits[kind], self._least_needs(kind)
            least = sum(needs.values())
            if least > limit:
                most = max(needs, key=needs.__getitem__)
                board = next(iter(self.tables.values())).board.name
                return (
                    f"{name} needs at least {counted_gates(least, kind)}, as the cost model predicts; {board} has {limit:g}; "
                    f"{most} takes most of them, {needs[most]}."
                )
        return None

    def least_gates(self) -> Gates:
        """The least of each kind that a candidate takes."""
        return Gates(**{kind: sum(self._least_needs(kind).values()) for kind in GATE_KINDS})

    def _least_needs(self, kind: str) -> dict[str, int]:
        return min((self._needs(table, kind) for table in self.tables.values()), key=lambda needs: sum(needs.values()))

    def _needs(self, table: PartTable, kind: str) -> dict[str, int]:
        """The least of a kind that each operation, and everything else, takes."""
        choices = table.choices
        found = {
            f"operation {choices.label(row)}": int(getattr(self._least(table, row, None, None).gates, kind))
            for row in range(len(choices.operations))
        }
        return {**found, "what they share": int(getattr(self._shared(table), kind))}

    def _loss(self, table: PartTable, decided: Assignment) -> float:
        choices = table.choices
        parts = [
            self._least(table, row, decided.get(choices.unroll_name(row)), decided.get(choices.product_name(row)))
            for row in range(len(choices.operations))
        ]
        gates = sum((part.gates for part in parts), self._shared(table))
        if any(getattr(gates, kind) > self.limits[kind] for kind in GATE_KINDS):
            return math.inf
        path_ns = max(least_path_ns(table.board), *(part.path_ns for part in parts)) * crowding(gates.luts, table.board)
        units = {name: cycles for part in parts for name, cycles in part.cycles.items()}
        plan = table.sequential
        cycles = plan.input_beats + least_cycles(table.waiting, units) + 1
        latency_us = cycles * path_ns / 1000
        if latency_us > self.limits.get("latency_us", math.inf):
            return math.inf
        if self.objective == "luts":
            return float(gates.luts)
        return energy_nj(gates, path_ns, cycles) if self.objective == "energy" else latency_us

    def _shared(self, table: PartTable) -> Gates:
        """The controller, and each memory as small as it can be."""
        key = table.pipelined, table.ports
        if key not in self._known_shared:
            self._known_shared[key] = _shared_least(table)
        return self._known_shared[key]

    def _least(self, table: PartTable, row: int, unroll: Option | None, product: Option | None) -> Least:
        key = (table.pipelined, table.ports, row, unroll, product)
        if key not in self._known:
            wanted = [
                part
                for part in table.parts[row]
                if unroll in (None, part.way.option) and (product is None or part.way.soft == (product == SOFT))
            ]
            self._known[key] = _least_of(wanted, table.parts[row])
        return self._known[key]


def _shared_least(table: PartTable) -> Gates:
    memories = [
        _componentwise([table.memory(name, banks, 1) for banks in table.levels[name]])
        for name in table.sequential.memories
    ]
    return sum(memories, table.controller)


def _least_of(parts: Sequence[OperationPart], every: Sequence[OperationPart]) -> Least:
    """The least of each figure of `parts`; of every part where there is none, for a way that no memory feeds: such a candidate fails."""
    parts = parts or every
    units = parts[0].cycles
    return Least(
        _componentwise([part.gates for part in parts]),
        min(part.path_ns for part in parts),
        {name: min(part.cycles[name] for part in parts) for name in units},
    )


def _componentwise(gates: Sequence[Gates]) -> Gates:
    return Gates(*(min(counts) for counts in zip(*map(astuple, gates), strict=True)))
