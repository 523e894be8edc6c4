"""What a candidate of the space fpga means and what it measures: the hardware of a program whose widths and scales are decided.

What it takes is the cost model's estimate; its cycles are exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.rtl.plan import HardwarePlan, decidable, make_plan
from kilotune.evaluators.fpga.boards import GATE_KINDS, Board, Gates
from kilotune.evaluators.fpga.cost_model import Estimate, estimate
from kilotune.search.fingerprint import NOT_CONTENT, absent_as
from kilotune.search.front import Ranking
from kilotune.search.space import Assignment, Constraint, Decision, Measurement, Metrics, Objective
from kilotune.spaces.fpga.bounds import LeastCosts
from kilotune.spaces.fpga.choices import PORTS, HardwareChoices
from kilotune.spaces.fpga.parts import PartTable

SEMANTICS = 5
"""Version of what the decisions mean and of how they are measured; part of the fingerprint."""

OBJECTIVES: Mapping[str, tuple[str, str]] = {
    "latency": ("latency_us", "luts"),
    "luts": ("luts", "latency_us"),
    "energy": ("inference_nj", "latency_us"),
    "front": ("latency_us", "luts"),
}
"""The metrics that are minimised, the first before the second."""


@dataclass(frozen=True)
class HardwareGoal:
    """`latency_limit_us`: what an inference may take at most. `budget`: the gates that may be used, the board's where it is None."""

    objective: str = "latency"
    latency_limit_us: float | None = None
    budget: Gates | None = field(default=None, metadata=absent_as(None))


FASTEST = HardwareGoal()
"""The least latency that the whole board gives."""


def gate_constraints(board: Board, goal: HardwareGoal) -> tuple[Constraint, ...]:
    """The gates that there are, and what an inference may take."""
    there = goal.budget or board.gates
    limits = [Constraint(kind, getattr(there, kind)) for kind in GATE_KINDS]
    if goal.latency_limit_us is not None:
        limits.append(Constraint("latency_us", goal.latency_limit_us))
    return tuple(limits)


def hardware_metrics(made: Estimate) -> Metrics:
    """An estimate as metrics."""
    return {
        "latency_us": made.latency_us,
        "hardware_cycles": float(made.cycles),
        "clock_mhz": made.clock_mhz,
        **{kind: float(getattr(made.gates, kind)) for kind in GATE_KINDS},
        "inference_nj": made.energy_nj,
    }


@dataclass(frozen=True)
class FixedProgram:
    """A program whose widths and scales are decided: the only candidate of `batch`. `name`: what people call it."""

    name: str = field(metadata=NOT_CONTENT)
    batch: FixedBatch
    parameters: Mapping[str, FloatArray]


class NoRoomPredictedError(ValueError):
    """The cost model says that a program has no room whatever is decided. `least`: the gates that every candidate takes by the model;
    `sequential`: those of hardware of one lane."""

    def __init__(self, message: str, least: Gates, sequential: Gates) -> None:
        super().__init__(message)
        self.least, self.sequential = least, sequential


class HardwareCandidates:
    """See the module's text."""

    def __init__(self, program: FixedProgram, board: Board, goal: HardwareGoal = FASTEST) -> None:
        """NoRoomPredictedError, a sentence, for a program that the board, or the goal's budget, has no room for whatever is decided."""
        self.program, self.board, self.goal = program, board, goal
        batch = program.batch
        factors = decidable(batch.program, batch)
        self.choices = HardwareChoices(batch.program, program.parameters, factors, board.gates.multipliers > 0)
        self.tables = {
            (pipelined, ports): self.part_table(pipelined, ports) for pipelined in (True, False) for ports in PORTS
        }
        self.least = LeastCosts(self.tables, goal.objective, {c.metric: c.limit for c in self.constraints})
        # tables of all parts take seconds, in which nothing is searched: they are asked where hardware of one lane has no room only
        short = None if self.sequential_fits() else self.least.shortage(program.name)
        if short is not None:
            raise NoRoomPredictedError(short, self.least.least_gates(), self.smallest_sequential())
        self.decisions: tuple[Decision, ...] = self.choices.decisions

    def part_table(self, pipelined: bool, ports: int) -> PartTable:
        """What each operation may cost, pipelined or not, with so many read ports."""
        program = self.program
        return PartTable(self.choices, program.batch, program.parameters, self.board, pipelined, ports)

    def sequential_fits(self) -> bool:
        """Whether hardware has room, by the model, that does one step after the other."""
        there = self.goal.budget or self.board.gates
        return any(not gates.missing(there) for gates in self._sequential)

    def smallest_sequential(self) -> Gates:
        """What hardware takes, by the model, that does one step after the other: of multipliers or without, whichever lacks less room."""
        there = self.goal.budget or self.board.gates
        return min(self._sequential, key=lambda gates: _excess(gates, there))

    @cached_property
    def _sequential(self) -> tuple[Gates, ...]:
        """By multipliers, and without them."""
        choices, found = self.choices, []
        ways = [choices.ways(row) for row in range(len(choices.operations))]
        for soft in (False, True):
            chosen = {row: next((w for w in several if w.soft == soft), several[0]) for row, several in enumerate(ways)}
            plan = make_plan(self.program.batch, self.program.parameters, choices.design(chosen, True, 1))
            found.append(estimate(plan, self.board).gates)
        return tuple(found)

    @cached_property
    def objectives(self) -> tuple[Objective, ...]:
        """What is asked for, and what decides among equals."""
        return tuple(Objective(metric) for metric in OBJECTIVES[self.goal.objective])

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """The board's gates, and the limit on latency."""
        return gate_constraints(self.board, self.goal)

    @property
    def ranking(self) -> Ranking:
        """Which measurement is better."""
        return Ranking(self.objectives, self.constraints)

    def plan(self, assignment: Assignment) -> HardwarePlan:
        """The hardware of a candidate. ValueError, a sentence, where no memory can feed it."""
        return make_plan(self.program.batch, self.program.parameters, self.choices.design_of(assignment))

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """Estimates."""
        return [self._measured(assignment) for assignment in batch]

    def _measured(self, assignment: Assignment) -> Measurement:
        try:
            return Measurement(hardware_metrics(estimate(self.plan(assignment), self.board)))
        except ValueError as error:
            return Measurement(failure=str(error))


def _excess(gates: Gates, there: Gates) -> float:
    """How much more of a kind than there is a design takes, as a share."""
    return max((taken / most - 1.0 if most else math.inf for taken, most in gates.missing(there).values()), default=0.0)
