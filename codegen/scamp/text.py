"""Programs as text, and back: one instruction a line, `destination = op(sources and directions)`.

    # scamp5; image in A; results in A
    B = subx(A, east, A)

Directions stand where the chip's macros have them: behind the shifted operands. A division names the registers that it
destroys too: `B, C, D = div(A)`. The first line says the target and the registers of the results, which hold them at the end,
or, as in `results in A after 7, B after 12`, when so many instructions are done.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.scamp.instructions import INSTRUCTION_SETS, REGISTERS, Instruction
from kilotune.codegen.scamp.program import Operation, ScampProgram, violation
from kilotune.codegen.scamp.sums import DIRECTIONS

_HEADER = re.compile(
    r"#\s*(\w+)\s*;\s*image in A\s*;\s*results in\s+([A-F](?: after \d+)?(?:\s*,\s*[A-F](?: after \d+)?)*)\s*", re.ASCII
)
_LINE = re.compile(r"\s*([A-F](?:\s*,\s*[A-F])*)\s*=\s*(\w+)\s*\(([^()]*)\)\s*")


def format_operation(row: Instruction, operation: Operation) -> str:
    """One line, without its end."""
    return f"{', '.join(operation.destinations)} = {operation.op}({', '.join(arguments(row, operation))})"


def arguments(row: Instruction, operation: Operation) -> tuple[str, ...]:
    """Sources with the directions behind the shifted ones."""
    shifted = sum(row.shifted) if operation.directions else len(operation.sources)
    return (*operation.sources[:shifted], *operation.directions, *operation.sources[shifted:])


def format_program(program: ScampProgram) -> str:
    """The whole text, with its header."""
    lines = [f"# {program.target}; image in A; results in {results_text(program)}"]
    lines += [format_operation(program.instruction(operation), operation) for operation in program.operations]
    return "\n".join(lines) + "\n"


def results_text(program: ScampProgram) -> str:
    """The registers of the results, and when they are read where that is not the end."""
    if not program.read_after:
        return ", ".join(program.results)
    return ", ".join(f"{name} after {when}" for name, when in zip(program.results, program.read_after, strict=True))


def parse_program(text: str, path: str = "program") -> ScampProgram:
    """The program of a text. Raises `InputError` for anything that the target does not have or does not permit."""
    rows = text.splitlines()
    first = next((number for number, row in enumerate(rows) if row.strip()), 0)
    header = _HEADER.fullmatch(rows[first].strip()) if rows else None
    if header is None or header[1] not in INSTRUCTION_SETS:
        expected = f"'# TARGET; image in A; results in A' with the target {' or '.join(INSTRUCTION_SETS)}"
        raise InputError(
            path, line=first + 1, column=1, expected=expected, found=repr(rows[first]) if rows else "nothing"
        )
    results = [name.partition(" after ") for name in _names(header[2])]
    read_after = tuple(int(when) for _, _, when in results if when)
    program = ScampProgram(header[1], (), tuple(name for name, _, _ in results))
    operations = []
    for number, row in enumerate(rows[first + 1 :], start=first + 2):
        line = row.partition("#")[0]
        if line.strip():
            operations.append(_parse_line(program, line, path, number))
    if read_after and (len(read_after) < len(results) or max(read_after) > len(operations)):
        expected = "every result at the end, or every one after a number of instructions that there are"
        raise InputError(path, line=first + 1, column=1, expected=expected, found=repr(rows[first]))
    return ScampProgram(program.target, tuple(operations), program.results, read_after)


def _parse_line(program: ScampProgram, line: str, path: str, number: int) -> Operation:
    match = _LINE.fullmatch(line)
    if match is None:
        expected = f"DESTINATION = op(...) on the registers {REGISTERS[0]} to {REGISTERS[-1]}"
        raise InputError(path, line=number, column=1, expected=expected, found=repr(line.strip()))
    names = _names(match[3])
    sources = tuple(name for name in names if name in REGISTERS)
    directions = tuple(name for name in names if name in DIRECTIONS)
    operation = Operation(match[2], tuple(_names(match[1])), sources, directions)
    row = INSTRUCTION_SETS[program.target].find(operation.op, len(sources), len(operation.destinations))
    if row is None or row.directions != len(directions) or list(arguments(row, operation)) != names:
        expected = f"an instruction of {program.target} with its operands"
        raise InputError(path, line=number, column=1, expected=expected, found=repr(line.strip()))
    broken = violation(program, operation)
    if broken:
        expected = f"registers that the instruction permits ({broken})"
        raise InputError(path, line=number, column=1, expected=expected, found=repr(line.strip()))
    return operation


def _names(listed: str) -> Sequence[str]:
    return [name.strip() for name in listed.split(",")] if listed.strip() else []
