"""Factors that all weights of a sum have in common, taken out of it: the sum is multiplied once, and not each of its weights.

Codes stand for integers that are powers of two times them, the same power for all weights of one sum (`codegen.fixed.encoding`). Sums are
taken modulo a power of two, so a sum of codes that is multiplied at its end is the sum of integers, whatever wraps on the way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kilotune.codegen import ir
from kilotune.codegen.emit.context import Context, SumOfProducts


@dataclass(frozen=True)
class Finish:
    """What a sum is multiplied by: 2**`shift`, and of `rows` (operand number, array of shifts) 2 to the power of the row's shift; by
    2**`most` at most."""

    shift: int = 0
    rows: tuple[tuple[int, str], ...] = ()
    most: int = 0


@dataclass(frozen=True)
class FinishedSum:
    """A sum with the factors that were taken out of it. `then`: what takes it on instead of storing, at counters of the result;
    `complete`: of quantised programs, what writes the element instead, given the number of its channel and an lvalue."""

    sum: SumOfProducts
    finish: Finish
    then: Callable[[SumOfProducts, Sequence[str]], None] | None = None
    complete: Callable[[str, str], None] | None = None

    @property
    def by_rows(self) -> bool:
        """Whether what is stored depends on the rows of the operands."""
        return bool(self.finish.rows) or self.complete is not None

    def store(self, place: tuple[str, str], target: str, bits: int, at: Sequence[str] = ()) -> None:
        """Multiply it and write the result. `place`: the row of the left operand and that of the right one which it is the sum of;
        `at`: the counters of the result, for what takes the sum on."""
        for number, array in self.finish.rows:
            self.sum.scaled_up(f"KT_LOAD_PLACE8(&{array}[{place[number]}])")
        if self.finish.shift:
            self.sum.scaled_up(str(self.finish.shift))
        if self.complete is not None:
            self.complete(place[1], target)
        elif self.then is None:
            self.sum.store(target, bits)
        else:
            self.then(self.sum, at)


def take_out_factors(context: Context, operation: ir.Product, total: SumOfProducts) -> tuple[Context, Finish]:
    """The context in which the codes of operands are read, and what makes up for that.

    ValueError for a parameter with row shifts in a sum that divides its products: those cannot be multiplied afterwards.
    """
    shift, rows, most = 0, [], 0
    for number, view in enumerate((operation.a, operation.b)):
        name = view.variable
        encoding = context.storage.encodings.get(name)
        if encoding is None or not context.storage.has_codes(name):
            continue
        if number in total.modular and operation.a.variable != operation.b.variable:
            context = dataclasses.replace(context, storage=context.storage.of_codes(name))
            shift += encoding.shift
            if encoding.rows is not None:
                rows.append((number, context.storage.row_shifts(name)))
                most += max(encoding.rows.shifts)
        elif encoding.rows is not None:
            raise ValueError(f"{operation.location}: rows of {name} have shifts, and its products are divided")
    return context, Finish(shift, tuple(rows), shift + most)
