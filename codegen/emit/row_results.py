"""What becomes of sums that are taken for all rows in one call: each is multiplied and divided by powers of two, and written.

The call does that itself where it can, so that sums need no memory of their own and no second loop. All calls of a program with operands
of the same kinds share a function; it takes as arguments only what differs among them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kilotune.codegen.fixed.arithmetic import Rounding

SUM_BITS = 32
"""What the calls sum in."""


@dataclass(frozen=True)
class RowTail:
    """What a result `v` of `sum_bits` bits becomes before it is written: `lines` of C return it, in `bits` bits. `more_bits`: of the
    parameter that they call `more`, of which each row has an element; None where they read none."""

    lines: tuple[str, ...]
    sum_bits: int
    more_bits: int | None
    bits: int

    def function(self, name: str) -> tuple[str, str]:
        """(name, definition) of the inline function."""
        more = "" if self.more_bits is None else f", int{self.more_bits}_t more"
        head = f"KT_INLINE int{self.bits}_t {name}(int{self.sum_bits}_t v{more})"
        return name, "\n".join(["/* what becomes of a sum of products */", head, "{", *self.lines, "}"])


@dataclass(frozen=True)
class RowResult:
    """A result is (sum * 2**`up` modulo 2**32) / 2**`down`, modulo 2**`bits`; `factors`: the array of further powers of two that the sum of
    each row is multiplied by, None for none. `tail`: what becomes of it, and `more`: the pointer to what that reads."""

    up: int
    down: int
    bits: int
    factors: str | None = None
    tail: RowTail | None = None
    more: str = "0"


UNCHANGED = RowResult(0, 0, SUM_BITS)
"""Sums as they are, for what is written beside."""


@dataclass(frozen=True)
class ResultKinds:
    """What a function has to be ready for: results of these `widths` where no tail makes them, with factors of rows or without;
    `unchanged`: all calls write sums as they are. `tails`: what becomes of results, each with the name of its function; (None, "") for
    results that are written as they are."""

    widths: tuple[int, ...]
    factors: bool
    unchanged: bool
    tails: tuple[tuple[RowTail | None, str], ...]

    @property
    def pointed(self) -> str:
        """The C type of what results are written to."""
        widths = {*self.widths, *(tail.bits for tail, _ in self.tails if tail is not None)}
        return f"kt_int{min(widths)}" if len(widths) == 1 else "void"

    @property
    def _read(self) -> list[int]:
        """Widths of what tails read."""
        return sorted({tail.more_bits for tail, _ in self.tails if tail is not None and tail.more_bits is not None})

    @property
    def parameters(self) -> list[str]:
        """Further parameters of the function."""
        if self.unchanged:
            return []
        read = self._read
        found = ["uint_fast8_t up", "uint_fast8_t down"]
        found += ["uint_fast8_t bits"] if len(self.widths) > 1 else []
        found += ["const uint8_t *factors"] if self.factors else []
        found += ["uint_fast8_t tail"] if len(self.tails) > 1 else []
        return found + ([f"const {f'int{read[0]}_t' if len(read) == 1 else 'void'} *more"] if read else [])

    def arguments(self, result: RowResult) -> list[str]:
        """C of the arguments for them."""
        if self.unchanged:
            return []
        found = [str(result.up), str(result.down)]
        found += [str(result.bits)] if len(self.widths) > 1 else []
        found += [result.factors or "0"] if self.factors else []
        found += [str([tail for tail, _ in self.tails].index(result.tail))] if len(self.tails) > 1 else []
        return found + ([result.more] if self._read else [])

    @property
    def start(self) -> list[str]:
        """C of what all rows need."""
        return [] if self.unchanged else ["const int32_t most = (int32_t)((UINT32_C(1) << down) - 1);"]

    def written(self, rows: Sequence[Sequence[tuple[str, str]]]) -> list[str]:
        """C that writes the results of sums, row by row each an uint32_t with the pointer that it is written to, which moves on."""
        if self.unchanged:
            return [f"*{to}++ = (int32_t){total};" for row in rows for total, to in row]
        ways = [[line for row in rows for line in self._row(row, *way)] for way in self.tails]
        if len(ways) == 1:
            return ways[0]
        lines = ["switch (tail) {"]
        for number, way in enumerate(ways):
            label = "default" if number + 1 == len(ways) else f"case {number}"
            lines += [f"{label}: {{", *(f"    {line}" for line in way), "    break;", "}"]
        return [*lines, "}"]

    def _row(self, row: Sequence[tuple[str, str]], tail: RowTail | None, name: str) -> list[str]:
        """The results of one row, which have its factor and the element of a parameter in common."""
        lines, more = [], ""
        if tail is not None and tail.more_bits is not None:
            several, kind, more = len(self._read) > 1, f"int{tail.more_bits}_t", ", m"
            pointer = "each" if several else "more"
            lines += [f"const {kind} *each = (const {kind} *)more;"] if several else []
            lines += [f"const {kind} m = KT_NEXT{tail.more_bits}({pointer});"]
            lines += ["more = each;"] if several else []
        for number, (total, to) in enumerate(row):
            factor = f"KT_LOAD_PLACE8(factors{'++' if number + 1 == len(row) else ''})"
            up = f"(uint_fast8_t)(up + (factors ? {factor} : 0))" if self.factors else "up"
            value = f"kt_result({total}, {up}, down, most)"
            if tail is not None:
                value = f"{name}((int{tail.sum_bits}_t){value}{more})"
            lines += self._stored(value, to, tail)
        return ["{", *(f"    {line}" for line in lines), "}"] if more else lines

    def _stored(self, value: str, to: str, tail: RowTail | None) -> list[str]:
        if tail is None and len(self.widths) > 1:
            return [f"{to} = kt_put({value}, bits, {to});"]
        width = self.widths[0] if tail is None else tail.bits
        value = value if tail is not None else f"(int{width}_t){value}"
        if self.pointed != "void":
            return [f"*{to}++ = {value};"]
        return [f"*(kt_int{width} *){to} = {value};", f"{to} = (kt_int{width} *){to} + 1;"]

    def functions(self, rounding: Rounding) -> list[tuple[str, str]]:
        """(name, definition) of the inline functions that `written` calls."""
        if self.unchanged:
            return []
        found = [("kt_result", _RESULT.format(rounded=_ROUNDED[rounding]))]
        found += [tail.function(name) for tail, name in self.tails if tail is not None]
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


def result_kinds(results: Collection[RowResult], tails: Sequence[RowTail] = ()) -> ResultKinds:
    """What a function has to be ready for that makes all of these; `tails`: of the whole program, whose numbers name their functions."""
    widths = tuple(sorted({result.bits for result in results if result.tail is None}))
    met = dict.fromkeys(result.tail for result in results)
    named = tuple((tail, "" if tail is None else f"kt_tail{tails.index(tail)}") for tail in met)
    unchanged = all(one == UNCHANGED for one in results)
    return ResultKinds(widths, any(result.factors for result in results), unchanged, named)


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
