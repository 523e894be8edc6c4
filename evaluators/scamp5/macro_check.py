"""Emitted C++ for the chip, read back and executed transfer by transfer: is it legal, and does it compute the kernels?

Nothing of how programs are made is used, neither the instruction set nor the writer of macros. What a macro is stands here a second
time, as the bus transfers that public descriptions of the chip give it (Chen, Carey and Dudek's SCAMP-5 kernel
macros, and the two open emulators that follow them). A transfer `d1 d2 = s1 s2` is the chip's one native operation: the
sum of the sources, negated, in equal parts into the destinations. The same register twice in one transfer short-circuits what it
should copy, and a macro that would do that is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from kilotune.codegen.counts import counted
from kilotune.codegen.scamp.sums import Cell, Sum
from kilotune.evaluators.scamp5.symbolic import WrongProgramError

CellWeights = Mapping[Cell, Fraction]

_REGISTERS = frozenset("ABCDEF")
_STEPS: Mapping[str, Cell] = MappingProxyType({"north": (0, 1), "east": (1, 0), "south": (0, -1), "west": (-1, 0)})

_MACROS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "res a": ("NEWS =", "a = NEWS"),
        "res a b": ("NEWS =", "a = NEWS", "b = NEWS"),
        "mov y x": ("NEWS = x", "y = NEWS"),
        "add y x0 x1": ("NEWS = x0 x1", "y = NEWS"),
        "add y x0 x1 x2": ("NEWS = x0 x1 x2", "y = NEWS"),
        "sub y x0 x1": ("NEWS = x0", "y = NEWS x1"),
        "neg y x": ("NEWS =", "y = NEWS x"),
        "divq y x": ("y NEWS = x", "y = NEWS"),
        "div y0 y1 y2": ("y0 y1 = y2", "NEWS = y2 y1", "y2 = NEWS y0", "y0 y1 = y2", "y0 = y1"),
        "div y0 y1 y2 x": ("y0 y1 = x", "NEWS = x y1", "y2 = NEWS y0", "y0 y1 = y2", "y0 = y1"),
        "movx y x first": ("NEWS@first = x", "y = NEWS"),
        "mov2x y x first second": ("NEWS@first = x", "y = NEWS@second"),
        "addx y x0 x1 first": ("NEWS@first = x0 x1", "y = NEWS"),
        "add2x y x0 x1 first second": ("NEWS@first = x0 x1", "y = NEWS@second"),
        "subx y x0 first x1": ("NEWS@first = x0", "y = NEWS x1"),
        "sub2x y x0 first second x1": ("NEWS@first = x0", "y = NEWS@second x1"),
    }
)
"""By name and arguments: the transfers. `NEWS@first =` writes the NEWS of the neighbour opposite that direction, so that every element
holds what the neighbour in it had; `= NEWS@second` reads the NEWS of the neighbour in that direction."""

_CALL = re.compile(r"(\w+)\(([^()]*)\)")
_HEADER = re.compile(r"Image in A; results (in|consumed from) ([A-F](?:, [A-F])*)\.")


@dataclass(frozen=True)
class MacroCall:
    """A line of a kernel: a macro and its arguments, registers and directions as they stand."""

    name: str
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.arguments)})"


@dataclass(frozen=True)
class _Transfer:
    """Registers as (name, how far away the element lies whose register it is)."""

    destinations: tuple[tuple[str, Cell], ...]
    sources: tuple[tuple[str, Cell], ...]


def read_macros(source: str) -> tuple[tuple[MacroCall, ...], tuple[str, ...]]:
    """The calls between `scamp5_kernel_begin` and `scamp5_kernel_end`, and the registers of the results.

    Raises `WrongProgramError` for what is no such header.
    """
    header = _HEADER.search(source)
    code = re.sub(r"//[^\n]*", "", source)
    begin, end = "scamp5_kernel_begin();", "scamp5_kernel_end();"
    if header is None or code.count(begin) != 1 or code.count(end) != 1:
        raise WrongProgramError("The header names no results, or does not have one kernel that begins and ends.")
    calls = []
    for statement in code.partition(begin)[2].partition(end)[0].split(";"):
        if text := statement.strip():
            match = _CALL.fullmatch(text)
            if match is None:
                raise WrongProgramError(f"{text} is no call of a macro.")
            calls.append(MacroCall(match[1], tuple(name.strip() for name in match[2].split(",") if name.strip())))
    return tuple(calls), tuple(header[2].split(", "))


def breach(call: MacroCall) -> str | None:
    """What forbids a call on the chip, in words; None when it may stand."""
    try:
        transfers = _transfers(call)
    except WrongProgramError as error:
        return str(error)
    for number, transfer in enumerate(transfers, start=1):
        names = [*transfer.destinations, *transfer.sources]
        twice = next((name for name, at in names if names.count((name, at)) > 1), None)
        if twice is not None:
            return f"{call} has {twice} twice in its bus transfer {number}."
    return None


def check_macros(source: str, wanted: Sequence[Sum], depth: int) -> int:
    """How many bus transfers a header takes that computes exactly the wanted sums, in units of `2**-depth`, in that order.

    Raises `WrongProgramError`, with the number and the text of the macro: for one that the chip lacks or forbids, for shifts
    by two without `all()` before them, for a register that is read before it is written, and for a wrong result.
    """
    calls, results = read_macros(source)
    held: dict[str, CellWeights] = {"A": {(0, 0): Fraction(1)}}
    flagged, count = False, 0
    consumed: dict[int, tuple[str, CellWeights]] = {}
    for number, call in enumerate(calls, start=1):
        if call.name == "consume":
            _consume(call, held, consumed, number)
            continue
        if call == MacroCall("all", ()):
            flagged = True
            continue
        problem = breach(call)
        if problem is None and "2x" in call.name and not flagged:
            problem = f"{call} needs every element flagged by all() before it."
        if problem is not None:
            raise WrongProgramError(f"Macro {number}: {problem}")
        for transfer in _transfers(call):
            _execute(transfer, held, f"Macro {number}: {call}")
            count += 1
    if len(results) != len(wanted):
        raise WrongProgramError(
            f"The header has {counted(len(results), 'result')} for {counted(len(wanted), 'kernel')}."
        )
    read = consumed or {number: (name, held.get(name, {})) for number, name in enumerate(results, start=1)}
    for number, (register, total) in enumerate(zip(results, wanted, strict=True), start=1):
        expected = {cell: Fraction(weight, 1 << depth) for cell, weight in total}
        name, weights = read.get(number, ("", {}))
        if name != register or {cell: weight for cell, weight in weights.items() if weight} != expected:
            raise WrongProgramError(f"Register {register} does not hold kernel {number} when it is read.")
    return count


def _consume(
    call: MacroCall, held: Mapping[str, CellWeights], consumed: dict[int, tuple[str, CellWeights]], number: int
) -> None:
    """Keeps what a kernel's register holds when it is read."""
    kernel, register = (*call.arguments, "", "")[:2]
    if len(call.arguments) != 2 or not kernel.isdecimal() or register not in held or int(kernel) in consumed:
        raise WrongProgramError(f"Macro {number}: {call} consumes no result, or one that was consumed before.")
    consumed[int(kernel)] = (register, held[register])


