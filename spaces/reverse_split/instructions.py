"""Programs instruction by instruction: what any program can be written as, also one that no split leads to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, permutations, product

from kilotune.codegen.scamp.instructions import Instruction, instruction_set
from kilotune.codegen.scamp.plan import Plan, PlanStep
from kilotune.codegen.scamp.sums import DIRECTIONS, InexactHalfError, Sum

_STEP = re.compile(r"(\w+)((?: \d+)*)((?: (?:north|east|south|west))*)", re.ASCII)


def step_name(step: PlanStep) -> str:
    """`name operands directions`; operands are value numbers, 0 the image."""
    return " ".join([step.op, *map(str, step.operands), *step.directions])


def named_step(name: str) -> PlanStep:
    """ValueError for a text that is no step."""
    match = _STEP.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is no instruction")
    return PlanStep(match[1], tuple(map(int, match[2].split())), tuple(match[3].split()))


def next_steps(target: str, values: list[Sum], window: int) -> Iterator[tuple[PlanStep, Sum]]:
    """Every instruction on the image and the last values whose result is new; of equal results the first instruction."""
    known = set(values)
    recent = [*range(len(values))][-window:]
    numbers = recent if 0 in recent else [0, *recent]
    for row in instruction_set(target).rows:
        if row.operands == 1 and not any(row.shifted) and row.signs == (1,) and not row.halvings:
            continue  # a copy
        for operands in _operands(row, numbers):
            for directions in product(DIRECTIONS, repeat=row.directions):
                if row.directions == 2 and row.offset(directions) == (0, 0):
                    continue
                try:
                    result = row.apply([values[number] for number in operands], directions)
                except InexactHalfError:
                    continue
                if result not in known:
                    known.add(result)
                    yield PlanStep(row.name, operands, directions), result


def apply_step(target: str, step: PlanStep, values: list[Sum]) -> Sum:
    """Its result. ValueError when the target has no such instruction, or a value is not there or has no half."""
    if any(operand >= len(values) for operand in step.operands):
        raise ValueError(f"{step_name(step)!r} reads a value that is not there")
    try:
        row = instruction_set(target).get(step.op, len(step.operands))
        return row.apply([values[number] for number in step.operands], step.directions)
    except (KeyError, InexactHalfError) as error:
        raise ValueError(f"{step_name(step)!r} cannot be done: {error}") from error


def plan_of_steps(
    target: str, depth: int, steps: list[PlanStep], values: list[Sum], wanted: tuple[Sum, ...]
) -> Plan | None:
    """The plan when all wanted sums are among the values, else None. Of equal values the last is the result: a program that computes one
    again had its register in use in between."""
    places = {total: number for number, total in enumerate(values)} | {values[0]: 0}
    if any(total not in places for total in wanted):
        return None
    return Plan(target, depth, tuple(steps), tuple(places[total] for total in wanted))


def _operands(row: Instruction, numbers: list[int]) -> Iterator[tuple[int, ...]]:
    alike = len(set(zip(row.signs, row.shifted, strict=True))) <= 1
    yield from (combinations if alike else permutations)(numbers, row.operands)
    if row.operands == 2 and not row.distinct and alike:
        yield from ((number, number) for number in numbers)
