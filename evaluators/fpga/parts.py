"""What hardware is made of before a synthesiser maps it: bits of registers, of adders, of choices."""

from __future__ import annotations

import operator
from dataclasses import dataclass, fields

from kilotune.codegen.fixed.arithmetic import Rounding


@dataclass(frozen=True)
class Parts:
    """Bits of `registers`; of `adders` and comparisons (a carry chain); of `choices` (one of two values), of `picks` (one bank or word of
    several: each beyond the first is a bit), and of `requests` (what several lanes or units ask of a bank, by AND-OR); of read-only
    memory that is made of look-up tables, by 16 (`rom`), of which those of exponentials (`tables`) are smooth; cells of 16 words of 4
    bits of distributed memory (`lut_ram`); bits of the rows that multiplications made of look-up tables add up (`soft_products`); bits
    of memories made of registers (`register_ram`). `block_bits`: what ports of block memories read that are written too, for which a
    synthesiser keeps what has just been written. `controls`: units and bodies with their counters. `block_rams` and `multipliers` are
    of the board.
    """

    registers: float = 0
    adders: float = 0
    choices: float = 0
    picks: float = 0
    requests: float = 0
    rom: float = 0
    tables: float = 0
    lut_ram: float = 0
    soft_products: float = 0
    register_ram: float = 0
    block_bits: float = 0
    controls: float = 0
    block_rams: float = 0
    multipliers: float = 0

    def __add__(self, other: Parts) -> Parts:
        return Parts(*map(operator.add, self.numbers, other.numbers))

    def __mul__(self, times: int) -> Parts:
        return Parts(*(a * times for a in self.numbers))

    @property
    def numbers(self) -> tuple[float, ...]:
        """In the order of the fields."""
        return (
            self.registers,
            self.adders,
            self.choices,
            self.picks,
            self.requests,
            self.rom,
            self.tables,
            self.lut_ram,
            self.soft_products,
            self.register_ram,
            self.block_bits,
            self.controls,
            self.block_rams,
            self.multipliers,
        )


PARTS = tuple(field.name for field in fields(Parts))
"""The names, in the order of `Parts.numbers`."""


def address_bits(count: int) -> int:
    """Bits of a number below `count`."""
    return max(1, (count - 1).bit_length())


def value_bits(low: int, high: int) -> int:
    """Bits of two's complement that hold both."""
    return 1 + max((-low - 1 if low < 0 else low).bit_length(), (-high - 1 if high < 0 else high).bit_length())


def down_parts(bits: int, shift: int, rounding: Rounding) -> Parts:
    """A value shifted down and rounded."""
    if shift <= 0 or rounding is Rounding.FLOOR:
        return Parts()
    return Parts(adders=bits)
