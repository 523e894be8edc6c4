"""A program before register allocation: values numbered in the order of their computation (static single assignment)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from kilotune.codegen.scamp.instructions import Instruction, instruction_set
from kilotune.codegen.scamp.sums import InexactHalfError, Sum


@dataclass(frozen=True)
class PlanStep:
    """One instruction: its name, the numbers of the values that it takes, and its written directions."""

    op: str
    operands: tuple[int, ...]
    directions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Value 0 is the input image, value k the result of `steps[k - 1]`; `results` are the kernels' values in order.

    Weights are multiples of `2**-depth`.
    """

    target: str
    depth: int
    steps: tuple[PlanStep, ...]
    results: tuple[int, ...]

    def instruction(self, step: PlanStep) -> Instruction:
        """The row of the target's instruction set. Raises `KeyError` for an instruction that the target lacks."""
        return _row(self.target, step.op, len(step.operands))

    @property
    def bus_transfers(self) -> int:
        return sum(self.instruction(step).bus_transfers for step in self.steps)


@cache
def _row(target: str, op: str, operands: int) -> Instruction:
    return instruction_set(target).get(op, operands)


def evaluate(plan: Plan) -> tuple[Sum, ...]:
    """What every value holds, the input first, in units of `2**-depth`. Raises `InexactHalfError`, `KeyError`."""
    values = [Sum.image(plan.depth)]
    for step in plan.steps:
        operands = [values[number] for number in step.operands]
        values.append(plan.instruction(step).apply(operands, step.directions))
    return tuple(values)


def is_exact(plan: Plan) -> bool:
    """Whether every value on the way is a multiple of `2**-depth`, so that it can be computed in these units."""
    try:
        evaluate(plan)
    except InexactHalfError:
        return False
    return True


def computed(plan: Plan) -> tuple[Sum, ...]:
    """What the plan's results hold. Raises as `evaluate`."""
    values = evaluate(plan)
    return tuple(values[number] for number in plan.results)


def without_dead_steps(plan: Plan) -> Plan:
    """The plan without the steps whose values reach no result, renumbered."""
    needed = set(plan.results)
    for number in range(len(plan.steps), 0, -1):
        if number in needed:
            needed.update(plan.steps[number - 1].operands)
    kept = [number for number in range(1, len(plan.steps) + 1) if number in needed]
    return reordered(plan, kept)


def reordered(plan: Plan, order: Sequence[int]) -> Plan:
    """The plan with only the values of `order` (step numbers from 1), in that order, renumbered.

    Raises `KeyError` when a value is used before it is there.
    """
    renumbered = {0: 0}
    steps = []
    for number in order:
        step = plan.steps[number - 1]
        steps.append(PlanStep(step.op, tuple(renumbered[operand] for operand in step.operands), step.directions))
        renumbered[number] = len(steps)
    return Plan(plan.target, plan.depth, tuple(steps), tuple(renumbered[result] for result in plan.results))
