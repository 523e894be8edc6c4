"""The relations of the paper's Appendix A, computed by isl: accesses, K, L and S, and the release of what was read.

L takes the reader's whole iteration domain where the paper takes the domain of K: iterations that read padding only
are ordered behind those before them, and those before any real read may run at once.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import islpy as isl

from kilotune.codegen.cm.access import AccessPattern, Rectangle
from kilotune.codegen.onnx.graph import Window


@dataclass(frozen=True, eq=False)
class Dependences:
    """isl objects; W is the writer's iteration space, R the reader's, O the array. A writer that goes column by column has
    iterations W[w, h]: isl's order is lexicographic.

    write: W[h, w] -> O[c, h, w]. read: R[oh, ow] -> O[c, h, w]. K: R -> W, read-after-write. L: R -> W, the last write
    that an iteration and all before it need; undefined for those that need none. S: W -> R, the last iteration that
    may run after a write; undefined where a write allows nothing new. initial: the R that may run before any write.
    keeps: R -> W, the first write still needed after an iteration; undefined when none is.
    """

    writer: Any
    reader: Any
    write: Any
    read: Any
    K: Any
    L: Any
    S: Any
    initial: Any
    keeps: Any


def dependences(reading: AccessPattern, channels: int = 1, *, by_tap: bool = False) -> Dependences:
    """All relations between a writer and a reader of an array with `channels` channels.

    by_tap: of accesses that are said tap by tap. isl (islpy 2026.2.2) errs on the shorter form, or raises `isl.Error`, where a dilation
    is a multiple of the stride, and on some unions of windows.
    """
    order = ", ".join(pixel_names(reading.writer))
    writer = isl.Set(f"{{ W[{order}] : {_inside(reading.writer, 'h', 'w')} }}")
    reader = isl.Set(f"{{ R[oh, ow] : {_inside(reading.reader, 'oh', 'ow')} }}")
    write = isl.Map(f"{{ W[{order}] -> O[c, h, w] : 0 <= c < {channels} and {_inside(reading.writer, 'h', 'w')} }}")
    accesses = tap_relation(reading.windows, channels) if by_tap else read_relation(reading.windows, channels)
    read = isl.Map(accesses).intersect_domain(reader).intersect_range(write.range())
    raw = read.apply_range(write.reverse())
    not_later = reader.lex_ge_set(reader)
    last = not_later.apply_range(raw).lexmax()
    state = last.reverse().coalesce().lexmax()  # isl errs (islpy 2026.2.2) on what comes out of `reverse` as it is
    # Of dilated windows isl errs on what comes out of `raw.reverse().lexmax().reverse()`, the last use of each write, coalesced or not.
    keeps = reader.lex_lt_set(reader).apply_range(raw).lexmin()
    initial = reader.subtract(last.domain())
    return Dependences(writer, reader, write, read, raw, last, state, initial, keeps)


def read_relation(windows: tuple[Window, ...], channels: int) -> str:
    """The read accesses in isl's notation (the paper's Listing 2, with stride, padding, dilation and spread)."""
    parts = []
    for window in windows:
        (rows, columns), (down, right) = window.kernel, window.stride
        (step_y, step_x), (top, left) = window.dilation, window.pads[:2]
        apart_y, apart_x = window.spread
        parts.append(
            f"R[oh, ow] -> O[c, h, w] : 0 <= c < {channels} and exists kh, kw : "
            f"0 <= kh < {rows} and 0 <= kw < {columns} and "
            f"{apart_y} h = {down} oh + {-top} + {step_y} kh and {apart_x} w = {right} ow + {-left} + {step_x} kw"
        )
    return "{ " + "; ".join(parts) + " }"


def tap_relation(windows: tuple[Window, ...], channels: int) -> str:
    """The accesses of `read_relation`, each tap of each window a piece of its own."""
    parts = []
    for window in windows:
        (down, right), (apart_y, apart_x) = window.stride, window.spread
        for kh, kw in itertools.product(*map(range, window.kernel)):
            top, left = (kh * window.dilation[0] - window.pads[0], kw * window.dilation[1] - window.pads[1])
            parts.append(
                f"R[oh, ow] -> O[c, h, w] : 0 <= c < {channels} and "
                f"{apart_y} h = {down} oh + {top} and {apart_x} w = {right} ow + {left}"
            )
    return "{ " + "; ".join(parts) + " }"


def pixel_names(writer: Rectangle) -> tuple[str, str]:
    """Row h and column w in the order of a writer's iterations."""
    return ("w", "h") if writer.by_columns else ("h", "w")


def _inside(rectangle: Rectangle, row: str, column: str) -> str:
    r = rectangle
    return f"{r.top} <= {row} < {r.bottom} and {r.left} <= {column} < {r.right}"
