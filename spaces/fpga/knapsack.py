"""One choice of hardware for a clock as a CP-SAT model: a part for each operation, within the gates, in the fewest cycles.

Whoever reads a memory waits for a port, in program order. That is in the model where the operations that read a variable need a number of
ports that is no decision; elsewhere cycles are bounded from below, and the candidate is measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ortools.sat.python import cp_model

from kilotune.codegen.rtl.timeline import sites
from kilotune.codegen.rtl.units import Item
from kilotune.evaluators.fpga.boards import GATE_KINDS, Gates
from kilotune.spaces.fpga.choices import Way
from kilotune.spaces.fpga.dependences import Waiting
from kilotune.spaces.fpga.parts import OperationPart, PartTable, leaves

Linear = cp_model.LinearExpr | int


@dataclass(frozen=True)
class Question:
    """What is asked: designs whose longest path is no longer than `path_ns`, within `gates`, of at most `cycles` (None: any number)."""

    path_ns: float
    gates: Gates
    cycles: int | None = None


class Knapsack:
    """The model of a question. `cycles` and `gates` by kind are expressions; set an objective on `model`, solve, and `read`."""

    def __init__(self, table: PartTable, question: Question) -> None:
        self.model = cp_model.CpModel()
        self._table, self._question = table, question
        self._chosen = [self._operation(row) for row in range(len(table.parts))]
        self._units = self._unit_cycles()
        self._levels = self._bank_levels()
        self._ports = {name: self._port_count(name) for name in table.sequential.memories}
        self.gates = {kind: self._total(kind) for kind in GATE_KINDS}
        for kind, total in self.gates.items():
            self.model.add(total <= getattr(question.gates, kind))
        self._horizon = self._longest(table.waiting)
        self.most_cycles = self._horizon + table.sequential.input_beats + 1
        plan = table.sequential
        self.cycles = self.model.new_int_var(0, self.most_cycles, "cycles")
        self.model.add(self.cycles == self._body(table.waiting) + plan.input_beats + 1)
        if question.cycles is not None:
            self.model.add(self.cycles <= question.cycles)

    def read(self, solver: cp_model.CpSolver) -> dict[int, Way]:
        """How each operation is done in a solution."""
        return {
            row: next(part.way for part, literal in chosen if solver.boolean_value(literal))
            for row, chosen in enumerate(self._chosen)
        }

    def minimise_energy(self, power: Linear, most: int) -> None:
        """Aim at the least product of cycles and `power`, which is `most` at most."""
        each = self.model.new_int_var(0, most, "power")
        self.model.add(each == power)
        product = self.model.new_int_var(0, most * self.most_cycles, "energy")
        self.model.add_multiplication_equality(product, [self.cycles, each])
        self.model.minimize(product)

    def _operation(self, row: int) -> list[tuple[OperationPart, cp_model.IntVar]]:
        parts = [part for part in self._table.parts[row] if part.path_ns <= self._question.path_ns]
        literals = [self.model.new_bool_var(f"operation {row} part {number}") for number in range(len(parts))]
        self.model.add_exactly_one(literals)
        return list(zip(parts, literals, strict=True))

    def _unit_cycles(self) -> dict[str, tuple[Linear, int]]:
        """Cycles of each unit, and the most that they may be."""
        found: dict[str, tuple[Linear, int]] = {}
        for chosen in self._chosen:
            for name in chosen[0][0].cycles if chosen else ():
                total = sum(part.cycles[name] * literal for part, literal in chosen)
                found[name] = (total, max(part.cycles[name] for part, _ in chosen))
        return found

    def _bank_levels(self) -> dict[str, dict[int, cp_model.IntVar]]:
        """One number of banks for each variable: the largest that a part needs."""
        result = {}
        for name, counts in self._table.levels.items():
            levels = {banks: self.model.new_bool_var(f"{banks} banks of {name}") for banks in counts}
            self.model.add_exactly_one(levels.values())
            needing: dict[int, list[cp_model.IntVar]] = {banks: [] for banks in counts}
            for part, literal in self._parts():
                if name in part.banks:
                    self.model.add_implication(literal, levels[part.banks[name]])
                    needing[part.needed[name]].append(literal)
            for banks, literal in levels.items():
                if banks > 1:
                    self.model.add_bool_or([literal.negated(), *needing[banks]])
            result[name] = levels
        return result

    def _parts(self) -> list[tuple[OperationPart, cp_model.IntVar]]:
        return [pair for chosen in self._chosen for pair in chosen]

    def _port_count(self, name: str) -> dict[int, cp_model.IntVar]:
        """How many read ports a variable has, as `codegen.rtl.timeline.port_counts` says: one literal a number."""
        counts = self._reader_counts(name)
        if not counts:
            return {1: self.model.new_constant(1)}
        fixed, varying = [c[0] for c in counts if len(c) == 1], [c for c in counts if len(c) > 1]
        if len(varying) > 1:  # bounded from below: the candidate is measured
            fixed += [min(c) for c in varying]
            varying = []
        if not varying:
            return {max(*fixed, 0, min(self._table.ports, sum(fixed))): self.model.new_constant(1)}
        literals: dict[int, cp_model.IntVar] = {}
        for part, literal in self._parts():
            if name in part.reads and self._varies(part, name):
                own = part.reads[name]
                ports = max(*fixed, own, min(self._table.ports, own + sum(fixed)))
                if ports not in literals:
                    literals[ports] = self.model.new_bool_var(f"{ports} ports of {name}")
                self.model.add_implication(literal, literals[ports])
        self.model.add_exactly_one(literals.values())
        return literals

    def _reader_counts(self, name: str) -> list[list[int]]:
        """How many elements each unit that reads a variable may read at once."""
        result = []
        for unit in leaves(self._table.sequential.items):
            if name in unit.reads:
                counts = {part.reads[name] for part, _ in self._chosen[unit.row] if name in part.reads}
                result.append(sorted(counts) or [1])
        return result

    def _varies(self, part: OperationPart, name: str) -> bool:
        row = next(row for row, chosen in enumerate(self._chosen) if any(part is other for other, _ in chosen))
        return len({other.reads.get(name) for other, _ in self._chosen[row]}) > 1

    def _total(self, kind: str) -> Linear:
        terms: list[Linear] = [getattr(part.gates, kind) * literal for part, literal in self._parts()]
        terms.append(getattr(self._table.controller, kind))
        for name, levels in self._levels.items():
            pairs = [(banks, ports) for banks in levels for ports in self._ports[name]]
            if len(pairs) == 1:
                terms.append(getattr(self._table.memory(name, *pairs[0]), kind))
                continue
            terms += self._memory(name, kind, pairs)
        return sum(terms)

    def _memory(self, name: str, kind: str, pairs: Sequence[tuple[int, int]]) -> list[Linear]:
        terms: list[Linear] = []
        for banks, ports in pairs:
            amount = getattr(self._table.memory(name, banks, ports), kind)
            if not amount:
                continue
            literal = self._levels[name][banks]
            if len(self._ports[name]) > 1:
                literal = self._both(name, banks, ports)
            terms.append(amount * literal)
        return terms

    def _both(self, name: str, banks: int, ports: int) -> cp_model.IntVar:
        level, port = self._levels[name][banks], self._ports[name][ports]
        both = self.model.new_bool_var(f"{banks} banks and {ports} ports of {name}")
        self.model.add_bool_or([both, level.negated(), port.negated()])
        self.model.add_implication(both, level)
        self.model.add_implication(both, port)
        return both

    def _longest(self, body: Sequence[Waiting]) -> int:
        """More cycles than a body can take: one item after the other."""
        return sum(
            self._units.get(item.name, (0, 0))[1] if item.name else item.count * (1 + self._longest(item.body))
            for item in body
        )

    def _body(self, body: Sequence[Waiting]) -> cp_model.IntVar:
        """The cycle in which a body is done, from its start on."""
        most = self._longest(body)
        held: dict[str, list[Linear]] = {}
        ends: list[cp_model.IntVar] = []
        for item in body:
            begin, end = (self.model.new_int_var(0, most, "") for _ in range(2))
            self.model.add(end == begin + self._duration(item))
            for earlier in item.after:
                self.model.add(begin >= ends[earlier])
            self._take_ports(item, begin, end, most, held)
            ends.append(end)
        done = self.model.new_int_var(0, most, "")
        for end in ends:
            self.model.add(done >= end)
        return done

    def _duration(self, item: Waiting) -> Linear:
        if item.name:
            return self._units[item.name][0] if item.name in self._units else 0
        return item.count * (1 + self._body(item.body))

    def _take_ports(
        self, item: Waiting, begin: cp_model.IntVar, end: cp_model.IntVar, most: int, held: dict[str, list[Linear]]
    ) -> None:
        """Wait until as many ports of each variable are free as the item takes; `held` has the cycles in which they are, ascending."""
        for name, count in self._fixed_sites(item.item).items():
            ports = next(iter(self._ports[name]))
            taken = ports if not item.name else count
            free = held.setdefault(name, [0] * ports)
            self.model.add(begin >= free[taken - 1])
            held[name] = self._sorted([*free[taken:]], end, taken, most)

    def _fixed_sites(self, item: Item) -> Mapping[str, int]:
        """Elements read at once of the variables whose ports are in the model."""
        return {
            name: count
            for name, count in sites(item).items()
            if len(self._ports.get(name, ())) == 1 and all(len(c) == 1 for c in self._reader_counts(name))
        }

    def _sorted(self, rest: list[Linear], end: cp_model.IntVar, count: int, most: int) -> list[Linear]:
        """Ascending cycles with `end` put in, `count` times."""
        for _ in range(count):
            merged: list[Linear] = []
            carried: Linear = end
            for value in rest:
                low, high = (self.model.new_int_var(0, most, "") for _ in range(2))
                self.model.add_min_equality(low, [value, carried])
                self.model.add_max_equality(high, [value, carried])
                merged.append(low)
                carried = high
            rest = [*merged, carried]
        return rest


def path_levels(table: PartTable, least_ns: float) -> list[float]:
    """The longest paths that a design may have, ascending."""
    found = {max(part.path_ns, least_ns) for parts in table.parts for part in parts}
    # no design is faster than its slowest operation at its fastest
    slowest = max((min(part.path_ns for part in parts) for parts in table.parts), default=0.0)
    return sorted(path for path in found if path >= slowest and not math.isinf(path))
