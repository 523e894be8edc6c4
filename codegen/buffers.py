"""The buffers of a program: what dynamic storage allocation calls its temporaries, for one assignment of widths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kilotune.codegen import ir
from kilotune.codegen.interference import find_interference
from kilotune.codegen.live_ranges import live_ranges


@dataclass(frozen=True)
class LiveBuffer:
    """One temporary: live in the half-open range [lower, upper) of program points, `size` and `alignment` in bytes.

    `may_take`: operands whose place, from the same address on, it may take in the operation that writes it.
    """

    id: str
    lower: int
    upper: int
    size: int
    alignment: int
    may_take: tuple[str, ...] = ()


def buffers(program: ir.Program, bits: Mapping[str, int]) -> tuple[LiveBuffer, ...]:
    """Every temporary that the program uses, in order of first use, for `bits` by variable.

    Program points number the operations from 1, loop bodies once (`codegen.live_ranges`): what a loop carries, or reads
    from outside, is live to its end. Raises KeyError for a temporary without a width.
    """
    interference = find_interference(program, in_place=True)
    widths = interference.element_bytes(bits)
    taken: dict[str, list[str]] = {}
    for meeting in interference.meetings:
        between = meeting.order.forbidden(widths[meeting.result], widths[meeting.operand])
        apart = (min(meeting.result, meeting.operand), max(meeting.result, meeting.operand)) in interference.apart
        if not apart and (between is None or not between[0] < 0 < between[1]):
            taken.setdefault(meeting.result, []).append(meeting.operand)
    return tuple(
        LiveBuffer(
            name,
            live.start,
            live.end + 1,
            interference.elements[name] * widths[name],
            widths[name],
            tuple(taken.get(name, ())),
        )
        for name, live in live_ranges(program).items()
    )
