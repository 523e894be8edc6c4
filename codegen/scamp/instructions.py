"""The two instruction sets for SCAMP-5 as data: what each instruction computes, what it costs, what it forbids.

`auke` is the set that AUKE's paper counts (one cell, one addition or one scaling each; no constraints on registers);
`scamp5` are the chip's macros. Every instruction is linear: the sum of its operands, each with a sign, some of them read
from a neighbour, perhaps halved. That one row is its meaning for symbolic execution, for arrays and for searches.

A macro runs through the register NEWS in *bus transfers*: each is one clock cycle, one source of noise. NEWS is lost in
every macro, so programs never keep anything there. No register stands twice in one transfer: that is what forbids operands
(`apart`, `distinct`), and `evaluators/scamp5/macro_check.py` holds emitted C++ to the transfers themselves. Shifts by two cells are
charged three transfers, as published counts of programs do; open emulators of the chip, which that check follows, have them in two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from kilotune.codegen.scamp.sums import DIRECTIONS, Cell, Sum

REGISTERS = ("A", "B", "C", "D", "E", "F")
"""The analogue registers that programs may name; the image arrives in A."""

CLOCK_HZ = 10_000_000
POWER_W = 1.23


@dataclass(frozen=True)
class Instruction:
    """One row of an instruction set.

    `signs` has one entry an operand; `shifted` says which operands are read from the neighbour that the directions (the
    `fixed` ones of the name itself, then `directions` written ones) lead to. `halvings` divides the result by a
    power of two. `left` is what further destinations hold afterwards, as multiples of the result: programs count them as
    lost. `apart` lists the operands, by index, that may not live in the destination's register; `distinct` wants operands
    in pairwise different registers.
    """

    name: str
    signs: tuple[int, ...]
    shifted: tuple[bool, ...]
    directions: int = 0
    fixed: tuple[str, ...] = ()
    halvings: int = 0
    bus_transfers: int = 2
    left: tuple[int, ...] = ()
    apart: tuple[int, ...] = ()
    distinct: bool = False
    needs_all_flagged: bool = False

    @property
    def operands(self) -> int:
        return len(self.signs)

    @property
    def destroyed(self) -> int:
        """How many registers beyond the destination lose what they held."""
        return len(self.left)

    def offset(self, directions: Sequence[str]) -> Cell:
        """Where a shifted operand is read from, as a cell relative to the reader."""
        steps = [DIRECTIONS[name] for name in (*self.fixed, *directions)]
        return sum(x for x, _ in steps), sum(y for _, y in steps)

    def apply(self, operands: Sequence[Sum], directions: Sequence[str] = ()) -> Sum:
        """The result on sums. Raises `InexactHalfError` where a half is no multiple of the unit."""
        offset = self.offset(directions)
        result = Sum()
        for operand, sign, moved in zip(operands, self.signs, self.shifted, strict=True):
            term = operand.shifted(offset) if moved else operand
            result = result + term if sign > 0 else result - term
        for _ in range(self.halvings):
            result = result.halved()
        return result


@dataclass(frozen=True)
class InstructionSet:
    """The instructions of a target; a name that takes two or three operands has one row for each count.

    Of rows with the same name and count (`res` of one or two registers) the one with fewer destinations comes first.
    """

    name: str
    rows: tuple[Instruction, ...]

    def find(self, name: str, operands: int, destinations: int | None = None) -> Instruction | None:
        """The row of that name and counts (any number of destinations: None); None when the target has none."""
        found = (row for row in self.rows if row.name == name and row.operands == operands)
        return next((row for row in found if destinations in (None, 1 + row.destroyed)), None)

    def get(self, name: str, operands: int) -> Instruction:
        """The row of that name and operand count. Raises `KeyError` when the target has none."""
        row = self.find(name, operands)
        if row is None:
            raise KeyError(f"{self.name} has no instruction {name} of {operands} operands")
        return row

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.name for row in self.rows))


AUKE = InstructionSet(
    "auke",
    (
        *(Instruction(direction, (1,), (True,), fixed=(direction,)) for direction in DIRECTIONS),
        Instruction("add", (1, 1), (False, False)),  # of a register to itself too: doubling
        Instruction("sub", (1, -1), (False, False)),
        Instruction("neg", (-1,), (False,)),
        Instruction("addneg", (-1, -1), (False, False)),
        Instruction("copy", (1,), (False,)),
        Instruction("div2", (1,), (False,), halvings=1),
        # The paper never needs a zero; the all-zero kernel does.
        Instruction("zero", (), ()),
    ),
)

SCAMP5 = InstructionSet(
    "scamp5",
    (
        Instruction("mov", (1,), (False,)),
        Instruction("movx", (1,), (True,), directions=1),
        Instruction("mov2x", (1,), (True,), directions=2, bus_transfers=3, needs_all_flagged=True),
        Instruction("add", (1, 1), (False, False), distinct=True),
        Instruction("add", (1, 1, 1), (False, False, False), distinct=True),
        Instruction("addx", (1, 1), (True, True), directions=1, distinct=True),
        Instruction(
            "add2x", (1, 1), (True, True), directions=2, bus_transfers=3, distinct=True, needs_all_flagged=True
        ),
        Instruction("sub", (1, -1), (False, False), apart=(1,)),
        Instruction("subx", (1, -1), (True, False), directions=1, apart=(1,)),
        Instruction("sub2x", (1, -1), (True, False), directions=2, bus_transfers=3, apart=(1,), needs_all_flagged=True),
        Instruction("neg", (-1,), (False,), apart=(0,)),
        Instruction("divq", (1,), (False,), halvings=1, apart=(0,)),
        Instruction("div", (1,), (False,), halvings=1, bus_transfers=5, left=(-1, 2)),
        Instruction("res", (), ()),
        Instruction("res", (), (), bus_transfers=3, left=(0,)),
    ),
)

INSTRUCTION_SETS: Mapping[str, InstructionSet] = MappingProxyType({"auke": AUKE, "scamp5": SCAMP5})


def instruction_set(target: str) -> InstructionSet:
    """The instruction set of a target. Raises `KeyError` for an unknown one."""
    return INSTRUCTION_SETS[target]
