"""Other programs as cheap, value by value, and shorter ones on the way: compiled.

One value of a program is exchanged for another, thousands of times a second: what read it is computed from the new one and from the others.
No other values leave, so a program stays as cheap until something is there that saves an instruction. A question of `improvement.py` may
free more values and new ones may follow from one another, but takes as long as thirty of these.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

import numpy as np

from kilotune.codegen.scamp.plan import Plan
from kilotune.evaluators.c_structures import structures
from kilotune.evaluators.compiled_library import load_library
from kilotune.evaluators.interruptible import StopFlag, interruptible
from kilotune.spaces.reverse_split.programs import PLACES, evaluation_point, step_of_row

LONGEST = 126
"""Instructions."""

NUMBERS = 5
SLOTS = 128

_OPS: Mapping[str, int] = MappingProxyType({"mov": 0, "add": 1, "sub": 2, "neg": 3, "addneg": 4, "div2": 5, "divq": 5})
_ADD3 = 7
_UNFIT = -2
_WORD = (1 << 64) - 1

(_Exchange,) = structures(Path(__file__).with_name("exchanging_state.h"), "Exchange")


@cache
def load_exchange() -> ctypes.CDLL | None:
    """The library; None when there is no working C compiler."""
    loaded = load_library(Path(__file__).with_name("exchanging.c"))
    if loaded is None:
        return None
    function = loaded.library.kilotune_exchange
    function.argtypes = [ctypes.POINTER(_Exchange), *[ctypes.c_void_p] * 3]
    function.restype = ctypes.c_int
    return loaded.library


def exchanged(plan: Plan, registers: int | None, seed: int, work: int, kept: bool = True) -> tuple[Plan | None, int]:
    """A plan that computes the same results in at most as many instructions and no more than `registers` (None: any number), and how many
    values were looked at, about `work`.

    `kept`: results stay in their registers to the end. None where the plan is too long, has copies or values that are computed twice, and
    without a compiler. Raises `MemoryError`.
    """
    library = load_exchange()
    rows = _rows(plan) if len(plan.steps) <= LONGEST else None
    if library is None or rows is None:
        return None, 0
    step = np.zeros((LONGEST, NUMBERS), dtype=np.int32)
    step[: len(rows)] = rows
    number, done = np.zeros(SLOTS, dtype=np.int32), np.zeros(1, dtype=np.int64)
    results = sum(1 << result for result in set(plan.results))
    words = (ctypes.c_uint64 * 2)(results & _WORD, results >> 64)
    limit = SLOTS if registers is None else registers
    instructions = 0 if plan.target == "auke" else 1
    flag = StopFlag()
    problem = _Exchange(
        instructions, limit, int(kept), len(rows), words, seed, *evaluation_point(), 1, work, flag.address
    )

    def call() -> int:
        return int(
            library.kilotune_exchange(ctypes.byref(problem), *(array.ctypes.data for array in (step, number, done)))
        )

    count = interruptible(call, flag.set)
    if count == _UNFIT:
        return None, 0
    if count < 0:
        raise MemoryError("The search for programs ran out of memory.")
    steps = tuple(step_of_row(plan.target, *row) for row in step[:count].tolist())
    found = Plan(plan.target, plan.depth, steps, tuple(int(number[result]) for result in plan.results))
    return found, int(done[0])


def _rows(plan: Plan) -> list[tuple[int, ...]] | None:
    """The steps as exchanging.c numbers them; None where one is none of its."""
    rows = []
    for step in plan.steps:
        row = plan.instruction(step)
        x, y = row.offset(step.directions)
        moves = any(row.shifted) and len(step.operands) == 1
        op = 0 if moves else _OPS.get(step.op.removesuffix("2x").removesuffix("x"))
        if op is None or (x, y) not in PLACES or (op == 0 and (x, y) == (0, 0)) or row.destroyed:
            return None
        if row.distinct and len(set(step.operands)) < len(step.operands):
            return None
        operands = (*step.operands, 0, 0)[:3]
        rows.append((_ADD3 if len(step.operands) == 3 else op, PLACES.index((x, y)), *operands))
    return rows
