"""Programs that take too many registers, made to fit: a value that has to go is computed again where it is wanted again.

The chip cannot spill, but a shifted image costs one instruction. Results are asked for one after the other, and values stay in
registers until one is needed: then the one that is cheapest to have again goes. The orders of results and operands and equal
choices are drawn, and the shortest of several programs is taken.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from kilotune.codegen.scamp.plan import Plan, PlanStep, without_dead_steps
from kilotune.codegen.scamp.registers import legalised, needed_registers

DRAWS = 24
DRAWN_STEPS = 960
"""Steps of all draws together of a plan that is long; one draw takes a millisecond for ten steps."""

MOST_GROWTH = 3
"""A program that becomes longer than this many times the given one is given up."""


def recomputed(plan: Plan, registers: int, kept: bool = True, seed: int = 0, draws: int = DRAWS) -> Plan | None:
    """The shortest plan found of the same results that takes at most so many registers in its own order; None where none was.

    `kept`: results stay in their registers to the end.
    """
    whole = legalised(without_dead_steps(plan))
    if any(whole.instruction(step).destroyed for step in whole.steps):
        return None
    generator, best = random.Random(seed), None
    for draw in range(max(1, min(draws, DRAWN_STEPS // max(1, len(whole.steps))))):
        found = _Evaluation(whole, registers, kept, generator).plan(shuffled=draw > 0)
        if found is None or (best is not None and len(found.steps) >= len(best.steps)):
            continue
        if needed_registers(found, kept) <= registers:
            best = found
    return best


class _NoRegisterError(Exception):
    """Every register holds what is wanted now."""


class _Evaluation:
    """Values are asked for by their numbers in the given plan; `_held` says which are in registers, and under which new number."""

    def __init__(self, plan: Plan, registers: int, kept: bool, generator: random.Random) -> None:
        self._plan, self._registers, self._kept, self._random = plan, registers, kept, generator
        self._steps: list[PlanStep] = []
        self._held = {0: 0}
        self._pinned = [0] * (len(plan.steps) + 1)
        self._pinned[0] = 1  # nothing else can be computed again without the image
        self._wanted = [0] * (len(plan.steps) + 1)
        for step in plan.steps:
            for operand in step.operands:
                self._wanted[operand] += 1
        self._first = [True] * (len(plan.steps) + 1)
        self._longest = MOST_GROWTH * len(plan.steps)

    def plan(self, shuffled: bool) -> Plan | None:
        """The whole program; None where the registers do not do."""
        order = list(dict.fromkeys(self._plan.results))
        if shuffled:
            self._random.shuffle(order)
        found: dict[int, int] = {}
        try:
            for result in order:
                self._get(result)
                found[result] = self._held[result]
                self._pinned[result] += self._kept
        except _NoRegisterError:
            return None
        results = tuple(found[result] for result in self._plan.results)
        return without_dead_steps(Plan(self._plan.target, self._plan.depth, tuple(self._steps), results))

    def _get(self, value: int) -> None:
        """Have a value in a register."""
        if value in self._held:
            return
        step = self._plan.steps[value - 1]
        operands = list(dict.fromkeys(step.operands))
        self._random.shuffle(operands)
        operands.sort(key=lambda operand: -self._effort(operand))
        for operand in operands:
            self._get(operand)
            self._pinned[operand] += 1
        if self._first[value]:
            self._first[value] = False
            for operand in step.operands:
                self._wanted[operand] -= 1
        for operand in operands:
            self._pinned[operand] -= 1
        numbers = tuple(self._held[operand] for operand in step.operands)
        apart = {step.operands[index] for index in self._plan.instruction(step).apart}
        self._make_room(apart)
        self._steps.append(PlanStep(step.op, numbers, step.directions))
        self._held[value] = len(self._steps)
        if len(self._steps) > self._longest:
            raise _NoRegisterError

    def _make_room(self, apart: set[int]) -> None:
        """Free a register, which may be that of an operand unless the instruction keeps it apart."""
        if len(self._held) < self._registers:
            return
        free = [value for value in self._held if not self._pinned[value] and value not in apart]
        if not free:
            raise _NoRegisterError
        del self._held[min(free, key=lambda v: (self._wanted[v] > 0, self._effort_again(v), self._random.random()))]

    def _effort(self, value: int) -> int:
        """How many instructions a value takes from what is held, counted without sharing; a few levels deep."""
        return 0 if value in self._held else self._effort_again(value)

    def _effort_again(self, value: int, levels: int = 4) -> int:
        if not value or not levels:
            return 1
        operands: Sequence[int] = self._plan.steps[value - 1].operands
        return 1 + sum(self._effort_again(o, levels - 1) for o in set(operands) if o not in self._held)
