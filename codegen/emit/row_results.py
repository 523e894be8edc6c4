"""What becomes of sums that are taken for all rows in one call: each is multiplied and divided by powers of two, and written.

The call does that itself where it can, so that sums need no memory of their own and no second loop. All calls of a program with operands
of the same kinds share a function; it takes as arguments only what differs among them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kilotune.codegen.fixed.arithmetic import Rounding

SUM_BITS = 32
"""What the calls sum in."""


@dataclass(frozen=True)
class RowResult:
    """A result is (sum * 2**`up` modulo 2**32) / 2**`down`, modulo 2**`bits`; `factors`: the array of further powers of two that the sum of
    each row is multiplied by, None for none."""

    up: int
    down: int
    bits: int
    factors: str | None = None


UNCHANGED = RowResult(0, 0, SUM_BITS)
"""Sums as they are, for what is written beside."""


@dataclass(frozen=True)
class ResultKinds:
    """What a function has to be ready for: results of these widths, with factors of rows or without; `unchanged`: all calls write sums as
    they are."""

    widths: tuple[int, ...]
    factors: bool
    unchanged: bool

    @property
    def pointed(self) -> str:
        """The C type of what results are written to."""
        return f"kt_int{self.widths[0]}" if len(self.widths) == 1 else "void"

    @property
    def parameters(self) -> list[str]:
        """Further parameters of the function."""
        if self.unchanged:
            return []
        width = ["uint_fast8_t bits"] if len(self.widths) > 1 else []
        return ["uint_fast8_t up", "uint_fast8_t down", *width, *(["const uint8_t *factors"] if self.factors else [])]

    def arguments(self, result: RowResult) -> list[str]:
        """C of the arguments for them."""
        if self.unchanged:
            return []
        width = [str(result.bits)] if len(self.widths) > 1 else []
        return [str(result.up), str(result.down), *width, *([result.factors or "0"] if self.factors else [])]

    @property
    def start(self) -> list[str]:
        """C of what all rows need."""
        return [] if self.unchanged else ["const int32_t most = (int32_t)((UINT32_C(1) << down) - 1);"]

    def written(self, total: str, to: str = "to", last: bool = True) -> list[str]:
        """C that writes the result of the sum `total`, an uint32_t, to the pointer `to`, which moves on. `last`: of the sums of a row,
        which have its factor in common."""
        if self.unchanged:
            return [f"*{to}++ = (int32_t){total};"]
        factor = f"KT_LOAD_PLACE8(factors{'++' if last else ''})"
        up = f"(uint_fast8_t)(up + (factors ? {factor} : 0))" if self.factors else "up"
        value = f"kt_result({total}, {up}, down, most)"
        if len(self.widths) == 1:
            return [f"*{to}++ = (int{self.widths[0]}_t){value};"]
        return [f"{to} = kt_put({value}, bits, {to});"]

    def functions(self, rounding: Rounding) -> list[tuple[str, str]]:
        """(name, definition) of the inline functions that `written` calls."""
        if self.unchanged:
            return []
        found = [("kt_result", _RESULT.format(rounded=_ROUNDED[rounding]))]
        return [*found, ("kt_put", _put(self.widths))] if len(self.widths) > 1 else found


@dataclass(frozen=True)
class RowCall:
    """A call for all rows: `kinds` of its weights and of its operand, `extents`: terms and rows; `places`: how many operands, each behind
    the one before, meet them at a time."""

    kinds: tuple[str, str]
    extents: tuple[int, int]
    result: RowResult
    places: int = 1

    @property
    def function(self) -> str:
        """The name of the function that is called."""
        return f"kt_sums{self.places if self.places > 1 else ''}_{'_'.join(self.kinds)}"


def result_kinds(results: Collection[RowResult]) -> ResultKinds:
    """What a function has to be ready for that makes all of these."""
    widths = tuple(sorted({result.bits for result in results}))
    return ResultKinds(widths, any(result.factors for result in results), all(one == UNCHANGED for one in results))


_ROUNDED = {
    Rounding.TOWARD_ZERO: "(v + ((v >> 31) & most)) >> down",
    Rounding.FLOOR: "v >> down",
    Rounding.NEAREST: "(v >> down) + (2 * (uint32_t)(v & most) > (uint32_t)most)",
}
"""A division by 2**down of which nothing overflows, also where `down` is 0; `most` is 2**down - 1."""

_RESULT = """\
/* (sum * 2**up modulo 2**32) / 2**down, rounded as the program says; most = 2**down - 1 */
KT_INLINE int32_t kt_result(uint32_t sum, uint_fast8_t up, uint_fast8_t down, int32_t most)
{{
    const int32_t v = (int32_t)(sum << up);
    (void)most;
    return {rounded};
}}"""


def _put(widths: tuple[int, ...]) -> str:
    """The inline function that writes a result of one of these widths, and returns the place of the next one."""
    lines = []
    for width in widths:
        end = width == widths[-1]
        lines.append("    " + ("" if end else f"if (bits == {width}) ") + "{")
        lines += [
            f"        *(kt_int{width} *)to = (int{width}_t)value;",
            f"        return (kt_int{width} *)to + 1;",
            "    }",
        ]
    body = "\n".join(lines)
    return f"""\
/* writes the result in so many bits; the place of the next one */
KT_INLINE void *kt_put(int32_t value, uint_fast8_t bits, void *to)
{{
{body}
}}"""
