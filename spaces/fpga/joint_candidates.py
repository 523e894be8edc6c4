"""Widths and scales of every variable and the hardware decided together: narrow operands take fewer gates, which pay for more lanes.

The formats are those of the space shiftry, whose training accuracy must not fall further than it allows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

from kilotune.codegen.fixed.table import FixedBatch
from kilotune.codegen.rtl.plan import HardwarePlan, decidable, make_plan
from kilotune.evaluators.fpga.boards import Board
from kilotune.evaluators.fpga.cost_model import estimate
from kilotune.search.fingerprint import fingerprint
from kilotune.search.flat_state import FlatState
from kilotune.search.space import (
    Assignment,
    Constraint,
    Decision,
    Measurement,
    Objective,
    Option,
)
from kilotune.spaces.fpga.candidates import (
    FASTEST,
    OBJECTIVES,
    SEMANTICS,
    FixedProgram,
    HardwareGoal,
    gate_constraints,
    hardware_metrics,
)
from kilotune.spaces.fpga.choices import HardwareChoices
from kilotune.spaces.fpga.joint_parts import RememberedParts, RememberingSpace
from kilotune.spaces.shiftry.space import ShiftrySpace

Formats = dict[str, Option]
"""Widths and scales by variable: the part of a candidate that the space shiftry decides."""


class JointCandidates:
    """What a candidate of both spaces means and measures; metrics are those of both."""

    name = "fpga"

    def __init__(
        self,
        formats: ShiftrySpace,
        name: str,
        board: Board,
        goal: HardwareGoal = FASTEST,
        remembered: RememberedParts | None = None,
    ) -> None:
        """`remembered`: the parts that another such space of this model and board knows."""
        self.formats, self.board, self.goal, self.model_name = formats, board, goal, name
        self.remembered = remembered or RememberedParts()
        task, first = formats.task, {d.name: d.options[0] for d in formats.decisions}
        factors = decidable(task.program, formats.lower([first]))
        self.choices = HardwareChoices(task.program, task.parameters, factors, board.gates.multipliers > 0)
        self.decisions: tuple[Decision, ...] = (*formats.decisions, *self.choices.decisions)

    @cached_property
    def objectives(self) -> tuple[Objective, ...]:
        """What is asked for of the hardware, and what decides among equals."""
        return tuple(Objective(metric) for metric in OBJECTIVES[self.goal.objective])

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """The board's gates, the limit on latency, and the accuracy that may be lost."""
        return (*gate_constraints(self.board, self.goal), *self.formats.constraints)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of both problems."""
        return fingerprint(
            "fpga joint", SEMANTICS, self.formats.fingerprint, self.board.family, self.board.gates, self.goal
        )

    def size(self) -> int:
        """Number of candidates."""
        return math.prod(len(decision.options) for decision in self.decisions)

    def start(self) -> FlatState:
        """Nothing decided."""
        return FlatState(self.decisions, 0.0)

    def lower(self, assignment: Assignment) -> FixedBatch:
        """The fixed-point program of a candidate."""
        return self.formats.lower([self.formats_in(assignment)])

    def plan(self, assignment: Assignment) -> HardwarePlan:
        """The hardware of a candidate. ValueError, a sentence, where it cannot be built."""
        return make_plan(self.lower(assignment), self.formats.task.parameters, self.choices.design_of(assignment))

    def formats_in(self, assignment: Assignment) -> Formats:
        """What a candidate says of widths and scales."""
        return {decision.name: assignment[decision.name] for decision in self.formats.decisions}

    def evaluate(self, batch: Sequence[Assignment]) -> list[Measurement]:
        """Accuracy on the training data, and estimates of the hardware."""
        measured = self.formats.evaluate([self.formats_in(assignment) for assignment in batch])
        return [self._with_hardware(a, m) for a, m in zip(batch, measured, strict=True)]

    def _with_hardware(self, assignment: Assignment, formats: Measurement) -> Measurement:
        try:
            return Measurement({**formats.metrics, **hardware_metrics(estimate(self.plan(assignment), self.board))})
        except ValueError as error:
            return Measurement(failure=str(error))

    def unrolling(self, formats: Assignment, goal: HardwareGoal | None = None) -> RememberingSpace:
        """The hardware alone, for given widths and scales and maybe another goal. ValueError, a sentence, where the board has no room."""
        program = FixedProgram(self.model_name, self.formats.lower([formats]), self.formats.task.parameters)
        return RememberingSpace(program, self.board, goal or self.goal, self.remembered)
