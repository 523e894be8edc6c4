"""What emitted C begins with: names for what compilers have names of their own for, and what the compiler is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from kilotune.codegen import ir
from kilotune.codegen.emit.context import Context
from kilotune.codegen.emit.storage import index_bits

_PRELUDE = """\
#if defined(__GNUC__)
#define KT_INLINE static inline __attribute__((always_inline))
#define KT_NOINLINE static KT_NEAR __attribute__((noinline))
/* variables of different widths share RAM */
#define KT_ALIAS __attribute__((may_alias))
#else
#define KT_INLINE static inline
#define KT_NOINLINE static KT_NEAR
#define KT_ALIAS
#endif
/* where avr-gcc is asked for small code: what it does for speed alone, and a counter that stays one, not the end of a pointer */
#if defined(__AVR__) && defined(__OPTIMIZE_SIZE__)
#if !defined(__clang__)
#pragma GCC optimize (@OPTIONS@)
#endif
#define KT_COUNT(n) __asm__ ("" : "+r"(n))
#else
#define KT_COUNT(n) ((void)0)
#endif
/* what follows each operation, by its number: nothing, unless a tracing build defines it */
#ifndef KT_AFTER
#define KT_AFTER(row) ((void)0)
#else
#define KT_TRACED
#endif
"""


_SMALL = ("no-move-loop-invariants", "no-tree-dominator-opts", "no-tree-ter")
_SMALL_WINDOWS = "no-tree-loop-optimize"
_SMALL_SUMS = "no-split-wide-types"
"""What makes code of avr-gcc shorter: of any program; where short code is wanted, nests of loops around windows, whose counters take many
registers, and sums of 32 bits."""


MOST_NEAR_LINES = 400
"""Lines of functions and of the program for which code surely takes less than the 4096 bytes that a short call reaches: of random
candidates of bundled models compact code takes at most 4.5 bytes a line, with wide sums and windows."""

_NEAR = """\
/* one section, all of which a short call reaches */
#if defined(__AVR__) && defined(__OPTIMIZE_SIZE__) && !defined(__clang__)
#define KT_NEAR __attribute__((section(".text.kt_@NAME@")))
#define KT_CALL "rcall"
#else
#define KT_NEAR
#define KT_CALL "%~call"
#endif
"""

_FAR = """\
#define KT_NEAR
#define KT_CALL "%~call"
"""


def is_near(written: Sequence[str]) -> bool:
    """Whether the functions of compact code lie so near that an AVR's short calls reach them: where there is not much of it."""
    return sum(text.count("\n") + 1 for text in written) <= MOST_NEAR_LINES and not any("int64_t" in t for t in written)


def prelude(context: Context, written: Sequence[str], name: str) -> str:
    """What stands before everything, for the C that was written; `name`: of the program's function."""
    options = list(_SMALL)
    if context.shape.shared:
        program = context.storage.program
        options += [_SMALL_WINDOWS] if any(isinstance(o, ir.Windowed) for o in ir.operations(program.body)) else []
        options += [_SMALL_SUMS] if any("int32_t" in text for text in written) else []
    named = ", ".join(f'"{option}"' for option in options)
    text = _PRELUDE.replace("@OPTIONS@", named)
    if not context.shape.shared:
        return text.replace(" KT_NEAR", "") + _index_types(index_bits(context.storage.program))
    near = _NEAR.replace("@NAME@", name) if is_near(written) else _FAR
    return text + near + _index_types(index_bits(context.storage.program))


def _index_types(bits: int) -> str:
    """Types of numbers of elements (`kt_index`) and of those below 256. On AVR these have a byte, which `int` takes in where it is counted
    with: so only where numbers of elements fit its 16 bits."""
    index = f"typedef int{bits}_t kt_index;\n"
    if bits > 16:
        return index + "typedef kt_index kt_count;"
    return index + "#if defined(__AVR__)\ntypedef uint8_t kt_count;\n#else\ntypedef kt_index kt_count;\n#endif"
