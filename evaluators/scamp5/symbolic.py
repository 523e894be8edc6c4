"""The proof that a program computes its kernels: the text is executed on sums of pixels.

Nothing of how the program was found is used: only its text, the instruction set, and the wanted sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kilotune.codegen.counts import counted
from kilotune.codegen.scamp.program import ScampProgram
from kilotune.codegen.scamp.sums import Sum
from kilotune.codegen.scamp.text import format_operation, parse_program


class WrongProgramError(Exception):
    """A program that does not compute what it should; the message is a sentence."""


def execute(text: str) -> tuple[tuple[Sum, ...], int]:
    """What the results hold, and the depth d of their unit `2**-d`.

    Raises `InputError` for text that is no program, `WrongProgramError` where a register is read before it is written.
    """
    program = parse_program(text)
    depth = _depth(program)
    results: dict[int, Sum] = {}
    for number, registers in enumerate(_executed(program, depth)):
        results |= _read(program, registers, number)
    return tuple(results[kernel] for kernel in range(len(program.results))), depth


def reach(text: str) -> int:
    """How many rows or columns away the farthest pixel is of those that are in a register at some time. Raises as `execute`."""
    program = parse_program(text)
    held = (total for registers in _executed(program, _depth(program)) for total in registers.values() if total)
    return max((abs(edge) for total in held for edge in total.box), default=0)


def _depth(program: ScampProgram) -> int:
    """Fine enough for every division that the program makes, so that no half is inexact."""
    return sum(program.instruction(operation).halvings for operation in program.operations)


def _executed(program: ScampProgram, depth: int) -> Iterator[Mapping[str, Sum]]:
    """What the registers hold at first and after each instruction."""
    registers: dict[str, Sum] = {"A": Sum.image(depth)}
    yield registers
    for number, operation in enumerate(program.operations, start=1):
        row = program.instruction(operation)
        missing = [name for name in operation.sources if name not in registers]
        if missing:
            line = format_operation(row, operation)
            raise WrongProgramError(f"Instruction {number}, {line}, reads {missing[0]}, which holds nothing yet.")
        result = row.apply([registers[name] for name in operation.sources], operation.directions)
        registers[operation.destinations[0]] = result
        for name, factor in zip(operation.destinations[1:], row.left, strict=True):
            registers[name] = result.scaled(factor)
        yield registers


def _read(program: ScampProgram, registers: Mapping[str, Sum], number: int) -> dict[int, Sum]:
    """What is read after so many instructions, by kernel. Raises `WrongProgramError` for a register that holds nothing."""
    read = {}
    for kernel, (name, when) in enumerate(zip(program.results, program.reading_times, strict=True)):
        if when == number:
            if name not in registers:
                raise WrongProgramError(f"The result register {name} holds nothing.")
            read[kernel] = registers[name]
    return read


def prove(text: str, wanted: Sequence[Sum], depth: int) -> ScampProgram:
    """The program of a text that computes exactly the wanted sums, in units of `2**-depth`, in that order.

    Raises `WrongProgramError` that names the first output and cell that differ, `InputError` for text that is none.
    """
    results, unit = execute(text)
    if len(results) != len(wanted):
        raise WrongProgramError(
            f"The program has {counted(len(results), 'result')} for {counted(len(wanted), 'kernel')}."
        )
    for number, (found, expected) in enumerate(zip(results, wanted, strict=True), start=1):
        difference = found.scaled(1 << depth) - expected.scaled(1 << unit)
        if difference:
            cell = difference.terms[0][0]
            raise WrongProgramError(
                f"Output {number} of the program is not kernel {number}: the weight of cell {cell} is "
                f"{_weight(found.weight(cell), unit)} instead of {_weight(expected.weight(cell), depth)}."
            )
    return parse_program(text)


def _weight(count: int, depth: int) -> str:
    return f"{count / (1 << depth):g}"
