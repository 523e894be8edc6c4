"""Formats for a given design: the least predicted error with which the board has room for it, and its clock is fast enough.

With the design fixed (which way each operation is done), what an operation takes depends on the formats of the variables that it reaches,
so it has a table: one line for each combination of them. CP-SAT takes a line of each. Scales that follow from other variables' are those
of the formats that the search stands at, so that what is found is measured before it is believed.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ortools.sat.python import cp_model

from kilotune.codegen import ir
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.rtl.plan import HardwarePlan, make_plan
from kilotune.evaluators.constraint_solver import SolverClock
from kilotune.evaluators.fpga.boards import GATE_KINDS, Gates
from kilotune.evaluators.fpga.cost_model import (
    controller_gates,
    crowds,
    least_path_ns,
    memory_gates,
    unit_gates,
    unit_path_ns,
)
from kilotune.search.space import Assignment, Option
from kilotune.spaces.fpga.joint_candidates import Formats, JointCandidates
from kilotune.spaces.fpga.joint_parts import operation_signature, reached_variables

ERROR_UNITS = 1_000_000
"""Errors are asked for as shares of the largest, in millionths: CP-SAT wants integers."""

SMALL = 1e-9

Errors = Mapping[str, Mapping[Option, float]]
"""What each option of each variable adds to the squared error of the result."""


@dataclass(frozen=True)
class FormatLine:
    """What an operation takes where the variables that it reaches have these formats."""

    formats: Assignment
    gates: Gates
    path_ns: float


@dataclass(frozen=True, eq=False)
class DesignFormats:
    """The formats in `offered` for the design of `hardware`; of what is not offered, those of `base`."""

    space: JointCandidates
    base: Assignment
    offered: Mapping[str, Sequence[Option]]
    hardware: Assignment

    def cheapest(
        self, latency_us: float, errors: Errors, forbidden: Sequence[Assignment], clock: SolverClock
    ) -> Formats | None:
        """The formats of least predicted error with which an inference takes less than `latency_us` and the gates suffice; None where
        the solver finds none. None of `forbidden` (some variables' formats) may be in the answer."""
        there = self.space.goal.budget or self.space.board.gates
        allowed_ns = self._allowed_ns(latency_us, there.luts)
        if not allowed_ns:
            return None
        model = cp_model.CpModel()
        chosen = {
            name: {option: model.new_bool_var(f"{name}={option}") for option in options}
            for name, options in self.offered.items()
        }
        for options in chosen.values():
            model.add_exactly_one(options.values())
        full = {luts: model.new_bool_var(f"at most {luts} look-up tables") for luts in allowed_ns}
        model.add_exactly_one(full.values())
        totals = self._totals(model, chosen, [(literal, allowed_ns[luts]) for luts, literal in full.items()])
        model.add(totals["luts"] <= sum(luts * literal for luts, literal in full.items()))
        for kind, total in totals.items():
            model.add(total <= getattr(there, kind))
        for formats in forbidden:
            model.add_bool_or([chosen[name][option].negated() for name, option in formats.items()])
        largest = max((abs(error) for by_option in errors.values() for error in by_option.values()), default=0.0) or 1.0
        model.minimize(
            sum(
                round(ERROR_UNITS * errors[name][option] / largest) * literal
                for name, options in chosen.items()
                for option, literal in options.items()
            )
        )
        solver = cp_model.CpSolver()
        if clock.solve(solver, model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None
        found = {
            name: next(option for option, literal in options.items() if solver.boolean_value(literal))
            for name, options in chosen.items()
        }
        return {**self.base, **found}

    def _allowed_ns(self, latency_us: float, most_luts: int) -> dict[int, float]:
        """The longest path alone that is fast enough on a board of which at most so many look-up tables are in use, where there may be
        one."""
        most_ns = 1000 * latency_us / self.plan.cycles * (1 - SMALL)
        by_luts = {crowd.luts: most_ns / crowd.factor for crowd in crowds(self.space.board, most_luts)}
        return {luts: path_ns for luts, path_ns in by_luts.items() if path_ns >= least_path_ns(self.space.board)}

    def _totals(
        self,
        model: cp_model.CpModel,
        chosen: Mapping[str, Mapping[Option, cp_model.IntVar]],
        allowed_ns: Sequence[tuple[cp_model.IntVar, float]],
    ) -> dict[str, cp_model.LinearExpr | int]:
        """Gates by kind, of a line of each operation and the memories of the formats chosen. `allowed_ns`: (literal, the longest path
        where it is true)."""
        terms: dict[str, list[cp_model.LinearExpr | int]] = {
            kind: [getattr(self._controller, kind)] for kind in GATE_KINDS
        }
        for row, lines in enumerate(self.lines):
            fast = [line for line in lines if line.path_ns <= max(path_ns for _, path_ns in allowed_ns)]
            literals = [model.new_bool_var(f"operation {row} line {number}") for number in range(len(fast))]
            model.add_exactly_one(literals)
            for line, literal in zip(fast, literals, strict=True):
                for full, path_ns in allowed_ns:
                    if line.path_ns > path_ns:
                        model.add_implication(full, literal.negated())
                for name, option in line.formats.items():
                    model.add_implication(literal, chosen[name][option])
                for kind, listed in terms.items():
                    listed.append(getattr(line.gates, kind) * literal)
        for name, by_option in self._memories.items():
            for option, gates in by_option.items():
                for kind, listed in terms.items():
                    listed.append(
                        getattr(gates, kind) * chosen[name][option] if name in chosen else getattr(gates, kind)
                    )
        return {kind: sum(listed) for kind, listed in terms.items()}

    @cached_property
    def plan(self) -> HardwarePlan:
        """The design with the formats of `base`."""
        return self.space.plan({**self.base, **self.hardware})

    @cached_property
    def lines(self) -> tuple[tuple[FormatLine, ...], ...]:
        """The lines of each operation, in program order."""
        operations = ir.operations(self.plan.batch.program.body)
        return tuple(tuple(self._lines_of(row, operation)) for row, operation in enumerate(operations))

    def _lines_of(self, row: int, operation: ir.Operation) -> Iterator[FormatLine]:
        names = [name for name in reached_variables(operation) if name in self.offered]
        several = [
            dict(zip(names, options, strict=True))
            for options in itertools.product(*(self.offered[name] for name in names))
        ]
        lowered = self.space.formats.lower([{**self.base, **formats} for formats in several])
        most = self._duration(self.plan, row)
        known: dict[Hashable, tuple[Gates, float, int]] = {}
        for number, formats in enumerate(several):
            plan = self._with(lowered.one(number), operation, row)
            key = operation_signature(plan, row)
            if key not in known:
                known[key] = self._measured(plan, row)
            gates, path_ns, duration = known[key]
            if duration <= most:
                yield FormatLine(formats, gates, path_ns)

    def _with(self, batch: FixedBatch, operation: ir.Operation, row: int) -> HardwarePlan:
        """The plan as far as the operation is concerned, for the only candidate of `batch`."""
        plan, parameters = self.plan, self.space.formats.task.parameters
        if isinstance(operation, ir.TableFunction | ir.NormaliseL2) or row in plan.design.shares:
            return make_plan(batch, parameters, plan.design)  # its units themselves depend on formats
        constants, memories = dict(plan.constants), dict(plan.memories)
        for name in reached_variables(operation):
            column = self._columns[name]
            if name in constants:
                constants[name] = batch.integers(0, column, parameters[name]).reshape(-1)
            elif name in self.offered:
                memories[name] = (memories[name][0], int(batch.bits[0, column]))
        return replace(plan, batch=batch, constants=constants, memories=memories)

    def _measured(self, plan: HardwarePlan, row: int) -> tuple[Gates, float, int]:
        units = [unit for unit in plan.units if unit.row == row]
        gates = sum((unit_gates(unit, plan, self.space.board) for unit in units), Gates())
        path_ns = max(unit_path_ns(unit, plan, self.space.board) for unit in units)
        return gates, path_ns, self._duration(plan, row)

    @staticmethod
    def _duration(plan: HardwarePlan, row: int) -> int:
        return sum(unit.duration for unit in plan.units if unit.row == row)

    @cached_property
    def _columns(self) -> Mapping[str, int]:
        return {variable.name: i for i, variable in enumerate(self.plan.batch.program.variables)}

    @cached_property
    def _controller(self) -> Gates:
        return controller_gates(self.plan, self.space.board)

    @cached_property
    def _memories(self) -> Mapping[str, Mapping[Option, Gates]]:
        """What each variable's memory takes, by its format; of those that are not offered, as it is."""
        result: dict[str, dict[Option, Gates]] = {}
        for name, (size, _) in self.plan.memories.items():
            if name not in self.offered:
                result[name] = {"": memory_gates(name, self.plan, self.space.board)}
                continue
            options = self.offered[name]
            bits = self.space.formats.lower([{**self.base, name: option} for option in options]).bits[
                :, self._columns[name]
            ]
            result[name] = {
                option: memory_gates(
                    name, replace(self.plan, memories={**self.plan.memories, name: (size, int(each))}), self.space.board
                )
                for option, each in zip(options, bits, strict=True)
            }
        return result
