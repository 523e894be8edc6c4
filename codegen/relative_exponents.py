"""Exponents of sums like ProtoNN's, less the largest of them: scores that are all multiplied by the same number have the same class.

A program that adds up `Z[j] * exp(t[j])` in a loop and returns the place of the largest sum, or the sign of the sum, may as well add up
`Z[j] * exp(t[j] - t[i])` with the largest t[i]: one of these exponentials is 1. In a table of 16 bits, e**t is 0 from about t = -10 on, so
of a sample that is far from all prototypes every score would be 0, and its class the first one.

All t[j] are computed first and kept, then the largest is sought, then the sum is made.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray
from kilotune.codegen.fixed.exponential import shiftry_exponential
from kilotune.codegen.float_evaluator import run_float

EXPONENTS, LARGEST, AHEAD, RELATIVE = "exponents", "largest_exponent", "ahead_by", "relative_exponent"
"""The variables that are new, where the program has none of that name."""

PASS, SEEN = "exponent", "seen"
"""The loops that are new: the one that computes exponents, and the one that seeks the largest."""

LARGEST_EXPONENT = math.log(sys.float_info.max)

_FIRST = ir.Affine()

_NAMES = frozenset((EXPONENTS, LARGEST, AHEAD, RELATIVE, PASS, SEEN))


@dataclass(frozen=True)
class _Sum:
    """`loop`, at `place` of the program's body, computes an exponent in the operations before its number `exp`, and adds what comes of
    it to the scores behind."""

    place: int
    loop: ir.Loop
    exp: int

    @property
    def exponent(self) -> ir.View:
        function = self.loop.body[self.exp]
        assert isinstance(function, ir.Exp)
        return function.a


def with_relative_exponents(program: ir.Program) -> ir.Program | None:
    """The program that returns the same class with exponents of at most 0, of which one of each sample is 0; None for one that adds up no
    exponentials as ProtoNN does."""
    found = _sum(program)
    if found is None:
        return None
    first, loop, body = _exponents_first(program, found), found.loop, list(program.body)
    function = loop.body[found.exp]
    assert isinstance(function, ir.Exp)
    shape = function.a.shape
    relative = _element(RELATIVE, shape)
    kept = _element(EXPONENTS, shape, ir.Affine(-loop.start, ((loop.index, 1),)))
    less = ir.Subtract(relative, loop.location, kept, _element(LARGEST, shape))
    behind = (less, dataclasses.replace(function, a=relative), *loop.body[found.exp + 1 :])
    body[found.place : found.place + 1] = [*first.body[found.place :], dataclasses.replace(loop, body=behind)]
    new = ir.Variable(RELATIVE, (1,), ir.Role.TEMPORARY, loop.location)
    variables = (*first.variables, new)
    return dataclasses.replace(program, variables=variables, body=tuple(body))


def relative_where_lost(
    program: ir.Program, parameters: Mapping[str, FloatArray], features: FloatArray
) -> tuple[ir.Program, int]:
    """The program, with relative exponents where of some samples all exponentials are 0 in a table of 16 bits; of how many they are."""
    lost = samples_without_scores(program, parameters, features)
    relative = with_relative_exponents(program) if lost else None
    return (program, 0) if relative is None else (relative, lost)


def samples_without_scores(program: ir.Program, parameters: Mapping[str, FloatArray], features: FloatArray) -> int:
    """How many samples have exponentials that are all 0 in a table of 16 bits; 0 for a program that adds up none as ProtoNN does."""
    found = _sum(program)
    if found is None:
        return 0
    largest = run_float(_exponents_first(program, found), parameters, features).outputs[:, 0]
    if (
        not largest.max() < LARGEST_EXPONENT
    ):  # no exponential is small beside one that overflows, which is refused by name
        return 0
    least = -math.log(2) * shiftry_exponential(16, float(largest.max())).scale
    return int(np.count_nonzero(largest < least))


def _exponents_first(program: ir.Program, found: _Sum) -> ir.Program:
    """What stands before the sum, then all its exponents, and the largest of them, which is what the program returns."""
    loop, here, shape = found.loop, found.loop.location, found.exponent.shape
    largest, ahead = _element(LARGEST, (1,)), _element(AHEAD, ())

    def renamed(view: ir.View) -> ir.View:
        terms = tuple(sorted((PASS if name == loop.index else name, factor) for name, factor in view.offset.terms))
        return dataclasses.replace(view, offset=ir.Affine(view.offset.constant, terms))

    computed = [ir.with_views(one, renamed) for one in ir.operations(loop.body[: found.exp])]
    kept = _element(EXPONENTS, shape, ir.Affine(-loop.start, ((PASS, 1),)))
    computed.append(ir.Copy(kept, here, renamed(found.exponent)))
    seen = ir.Affine(0, ((SEEN, 1),))
    sought = (
        ir.Subtract(ahead, here, _element(EXPONENTS, (), seen), _element(LARGEST, ())),
        ir.Select(largest, here, ahead, _element(EXPONENTS, (1,), seen), largest, strict=True),
    )
    body = (
        *program.body[: found.place],
        ir.Loop(PASS, loop.start, loop.count, tuple(computed), here),
        ir.Copy(largest, here, _element(EXPONENTS, (1,))),
        ir.Loop(SEEN, 1, loop.count - 1, sought, here),
    )
    shapes: dict[str, tuple[int, ...]] = {EXPONENTS: (loop.count,), LARGEST: (1,), AHEAD: ()}
    new = (ir.Variable(name, held, ir.Role.TEMPORARY, here) for name, held in shapes.items())
    variables = (*program.variables, *new)
    return dataclasses.replace(program, variables=variables, body=body, result=largest, result_kind=ir.ResultKind.REAL)


def _element(variable: str, shape: tuple[int, ...], offset: ir.Affine = _FIRST) -> ir.View:
    """One element of a variable, of a shape of one element."""
    return ir.View(variable, shape, (1,) * len(shape), offset)


def _sum(program: ir.Program) -> _Sum | None:
    """Where the exponentials are that a program returns the place of the largest sum of, or the sign of the sum: with one loop before that,
    whose sums begin at 0."""
    *before, last = program.body or (None,)
    if (
        not isinstance(last, ir.ArgMax | ir.Sign)
        or last.out != program.result
        or {v.name for v in program.variables} & _NAMES
    ):
        return None
    scores = last.a.variable
    place = next((i for i, one in enumerate(before) if _writes(one, scores) and isinstance(one, ir.Loop)), None)
    if place is None or place != len(before) - 1:
        return None
    loop = before[place]
    assert isinstance(loop, ir.Loop)
    starts = [one for one in before if not isinstance(one, ir.Loop) and _writes(one, scores)]
    if len(starts) != 1 or not isinstance(starts[0], ir.Fill) or starts[0].value != 0.0:
        return None
    exp = next((i for i, one in enumerate(loop.body) if isinstance(one, ir.Exp)), None)
    if exp is None or not _adds_up(loop, exp, scores, program):
        return None
    return _Sum(place, loop, exp)


def _adds_up(loop: ir.Loop, exp: int, scores: str, program: ir.Program) -> bool:
    """Whether what stands behind the exponential is its product with a parameter, which is added to the scores, and whether what stands
    before it needs nothing of that."""
    function, before, behind = loop.body[exp], loop.body[:exp], loop.body[exp + 1 :]
    if not isinstance(function, ir.Exp) or function.a.size != 1 or len(behind) != 2 or loop.count < 2:
        return False
    product, added = behind
    if not isinstance(product, ir.Multiply) or not isinstance(added, ir.Add):
        return False
    factors = {one.variable for one in product.operands if isinstance(one, ir.View)} - {function.out.variable}
    if len(factors) != 1 or program.variable(factors.pop()).role is not ir.Role.PARAMETER:
        return False
    if added.out != added.a or added.out.variable != scores or added.b != product.out:
        return False
    written = {scores, product.out.variable, function.out.variable}
    return all(isinstance(one, ir.OperationBase) and not _touches(one, written) for one in before)


def _writes(statement: ir.Statement, variable: str) -> bool:
    return any(one.out.variable == variable for one in ir.operations((statement,)))


def _touches(statement: ir.Statement, variables: set[str]) -> bool:
    """Whether an operation reads or writes one of these variables."""
    views = [view for one in ir.operations((statement,)) for view in (one.out, *one.operands)]
    return any(isinstance(view, ir.View) and view.variable in variables for view in views)