def _transfers(call: MacroCall) -> tuple[_Transfer, ...]:
    """The transfers of a call with its arguments in place. Raises `WrongProgramError` for a call that the chip lacks."""
    kinds = [_kind(argument) for argument in call.arguments]
    for signature, texts in _MACROS.items():
        name, *formal = signature.split()
        if name == call.name and kinds == ["direction" if f in ("first", "second") else "register" for f in formal]:
            given = dict(zip(formal, call.arguments, strict=True))
            return tuple(_transfer(text, given) for text in texts)
    raise WrongProgramError(f"{call} is no macro of the chip.")


def _kind(argument: str) -> str:
    return "register" if argument in _REGISTERS else "direction" if argument in _STEPS else "unknown"


def _transfer(text: str, given: Mapping[str, str]) -> _Transfer:
    left, right = text.split("=")
    destinations = tuple(_place(name, given, -1) for name in left.split())
    return _Transfer(destinations, tuple(_place(name, given, 1) for name in right.split()))


def _place(name: str, given: Mapping[str, str], sign: int) -> tuple[str, Cell]:
    register, _, direction = name.partition("@")
    x, y = _STEPS[given[direction]] if direction else (0, 0)
    return given.get(register, register), (sign * x, sign * y)


def _execute(transfer: _Transfer, held: dict[str, CellWeights], where: str) -> None:
    total: dict[Cell, Fraction] = {}
    for name, at in transfer.sources:
        if name not in held:
            raise WrongProgramError(f"{where} reads {name}, which holds nothing yet.")
        for cell, weight in _moved(held[name], at).items():
            total[cell] = total.get(cell, Fraction(0)) - weight / len(transfer.destinations)
    for name, at in transfer.destinations:
        # What an element writes into its neighbour in one direction, the element there has from the opposite one.
        held[name] = _moved(total, (-at[0], -at[1]))


def _moved(weights: CellWeights, by: Cell) -> dict[Cell, Fraction]:
    return {(x + by[0], y + by[1]): weight for (x, y), weight in weights.items()}
