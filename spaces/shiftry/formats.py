"""A variable's fixed-point format as an option of a decision: `int8@7` is 8 bits at scale 7, `int4@3` a parameter stored in 4."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from kilotune.codegen import ir
from kilotune.codegen.fixed.arithmetic import get_scale
from kilotune.codegen.fixed.codebook import CODEBOOK_BITS
from kilotune.codegen.fixed.encoding import LAYOUTS, ParameterEncoding
from kilotune.codegen.fixed.parameter_rows import ROW_BITS, RowScales
from kilotune.codegen.fixed.sequential_rounding import SequentialRounding

DEFAULT_BITS = 16
"""Every variable's width until it is demoted (Shiftry Algorithm 11)."""

DEMOTED_BITS = 8

WIDE_BITS = 32
"""What temporaries, and parameters that are added, may have where that is asked for. No sum is wider."""

DEMOTED_OFFSETS = (0, 1, 2)
"""Scales that a demoted variable may take above `scale16 - 8` (Algorithm 13, line 6)."""

INPUT_OFFSETS = tuple(range(-4, 5))
"""Offsets of the input's scale around its data-driven 8-bit scale."""

WIDE_OFFSETS = (-1, 1, -2, 2)
"""Offsets of a scale of 16 bits around the data-driven one, the nearest first. Algorithm 12 has them, and more, for the input alone."""

BY_ROWS = " by rows"
"""What the text of a format has whose rows have scales of their own."""

CODEBOOK = " codebook"
"""What the text of a format has whose codes are numbers of integers in a table."""

SEQUENTIAL = " sequential"
"""How the text of a format ends whose values are rounded together."""

NEARLY = 1 / 128
"""How far a state of a loop may be from a power of two, as a part of it, and yet reach it by rounding: fixed-point tanh and sigmoid are 1
where those of floats are nearly so."""

BINARY_OFFSETS = (1, 2, 3)
"""Offsets of the scale at which one bit would reach the largest weight: binary weights stand for all of them."""


@dataclass(frozen=True)
class Format:
    """Bitwidth and scale of a variable: the integer i stands for i / 2**scale. Below 8 bits it is how a parameter is stored.

    `sequential`: its values are rounded together (`codegen.fixed.sequential_rounding`), not each on its own. `by_rows`: each row has a
    scale of its own, of which this is the finest (`codegen.fixed.parameter_rows`). `codebook`: its codes stand for integers of 8 bits in
    a table, whose scale this is (`codegen.fixed.codebook`).
    """

    bits: int
    scale: int
    sequential: bool = False
    by_rows: bool = False
    codebook: bool = False

    def __str__(self) -> str:
        form = BY_ROWS if self.by_rows else CODEBOOK if self.codebook else ""
        return f"int{self.bits}@{self.scale}" + form + (SEQUENTIAL if self.sequential else "")

    @property
    def computed_bits(self) -> int:
        """The width that programs compute with."""
        return ROW_BITS if self.by_rows else max(self.bits, DEMOTED_BITS)

    @property
    def plain(self) -> bool:
        """Whether it is 16 or 8 bits, each value rounded on its own."""
        return self.bits >= DEMOTED_BITS and not (self.sequential or self.by_rows or self.codebook)

    def encoding(
        self, aligned: bool, rounding: SequentialRounding | None, rows: Mapping[int, RowScales]
    ) -> ParameterEncoding | None:
        """How codes are stored; None for what the papers have.

        `aligned`: see `aligned_parameters`; `rounding` and `rows`, by width: of a parameter's own.
        """
        if self.codebook:
            return ParameterEncoding(self.bits, 0, rounding if self.sequential else None, codebook=True)
        if self.by_rows:
            return ParameterEncoding(self.bits, 0, rounding if self.sequential else None, rows[self.bits].shifts)
        if self.bits >= DEMOTED_BITS and not self.sequential:
            return None
        shift = DEMOTED_BITS - max(self.bits, 2) if aligned and self.bits < DEMOTED_BITS else 0
        return ParameterEncoding(self.bits, shift, rounding if self.sequential else None)


@cache
def parse_format(text: str) -> Format:
    """Read `int8@7` or `int4@3 sequential`; ValueError when it is not of that form."""
    rest = text.removesuffix(SEQUENTIAL)
    bits, separator, scale = rest.removesuffix(BY_ROWS).removesuffix(CODEBOOK).removeprefix("int").partition("@")
    if not text.startswith("int") or not separator:
        raise ValueError(f"a format is written like int8@7, found {text!r}")
    return Format(int(bits), int(scale), text.endswith(SEQUENTIAL), rest.endswith(BY_ROWS), rest.endswith(CODEBOOK))


