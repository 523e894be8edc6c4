"""Emitted C++ is held to the chip's bus transfers: legal and right passes, everything else is refused by name."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.scamp.instructions import Instruction, instruction_set
from kilotune.codegen.scamp.kernel import Kernel, KernelSet
from kilotune.codegen.scamp.macros import format_macros
from kilotune.codegen.scamp.plan import Plan, computed
from kilotune.codegen.scamp.program import Operation, ScampProgram, violation
from kilotune.codegen.scamp.registers import RegisterPressureError, allocate
from kilotune.codegen.scamp.sums import DIRECTIONS, Sum
from kilotune.codegen.scamp.text import format_program, parse_program
from kilotune.evaluators.scamp5.array import run
from kilotune.evaluators.scamp5.macro_check import breach, check_macros, read_macros
from kilotune.evaluators.scamp5.symbolic import WrongProgramError, execute, prove
from tests.codegen.scamp.random_plans import plans

LAPLACIAN = """# scamp5; image in A; results in A
B = subx(A, east, A)
C = subx(A, north, A)
A = subx(C, east, B)
C = subx(C, south, B)
A = subx(A, west, C)
"""
LAPLACIAN_SUMS = KernelSet((Kernel.of_rows([[0, 1, 0], [1, -4, 1], [0, 1, 0]]),)).approximate(0).sums

HALVED_TWICE = "# scamp5; image in A; results in A\nB = divq(A)\nA = divq(B)\n"


def source_of(text: str) -> str:
    return format_macros(parse_program(text))


def calls_of(row: Instruction) -> list[tuple[Operation, ScampProgram]]:
    """Every choice of registers for an instruction."""
    found = []
    for registers in itertools.product("ABCD", repeat=1 + row.destroyed + row.operands):
        written = registers[: 1 + row.destroyed]
        operation = Operation(row.name, written, registers[len(written) :], ("south", "east")[: row.directions])
        found.append((operation, ScampProgram("scamp5", (operation,), ("A",))))
    return found


@pytest.mark.parametrize(
    "row", instruction_set("scamp5").rows, ids=lambda row: f"{row.name}-{row.operands}-{row.destroyed}"
)
def test_the_rules_of_an_instruction_are_those_of_its_transfers(row: Instruction) -> None:
    allowed = 0
    for operation, program in calls_of(row):
        (call,) = (call for call in read_macros(format_macros(program))[0] if call.name != "all")
        allowed += breach(call) is None
        if row.operands or len(set(operation.destinations)) == len(operation.destinations):
            assert (breach(call) is None) == (violation(program, operation) is None), str(call)
    assert allowed


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_macros_read_from_the_neighbour_in_their_direction(direction: str) -> None:
    for line in (
        f"B = movx(A, {direction})",
        f"B = mov2x(A, {direction}, east)",
        f"B = sub2x(A, west, {direction}, A)",
    ):
        text = f"# scamp5; image in A; results in B\n{line}\n"
        (wanted,), depth = execute(text)
        check_macros(source_of(text), (wanted,), depth)
        with pytest.raises(WrongProgramError, match="Register B does not hold kernel 1"):
            check_macros(source_of(text), (wanted + Sum.of({(3, 3): 1}),), depth)


def test_transfers_are_counted_as_they_are_made() -> None:
    assert check_macros(source_of(LAPLACIAN), LAPLACIAN_SUMS, 0) == 10
    assert check_macros(source_of(HALVED_TWICE), (Sum.of({(0, 0): 1}),), 2) == 4
    corrected = source_of("# scamp5; image in A; results in B, C, D\nB, C, D = div(A)\n")
    assert check_macros(corrected, (Sum.of({(0, 0): 1}), Sum.of({(0, 0): -1}), Sum.of({(0, 0): 2})), 1) == 5


def test_a_halving_in_place_is_refused() -> None:
    source = source_of(HALVED_TWICE).replace("divq(A, B)", "divq(B, B)").replace("results in A", "results in B")
    with pytest.raises(WrongProgramError, match=r"Macro 2: divq\(B, B\) has B twice in its bus transfer 1"):
        check_macros(source, (Sum.of({(0, 0): 1}),), 2)
    with pytest.raises(InputError, match="cannot read A and write it"):
        parse_program("# scamp5; image in A; results in A\nA = divq(A)\n")


@pytest.mark.parametrize(
    ("written", "instead", "complaint"),
    [
        ("subx(B, A, east, A)", "subx(B, A, A, east)", "no macro of the chip"),
        ("subx(B, A, east, A)", "rotate(B, A)", "no macro of the chip"),
        ("subx(B, A, east, A)", "subx(B, D, east, A)", "reads D, which holds nothing"),
        ("subx(B, A, east, A)", "subx(B, NEWS, east, A)", "no macro of the chip"),
        ("subx(B, A, east, A)", "B = A", "no call of a macro"),
        ("subx(B, A, east, A)", "mov2x(B, A, east, east)", "flagged by all"),
        ("subx(B, A, east, A)", "subx(B, A, west, A)", "does not hold kernel 1"),
        ("scamp5_kernel_end();", "", "begins and ends"),
        ("results in A", "results in A, B", "2 results for 1 kernel"),
    ],
)
def test_what_is_illegal_or_wrong_is_named(written: str, instead: str, complaint: str) -> None:
    source = source_of(LAPLACIAN)
    assert written in source
    with pytest.raises(WrongProgramError, match=complaint):
        check_macros(source.replace(written, instead), LAPLACIAN_SUMS, 0)


def mutated(program: ScampProgram, generator: random.Random) -> ScampProgram:
    """One register or direction of one instruction is another one, or the instruction is gone."""
    operations = list(program.operations)
    at = generator.randrange(len(operations))
    kind, operation = generator.randrange(4), operations[at]
    if kind == 0 and operation.sources:
        sources = list(operation.sources)
        sources[generator.randrange(len(sources))] = generator.choice("ABCDEF")
        operations[at] = replace(operation, sources=tuple(sources))
    elif kind == 1:
        operations[at] = replace(operation, destinations=(generator.choice("ABCDEF"), *operation.destinations[1:]))
    elif kind == 2 and operation.directions:
        directions = tuple(generator.choice(sorted(DIRECTIONS)) for _ in operation.directions)
        operations[at] = replace(operation, directions=directions)
    else:
        del operations[at]
    return replace(program, operations=tuple(operations))


def is_right(program: ScampProgram, wanted: tuple[Sum, ...], depth: int) -> bool:
    """By the instruction set's own rows and the proof on the program's text."""
    try:
        prove(format_program(program), wanted, depth)
    except (InputError, WrongProgramError):
        return False
    return True


def test_of_a_thousand_mutated_programs_exactly_the_right_ones_pass() -> None:
    generator, refused = random.Random(19), 0
    halved = (
        "# scamp5; image in A; results in C\nB = divq(A)\nC = add2x(A, B, north, west)\nB = divq(C)\nC = add(A, B, C)\n"
    )
    for number in range(1000):
        program = parse_program((LAPLACIAN, HALVED_TWICE, halved)[number % 3])
        wanted, depth = execute(format_program(program))
        mutant = mutated(program, generator)
        try:
            check_macros(format_macros(mutant), wanted, depth)
            passed = True
        except WrongProgramError:
            passed = False
        assert passed == is_right(mutant, wanted, depth), format_macros(mutant)
        refused += not passed
    assert refused > 800


def illegal_program(generator: random.Random, left: int) -> ScampProgram:
    """A random program of macros of which just one breaks a rule, and that reads nothing which is not written. `left`: the place of the
    bad one, from the end."""
    held, operations, bad = ["A"], list[Operation](), False
    while not bad or left:
        row = generator.choice(instruction_set("scamp5").rows)
        destinations = tuple(generator.choice("ABCDEF") for _ in range(1 + row.destroyed))
        sources = tuple(generator.choice(held) for _ in range(row.operands))
        directions = tuple(generator.choice(sorted(DIRECTIONS)) for _ in range(row.directions))
        operation = Operation(row.name, destinations, sources, directions)
        if row.operands == 0 or (violation(ScampProgram("scamp5", (), ()), operation) is not None) == bad:
            continue  # the first one is the bad one, all others are not
        left -= bad
        bad = True
        operations.append(operation)
        held = sorted({*held, *destinations})
    return ScampProgram("scamp5", tuple(operations), (operations[-1].destinations[0],))


def meant(program: ScampProgram) -> tuple[tuple[Sum, ...], int]:
    """What a program would compute if its instructions could be had with any registers, and the depth."""
    depth = sum(program.instruction(operation).halvings for operation in program.operations)
    registers = {"A": Sum.image(depth)}
    for operation in program.operations:
        row = program.instruction(operation)
        result = row.apply([registers[name] for name in operation.sources], operation.directions)
        registers[operation.destinations[0]] = result
        for name, factor in zip(operation.destinations[1:], row.left, strict=True):
            registers[name] = result.scaled(factor)
    return tuple(registers[name] for name in program.results), depth


def test_a_thousand_programs_whose_sums_are_right_are_refused_for_one_illegal_macro() -> None:
    generator = random.Random(5)
    for number in range(1000):
        program = illegal_program(generator, number % 4)
        wanted, depth = meant(program)
        with pytest.raises(WrongProgramError, match=r"Macro \d+: .* twice in its bus transfer"):
            check_macros(format_macros(program), wanted, depth)
        with pytest.raises(InputError, match="registers that the instruction permits"):
            prove(format_program(program), wanted, depth)


def test_macros_that_need_all_elements_flagged_are_refused_without() -> None:
    text = "# scamp5; image in A; results in C\nB = mov2x(A, north, east)\nC = add(A, B)\n"
    wanted, depth = execute(text)
    source = source_of(text)
    check_macros(source, wanted, depth)
    flagging = next(line for line in source.splitlines() if "all()" in line)
    with pytest.raises(WrongProgramError, match="flagged by all"):
        check_macros(source.replace(flagging, ""), wanted, depth)


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ("B = add(A, C)", "instruction 1, add: .* found C"),
        ("B = east(A)\nB = north(C)", "instruction 2, north: .* found C"),
    ],
)
def test_what_reads_nothing_has_no_macros(lines: str, named: str) -> None:
    program = parse_program(f"# auke; image in A; results in B\n{lines}\n")
    with pytest.raises(ValueError, match=named):
        format_macros(program)
    with pytest.raises(ValueError, match=r"kernel 1: .* found D"):
        format_macros(parse_program("# auke; image in A; results in D\nB = add(A, A)\n"))


@given(plans())
@settings(max_examples=60, deadline=None)
def test_emitted_macros_pass_whatever_the_program(plan: Plan) -> None:
    try:
        source = format_macros(allocate(plan))
    except RegisterPressureError:
        return
    check_macros(source, computed(plan), plan.depth)


CONSUMED = """# scamp5; image in A; results in B after 1, B after 2
B = movx(A, east)
B = movx(A, west)
"""
CONSUMED_SUMS = (Sum.of({(1, 0): 1}), Sum.of({(-1, 0): 1}))


def test_results_are_consumed_where_the_program_says() -> None:
    source = source_of(CONSUMED)
    assert check_macros(source, CONSUMED_SUMS, 0) == 4
    assert prove(CONSUMED, CONSUMED_SUMS, 0).read_after == (1, 2)
    for written, instead, complaint in (
        ("consume(1, B);\n", "", "kernel 1 when it is read"),
        ("consume(1, B)", "consume(1, A)", "kernel 1 when it is read"),
        ("consume(2, B)", "consume(1, B)", "consumed before"),
        ("consume(2, B)", "consume(2, F)", "consumes no result"),
    ):
        assert written in source
        with pytest.raises(WrongProgramError, match=complaint):
            check_macros(source.replace(written, instead), CONSUMED_SUMS, 0)


@pytest.mark.parametrize("header", ["B after 1, B after 3", "B after 1, B", "B after 1 B after 2"])
def test_a_reading_that_never_comes_is_refused(header: str) -> None:
    with pytest.raises(InputError):
        parse_program(CONSUMED.replace("B after 1, B after 2", header))


def test_a_result_that_is_read_too_early_holds_nothing() -> None:
    with pytest.raises(WrongProgramError, match="result register B holds nothing"):
        prove(CONSUMED.replace("after 1", "after 0"), CONSUMED_SUMS, 0)
    with pytest.raises(WrongProgramError, match="Output 1"):
        prove(CONSUMED.replace("after 1", "after 2"), CONSUMED_SUMS, 0)


@given(plans())
@settings(max_examples=60, deadline=None)
def test_consumed_results_are_those_of_the_plan_in_every_execution(plan: Plan) -> None:
    try:
        program = allocate(plan, kept=False)
        kept = allocate(plan)
    except RegisterPressureError:
        return
    assert len(program.registers) <= len(kept.registers)
    text = format_program(program)
    assert prove(text, computed(plan), plan.depth) == program
    check_macros(format_macros(program), computed(plan), plan.depth)
    image = np.arange(49.0).reshape(7, 7)
    for one, other in zip(run(text, image).results, run(format_program(kept), image).results, strict=True):
        inner = np.s_[3:4, 3:4]
        np.testing.assert_allclose(one[inner], other[inner])
