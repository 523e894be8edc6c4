"""A program that takes too many registers, computed in those that there are at the least cost: a pebble game, played to its end.

Registers are pebbles on values (Sethi 1975): which values are held, which is computed next and which gives way is searched best first
(`pebbling.c`). What `recomputing.py` draws at random is exact here, of plans that are short enough: the values stay those of the plan, the
order and what is computed again are the cheapest there are.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from kilotune.codegen.scamp.plan import Plan, PlanStep, without_dead_steps
from kilotune.codegen.scamp.registers import legalised, needed_registers
from kilotune.evaluators.c_structures import structures
from kilotune.evaluators.compiled_library import load_library

MOST_STEPS = 63
OPERANDS, LONGEST = 3, 4096
STATES = 60_000
"""Sets of held values that one search may meet: some tens of milliseconds."""

_FOUND = 1

(_Pebbling,) = structures(Path(__file__).with_name("pebbling.c"), "Pebbling")


@cache
def load_pebbling() -> ctypes.CDLL | None:
    """The library; None when there is no working C compiler."""
    loaded = load_library(Path(__file__).with_name("pebbling.c"))
    if loaded is None:
        return None
    loaded.library.kilotune_pebble.argtypes = [ctypes.POINTER(_Pebbling), ctypes.c_void_p, ctypes.c_void_p]
    loaded.library.kilotune_pebble.restype = ctypes.c_int
    return loaded.library


def pebbled(
    plan: Plan, registers: int, price: Callable[[PlanStep], int], below: int, kept: bool = True, states: int = STATES
) -> Plan | None:
    """The cheapest plan of the same results that computes only values of this one and takes at most so many registers.

    None where none costs less than `below` at the `price` of its steps, where `states` did not do to find it, for a plan that is too long,
    and without a compiler. `kept`: results stay in their registers to the end. Raises `MemoryError`."""
    library = load_pebbling()
    if len(plan.steps) > MOST_STEPS:
        return None
    whole = legalised(without_dead_steps(plan))
    rows = [whole.instruction(step) for step in whole.steps]
    if library is None or len(rows) > MOST_STEPS or any(row.destroyed for row in rows):
        return None
    operands = np.full((len(rows), OPERANDS), -1, dtype=np.int32)
    for number, step in enumerate(whole.steps):
        operands[number, : len(step.operands)] = step.operands
    apart = np.array([sum(1 << index for index in row.apart) for row in rows], dtype=np.uint8)
    cost = np.array([price(step) for step in whole.steps], dtype=np.int32)
    results = sum(1 << result for result in set(whole.results) if result)
    addresses = (operands.ctypes.data, apart.ctypes.data, cost.ctypes.data)
    problem = _Pebbling(len(rows), registers, int(kept), below, states, 0, results, *addresses)
    order, count = np.zeros(LONGEST, dtype=np.int32), np.zeros(1, dtype=np.int32)
    answer = library.kilotune_pebble(ctypes.byref(problem), order.ctypes.data, count.ctypes.data)
    if answer > 2:
        raise MemoryError("The search for registers ran out of memory.")
    if answer != _FOUND:
        return None
    found = _written(whole, order[: int(count[0])].tolist())
    return found if needed_registers(found, kept) <= registers else None


def _written(plan: Plan, order: list[int]) -> Plan:
    """The plan whose steps are computed in an order in which some stand more than once."""
    latest, steps = {0: 0}, list[PlanStep]()
    for number in order:
        step = plan.steps[number - 1]
        steps.append(PlanStep(step.op, tuple(latest[operand] for operand in step.operands), step.directions))
        latest[number] = len(steps)
    return Plan(plan.target, plan.depth, tuple(steps), tuple(latest[result] for result in plan.results))