@dataclass(frozen=True)
class Offered:
    """What formats a parameter may have besides the papers' own.

    `narrow`: fewer than 8 bits, at the scale that holds the largest value and at higher ones, where what lies beyond is clipped.
    `truer`: 8 bits and fewer also with sequential rounding. `rows`: by width, the scales of its rows, which it may have too.
    `codebook`: codes that stand for integers in a table. `offsets`: 16 bits at scales around the data-driven one, which other variables
    than parameters may have too. `wide`: 32 bits.
    """

    narrow: bool = False
    truer: bool = False
    rows: Mapping[int, RowScales] = field(default_factory=dict)
    codebook: bool = False
    offsets: bool = False
    wide: bool = False


def roomy_formats(role: ir.Role, magnitude: float, offered: Offered) -> Sequence[Format]:
    """Those of `offered_formats` that hold `magnitude`, but for parameters, whose values are known and clipped: where numbers beyond the
    end of a scale wrap around to the other one, none may be met."""
    formats = offered_formats(role, magnitude, offered)
    if role is ir.Role.PARAMETER:
        return formats
    return [form for form in formats if form.scale <= get_scale(magnitude, form.bits)]


def wide_roomy_formats(role: ir.Role, magnitude: float, beyond: float, offered: Offered) -> Sequence[Format]:
    """Those of 16 and 32 bits that hold `beyond`, where a bit of room costs next to nothing, and what is offered of fewer for `magnitude`,
    where it costs more than is lost by values that wrap around."""
    first, *others = (form for form in roomy_formats(role, beyond, offered) if form.bits > DEMOTED_BITS)
    return [first, *(form for form in offered_formats(role, magnitude, offered) if form.bits <= DEMOTED_BITS), *others]


def offered_formats(role: ir.Role, magnitude: float, offered: Offered, *, headroom: bool = False) -> Sequence[Format]:
    """The formats of a variable, the best guess first: 16 bits, then 8, then fewer. `headroom`: the data-driven scale of 16 bits is taken
    to be half of what holds `magnitude`."""
    full, half = get_scale(magnitude, DEFAULT_BITS), get_scale(magnitude, DEMOTED_BITS)
    full -= headroom
    if role is ir.Role.INPUT:
        others = sorted((s for s in range(DEFAULT_BITS) if s != full), key=lambda s: (abs(s - full), s))
        offsets = sorted(INPUT_OFFSETS, key=lambda o: (abs(o), o))
        return [*(Format(DEFAULT_BITS, s) for s in (full, *others)), *(Format(DEMOTED_BITS, half + o) for o in offsets)]
    formats = [Format(DEFAULT_BITS, full), *(Format(DEMOTED_BITS, half + o) for o in DEMOTED_OFFSETS)]
    if offered.offsets:
        formats += [Format(DEFAULT_BITS, full + o) for o in WIDE_OFFSETS]
    if offered.wide:
        formats.append(Format(WIDE_BITS, get_scale(magnitude, WIDE_BITS) - headroom))
    if role is not ir.Role.PARAMETER:
        return formats
    widths = sorted(LAYOUTS, reverse=True) if offered.narrow else []
    for width in widths:
        offsets = list(BINARY_OFFSETS if width == 1 else DEMOTED_OFFSETS)
        formats += [Format(width, get_scale(magnitude, width) + o) for o in offsets]
    for width in (DEMOTED_BITS, *widths):
        if width in offered.rows:
            offsets = list(BINARY_OFFSETS if width == 1 else DEMOTED_OFFSETS)
            formats += [Format(width, offered.rows[width].finest + o, by_rows=True) for o in offsets]
    if offered.codebook:
        formats.append(Format(CODEBOOK_BITS, half, codebook=True))
    if offered.truer:
        formats += [replace(form, sequential=True) for form in formats if form.bits <= DEMOTED_BITS]
    return formats


def nearly_fills(magnitude: float) -> bool:
    """Whether a magnitude is within `NEARLY` of the power of two above it, which values of a fixed-point program may reach where those of
    the float program do not: there the largest integer is followed by the least."""
    return magnitude > 0 and magnitude > (1 - NEARLY) * 2.0 ** math.ceil(math.log2(magnitude))


def aligned_parameters(program: ir.Program) -> frozenset[str]:
    """Parameters whose codes stand for integers of the full scale of 8 bits: all that not only products read.

    A product keeps all digits of a factor of few bits, a sum those of the operand with the lowest scale: a bias of 4 bits at its own
    scale would take them from what it is added to.
    """
    others = {
        operand.variable
        for operation in ir.operations(program.body)
        if not isinstance(operation, ir.Product | ir.Multiply)
        for operand in operation.operands
        if isinstance(operand, ir.View)
    }
    return frozenset(v.name for v in program.variables if v.role is ir.Role.PARAMETER and v.name in others)
