"""Orders of a program's steps that fit the registers, compiled: a walk asks for one after every change of a program.

The rules are those of `codegen/scamp/registers.py`, whose own search looks at a thousandth as many orders in the same time.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import numpy as np

from kilotune.codegen.scamp.instructions import REGISTERS
from kilotune.codegen.scamp.plan import Plan, reordered, without_dead_steps
from kilotune.codegen.scamp.registers import legalised, needed_registers, searched_order
from kilotune.evaluators.compiled_library import load_library

SETS = 4_000
"""Sets of computed values that one search may visit: a few milliseconds where it fails."""

MOST_STEPS = 255
"""Longer plans keep their own order."""

OPERANDS = 3
_FOUND = 1


@cache
def load_scheduler() -> ctypes.CDLL | None:
    """The library; None when there is no working C compiler."""
    loaded = load_library(Path(__file__).with_name("scheduling.c"))
    if loaded is None:
        return None
    function = loaded.library.kilotune_schedule
    number, pointer = ctypes.c_int32, ctypes.c_void_p
    function.argtypes = [number, number, pointer, pointer, pointer, ctypes.c_int64, pointer]
    function.restype = ctypes.c_int
    return loaded.library


def fitted(plan: Plan, registers: int, kept: bool = True, sets: int = SETS) -> Plan | None:
    """The plan without dead steps, with the copies that it needs, in an order that takes at most that many registers; None
    when none was found within `sets`. `kept`: results stay to the end. Without a C compiler as `registers.schedule` does.
    Raises `MemoryError`."""
    whole = legalised(without_dead_steps(plan))
    order = _order(whole, registers, kept, sets)
    return None if order is None else reordered(whole, order)


def fitting_order(plan: Plan, registers: int, kept: bool = True, sets: int = SETS) -> list[int] | None:
    """The numbers of the steps, from 1, of a plan without dead ones, in an order that takes at most that many registers with
    the copies that it needs; its own order where that does. None and raises as `fitted`."""
    whole = legalised(plan)
    order = _order(whole, registers, kept, sets)
    if order is None or len(whole.steps) == len(plan.steps):
        return order
    own, number = dict[int, int](), 0
    for place, step in enumerate(whole.steps, start=1):
        # a copy that was put in comes right before the step that it is for
        if number < len(plan.steps) and (step.op, step.directions) == (
            plan.steps[number].op,
            plan.steps[number].directions,
        ):
            number += 1
            own[place] = number
    return [own[place] for place in order if place in own] if number == len(plan.steps) else None


def _order(whole: Plan, registers: int, kept: bool, sets: int) -> list[int] | None:
    if needed_registers(whole, kept) <= registers:
        return list(range(1, len(whole.steps) + 1))
    library = load_scheduler()
    rows = [whole.instruction(step) for step in whole.steps]
    if len(rows) > MOST_STEPS:
        return None
    if library is None or any(row.destroyed for row in rows):
        return searched_order(whole, registers, kept)
    operands = np.full((len(rows), OPERANDS), -1, dtype=np.int32)
    uses = np.zeros(len(rows) + 1, dtype=np.int32)
    for number, step in enumerate(whole.steps):
        operands[number, : len(step.operands)] = step.operands
        for operand in step.operands:
            uses[operand] += 1
    for result in whole.results if kept else ():
        uses[result] += 1
    apart = np.array([sum(1 << index for index in row.apart) for row in rows], dtype=np.uint8)
    order = np.zeros(len(rows), dtype=np.int32)
    arrays = (operands.ctypes.data, apart.ctypes.data, uses.ctypes.data)
    answer = library.kilotune_schedule(len(rows), registers, *arrays, sets, order.ctypes.data)
    if answer > 2:
        raise MemoryError("The search for an order ran out of memory.")
    return (order + 1).tolist() if answer == _FOUND else None


def least_registers(plan: Plan, most: int, kept: bool = True) -> int:
    """The fewest registers that an order was found for, `most` where none was found for fewer; at least one."""
    whole = fitted(plan, most, kept)
    count = most if whole is None else min(most, needed_registers(whole, kept))
    while count > 1 and (found := fitted(whole or plan, count - 1, kept)) is not None:
        whole, count = found, min(count - 1, needed_registers(found, kept))
    return count


MOST_REGISTERS = 4 * len(REGISTERS)
"""More than any plan of a walk takes."""
