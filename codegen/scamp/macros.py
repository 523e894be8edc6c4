"""Programs as C++ for the chip: the macros of the scamp5 library.

Programs of the `auke` set are brought to macros one instruction at a time first: doubling needs a copy, since no macro adds
a register to itself, and the negated sum is two macros.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kilotune.codegen.counts import counted
from kilotune.codegen.scamp.instructions import REGISTERS
from kilotune.codegen.scamp.plan import Plan, PlanStep
from kilotune.codegen.scamp.program import Operation, ScampProgram
from kilotune.codegen.scamp.registers import allocate
from kilotune.codegen.scamp.sums import DIRECTIONS
from kilotune.codegen.scamp.text import arguments

_MACROS = (("copy", "mov"), ("div2", "divq"), ("zero", "res"))


def plan_of(program: ScampProgram) -> Plan:
    """The program without its registers.

    ValueError, a sentence, where it reads a register that holds nothing yet, or what a division has left in its further registers: that
    has no place in a plan.
    """
    held = {"A": 0}
    steps: list[PlanStep] = []
    results = {kernel: 0 for kernel, when in enumerate(program.reading_times) if not when}
    for number, operation in enumerate(program.operations, start=1):
        _require_held(held, operation.sources, f"instruction {number}, {operation.op}")
        steps.append(PlanStep(operation.op, tuple(held[name] for name in operation.sources), operation.directions))
        for lost in operation.destinations[1:]:
            held.pop(lost, None)
        held[operation.destinations[0]] = len(steps)
        for kernel, when in enumerate(program.reading_times):
            if when == number:
                _require_held(held, program.results[kernel : kernel + 1], f"kernel {kernel + 1}")
                results[kernel] = held[program.results[kernel]]
    halvings = sum(program.instruction(operation).halvings for operation in program.operations)
    return Plan(program.target, halvings, tuple(steps), tuple(results[k] for k in range(len(program.results))))


def _require_held(held: Mapping[str, int], names: Sequence[str], reader: str) -> None:
    missing = [name for name in names if name not in held]
    if missing:
        raise ValueError(f"{reader}: expected a register that holds a value of the program, found {missing[0]}.")


def as_macros(program: ScampProgram) -> ScampProgram:
    """A program of `scamp5` macros that computes what the `auke` program does, instruction by instruction.

    Raises `RegisterPressureError` when the copies that this takes do not find a register, and as `plan_of`.
    """
    if program.target == "scamp5":
        return program
    plan = plan_of(program)
    renamed = dict(_MACROS)
    numbers, steps = {0: 0}, []
    for number, step in enumerate(plan.steps, start=1):
        operands = tuple(numbers[operand] for operand in step.operands)
        if step.op in DIRECTIONS:
            steps.append(PlanStep("movx", operands, (step.op,)))
        elif step.op == "addneg":
            steps.append(PlanStep("add", operands))
            steps.append(PlanStep("neg", (len(steps),)))
        else:
            steps.append(PlanStep(renamed.get(step.op, step.op), operands))
        numbers[number] = len(steps)
    results = tuple(numbers[result] for result in plan.results)
    return allocate(Plan("scamp5", plan.depth, tuple(steps), results), len(REGISTERS), kept=not program.read_after)


def format_macros(program: ScampProgram, name: str = "convolve", note: str = "") -> str:
    """A C++ header with one inline function; `note`: a line about it. Raises as `as_macros`.

    Where results are read before the end, the function is given what consumes them: it is called with the number of the kernel, from 1,
    and the register, in between the macros. It may write NEWS and digital registers, no analogue one, and leaves every element flagged.
    """
    macros = as_macros(program)
    where = "consumed from" if macros.read_after else "in"
    flagged = any(macros.instruction(operation).needs_all_flagged for operation in macros.operations)
    lines = [
        "// A kernel for SCAMP-5, written by kilotune.",
        f"// Image in A; results {where} {', '.join(macros.results)}. {counted(len(macros.operations), 'macro')},"
        f" {counted(macros.bus_transfers, 'bus transfer')}.",
        *([f"// {note}"] if note else []),
        "#include <scamp5.hpp>",
        "",
        *(["template <class Consume>"] if macros.read_after else []),
        f"inline void {name}({'Consume consume' if macros.read_after else ''})",
        "{",
        "    using namespace SCAMP5_PE;",
        "    scamp5_kernel_begin();",
        *(["        all();  // shifts by two need every processing element flagged"] if flagged else []),
        *(f"        {line};" for line in _calls(macros)),
        "    scamp5_kernel_end();",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _calls(program: ScampProgram) -> Iterator[str]:
    """The macros, and where results are read in between, what consumes them."""
    read = list(zip(program.read_after, range(1, len(program.results) + 1), program.results, strict=False))
    yield from (f"consume({kernel}, {register})" for when, kernel, register in read if not when)
    for number, operation in enumerate(program.operations, start=1):
        yield _call(program, operation)
        yield from (f"consume({kernel}, {register})" for when, kernel, register in read if when == number)


def _call(program: ScampProgram, operation: Operation) -> str:
    row = program.instruction(operation)
    given = arguments(row, operation)
    if operation.op == "div" and operation.sources[0] == operation.destinations[-1]:
        given = ()  # the macro's form that divides the last register in place
    return f"{operation.op}({', '.join((*operation.destinations, *given))})"
