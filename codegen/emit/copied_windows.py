"""What lies under a convolution's window, copied into a buffer in which padding counts as zeros, so that all filters meet one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kilotune.codegen import ir
from kilotune.codegen.emit.context import Context
from kilotune.codegen.emit.pairs import MACRO
from kilotune.codegen.emit.runs import pointed
from kilotune.codegen.fixed.encoding import BYTE_BITS

LONG_BYTES = 32
"""Rows of windows of so many bytes, or more, are copied four words at a time."""


@dataclass(frozen=True)
class WindowPart:
    """The part of a window that lies inside the image, as C expressions. `pixels`: of the address of its first element; `rows`, `columns`:
    the first row (column) of the kernel that is inside, and how many are."""

    pixels: str
    rows: tuple[str, str]
    columns: tuple[str, str]


def copies_long(elements: int, bits: int) -> bool:
    """Whether rows of windows of so many elements are copied four words at a time."""
    return elements * bits // BYTE_BITS >= LONG_BYTES


def copy_windows(
    context: Context, operation: ir.Conv2D, windows: Sequence[WindowPart], scratch: tuple[str, int]
) -> list[str]:
    """Lines that copy what lies under windows, all channels of it, one behind the other into `scratch`, an array of so many words;
    expressions of pointers to each."""
    line, (height, width) = context.writer.line, operation.b.shape[1:3]
    context.operators.require("kt_pairs", MACRO)
    counts = [(part.rows[1], height) for part in windows[:1]] + [(part.columns[1], width) for part in windows]
    partly = [f"{count} != {whole}" for count, whole in counts if not count.isdigit()]
    if partly:
        line(f"if ({' || '.join(partly)}) {_cleared(context, operation, scratch)};")
    return [_copied(context, operation, part, scratch[0], number) for number, part in enumerate(windows)]


def _cleared(context: Context, operation: ir.Conv2D, scratch: tuple[str, int]) -> str:
    """The call that makes padding of a whole array."""
    bits, require = context.storage.bits[operation.a.variable], context.operators.require
    if not operation.outside:
        return f"{require('kt_clear', _CLEAR)}({scratch[0]}, {scratch[1]})"
    word = (operation.outside % (1 << bits)) * (0x01010101 if bits == 8 else 0x00010001 if bits == 16 else 1)
    return f"{require('kt_fill', _FILL)}({scratch[0]}, (int32_t)UINT32_C(0x{word:08x}), {scratch[1]})"


def _copied(context: Context, operation: ir.Conv2D, part: WindowPart, scratch: str, number: int) -> str:
    """The line that copies one window as the one of that number; the expression of a pointer to it."""
    a, (height, width) = operation.a, operation.b.shape[1:3]
    bits, channels = context.storage.bits[a.variable], operation.b.shape[3] * operation.groups
    window = f"(kt_int{bits} *){scratch}" + (f" + {number * height * width * channels}" if number else "")
    start = [(part.rows[0], width * channels), (part.columns[0], channels)]
    place = " + ".join([window, *(n if step == 1 else f"{step} * {n}" for n, step in start if n != "0")])
    (_, rows), (_, columns) = part.rows, part.columns
    count = columns if channels == 1 else f"{channels} * {columns}"
    source = f"({pointed(context, a.variable)} *)({part.pixels})"
    is_long = copies_long(width * channels, bits)
    name = f"kt_copy{bits}" + ("_long" if is_long else "")
    copy = context.operators.require(name, _copy(name, bits, long=is_long))
    many = rows if rows.isdigit() else f"(uint_fast16_t){rows}"
    context.writer.line(
        f"{copy}({place}, {source}, {many}, (uint_fast16_t)({count}), {a.strides[1]}, {width * channels});"
    )
    return window


_CLEAR = """\
KT_NOINLINE void kt_clear(kt_int32 *to, uint_fast16_t n)
{
    do {
        *to++ = 0;
#if defined(__GNUC__)
        __asm__ volatile("" : "+r"(to)); /* or compilers call memset, which may go byte by byte */
#endif
    } while (--n != 0);
}"""


_FILL = _CLEAR.replace("kt_clear(kt_int32 *to, ", "kt_fill(kt_int32 *to, int32_t word, ").replace(
    "*to++ = 0", "*to++ = word"
)


def _copy(name: str, bits: int, *, long: bool) -> str:
    kind, together = f"kt_int{bits}", 32 // bits
    chunks = f"""
        for (; k >= {4 * together}; k -= {4 * together}) {{
            __builtin_memcpy(q, p, 16);
            q += {4 * together};
            p += {4 * together};
        }}"""
    return f"""\
#if defined(__GNUC__) && __GNUC__ >= 7 && !defined(__clang__) /* may guess wrongly how many elements there are, and warn */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif
/* rows > 0 runs of n > 0 elements, each so many after the one before */
KT_NOINLINE void {name}({kind} *to, const {kind} *from, uint_fast16_t rows, uint_fast16_t n,
    uint_fast16_t step_from, uint_fast16_t step_to)
{{
    do {{
        {kind} *q = to;
        const {kind} *p = from;
        uint_fast16_t k = n;
#if defined(KT_PAIRS) /* a word at a time, wherever it lies */{chunks if long else ""}
        uint_fast16_t words = k / {together};
        k %= {together};
        if (words != 0) {{
            do {{
                __builtin_memcpy(q, p, 4);
                q += {together};
                p += {together};
            }} while (--words != 0);
        }}
        if (k != 0)
#endif
        {{
            do *q++ = *p++;
            while (--k != 0);
        }}
        from += step_from;
        to += step_to;
    }} while (--rows != 0);
}}
#if defined(__GNUC__) && __GNUC__ >= 7 && !defined(__clang__)
#pragma GCC diagnostic pop
#endif"""
