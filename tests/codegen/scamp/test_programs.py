"""Programs: the paper's and the facts' are proved, broken ones are refused, text and registers are what they should be."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings

from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.scamp.instructions import instruction_set
from kilotune.codegen.scamp.kernel import Kernel, KernelSet
from kilotune.codegen.scamp.macros import as_macros, format_macros
from kilotune.codegen.scamp.naive import naive_plan
from kilotune.codegen.scamp.plan import Plan, PlanStep, computed
from kilotune.codegen.scamp.program import ScampProgram
from kilotune.codegen.scamp.registers import (
    RegisterPressureError,
    allocate,
    fits,
    legalised,
    needed_registers,
    without_dead_steps,
)
from kilotune.codegen.scamp.sums import Sum
from kilotune.codegen.scamp.text import format_program, parse_program
from kilotune.evaluators.scamp5.symbolic import WrongProgramError, execute, prove
from tests.codegen.scamp.random_plans import plans

pytestmark = pytest.mark.slow

# AUKE Listing 1, a 5x5 box of 14 instructions; line 7, which the printed page lost, is the one that fits.
LISTING_1 = """# auke; image in A; results in A
B = east(A)
A = add(B, A)
B = east(B)
B = add(B, A)
A = west(A)
A = west(A)
A = add(B, A)
B = north(A)
A = add(B, A)
B = north(B)
B = add(A, B)
A = south(A)
A = south(A)
A = add(B, A)
"""

SOBEL_7 = """# auke; image in A; results in A
B = north(A)
B = add(A, B)
A = south(B)
A = add(A, B)
B = west(A)
A = east(A)
A = sub(B, A)
"""

LAPLACIAN_5 = """# scamp5; image in A; results in A
B = subx(A, east, A)
C = subx(A, north, A)
A = subx(C, east, B)
C = subx(C, south, B)
A = subx(A, west, C)
"""


def sums_of(*rows: list[list[int]]) -> tuple[Sum, ...]:
    return KernelSet(tuple(Kernel.of_rows(kernel) for kernel in rows)).approximate(0).sums


SOBEL = sums_of([[1, 0, -1], [2, 0, -2], [1, 0, -1]])
LAPLACIAN = sums_of([[0, 1, 0], [1, -4, 1], [0, 1, 0]])


@pytest.mark.parametrize(
    ("text", "wanted", "instructions", "transfers"),
    [
        (LISTING_1, sums_of([[1] * 5] * 5), 14, 28),
        (SOBEL_7, SOBEL, 7, 14),
        (LAPLACIAN_5, LAPLACIAN, 5, 10),
        ("# auke; image in A; results in A\n", sums_of([[1]]), 0, 0),
        ("# scamp5; image in A; results in A, A\n", sums_of([[1]], [[1]]), 0, 0),
        ("# scamp5; image in A; results in B\nB = res()\n", sums_of([[0]]), 1, 2),
    ],
)
def test_known_programs_are_proved(text: str, wanted: tuple[Sum, ...], instructions: int, transfers: int) -> None:
    program = prove(text, wanted, 0)
    assert (program.instructions, program.bus_transfers) == (instructions, transfers)
    assert program.seconds == transfers / 10e6
    assert program.energy_joules == pytest.approx(1.23 * transfers / 10e6)
    assert prove(format_program(program), wanted, 0) == program


def test_every_broken_line_of_a_program_is_refused() -> None:
    lines = LISTING_1.splitlines()
    for number in range(1, len(lines)):
        broken = "\n".join(lines[:number] + lines[number + 1 :])
        with pytest.raises(WrongProgramError):
            prove(broken, sums_of([[1] * 5] * 5), 0)


def test_the_first_output_that_differs_is_named() -> None:
    text = SOBEL_7.replace("results in A", "results in B, A")
    with pytest.raises(
        WrongProgramError, match=r"Output 1 .* kernel 1: the weight of cell \(1, -1\) is 0 instead of -1"
    ):
        prove(text, SOBEL * 2, 0)
    both = SOBEL_7.replace("results in A", "results in A, A")
    with pytest.raises(WrongProgramError, match=r"Output 2 .* cell \(-1, -1\) is 1 instead of 0\.25"):
        prove(both, (SOBEL[0].scaled(4), SOBEL[0]), 2)
    with pytest.raises(WrongProgramError, match="1 result for 2 kernels"):
        prove(SOBEL_7, SOBEL * 2, 0)


def test_division_leaves_what_the_macro_leaves() -> None:
    results, depth = execute("# scamp5; image in A; results in B, C, D, A\nB, C, D = div(A)\n")
    assert depth == 1
    assert [result.weight((0, 0)) for result in results] == [1, -1, 2, 2]
    in_place, _ = execute("# scamp5; image in A; results in B, C, A\nB, C, A = div(A)\n")
    assert [result.weight((0, 0)) for result in in_place] == [1, -1, 2]


def test_directions_read_from_the_neighbour_there() -> None:
    for direction, cell in (("north", (0, 1)), ("east", (1, 0)), ("south", (0, -1)), ("west", (-1, 0))):
        for text in (f"# auke; image in A; results in A\nA = {direction}(A)",) * 2:
            assert execute(text)[0] == (Sum.of({cell: 1}),)
    twice = "# scamp5; image in A; results in B\nA = movx(A, west)\nB = sub2x(A, north, east, A)"
    assert execute(twice)[0] == (Sum.of({(0, 1): 1, (-1, 0): -1}),)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("A = add(A, A)", "different registers"),
        ("B = neg(B)", "cannot read B and write it"),
        ("B = sub(A, B)", "cannot read B and write it"),
        ("A = subx(B, east, A)", "cannot read A and write it"),
        ("B, C, D = div(C)", "before it is read"),
        ("B, B, D = div(A)", "different destinations"),
        ("B = subx(A, A, east)", "operands"),
        ("B = movx(A)", "an instruction of scamp5"),
        ("B = addneg(A, A)", "an instruction of scamp5"),
        ("G = mov(A)", "registers A to F"),
        ("B = mov(A", "registers A to F"),
    ],
)
def test_text_that_the_chip_cannot_run(line: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint) as error:
        parse_program(f"# scamp5; image in A; results in A\nB = mov(A)\n{line}\n")
    assert ":3:1:" in str(error.value)


@pytest.mark.parametrize(
    "text", ["", "B = mov(A)\n", "# cain; image in A; results in A\n", "# auke; image in B; results in A"]
)
def test_text_without_its_header(text: str) -> None:
    with pytest.raises(InputError, match="image in A"):
        parse_program(text)


def test_a_register_that_holds_nothing() -> None:
    with pytest.raises(WrongProgramError, match=r"Instruction 1, B = mov\(C\), reads C"):
        execute("# scamp5; image in A; results in A\nB = mov(C)")
    with pytest.raises(WrongProgramError, match="result register B"):
        execute("# auke; image in A; results in B")


@given(plans())
@settings(max_examples=150)
def test_allocated_programs_compute_the_plan(plan: Plan) -> None:
    wanted = computed(plan)
    program = allocate(plan) if fits(plan, 6) else None
    if program is not None:
        assert prove(format_program(program), wanted, plan.depth) == program


def least_registers_by_brute_force(plan: Plan) -> int:
    """Every order, every allocation: the definition. Values alive together, and what instructions keep apart."""
    count = len(plan.steps)
    best = 99
    for order in itertools.permutations(range(1, count + 1)):
        if any(order.index(o) > place for place, n in enumerate(order) for o in plan.steps[n - 1].operands if o):
            continue
        best = min(best, _least_in_order(plan, order))
    return best if count else 1


def _least_in_order(plan: Plan, order: tuple[int, ...]) -> int:
    for registers in range(1, 7):
        if _holds(plan, order, {0: 0}, 0, registers):
            return registers
    return 99


def _holds(plan: Plan, order: tuple[int, ...], where: dict[int, int], place: int, registers: int) -> bool:
    if place == len(order):
        return True
    number = order[place]
    step = plan.steps[number - 1]
    row = plan.instruction(step)
    later = {o for n in order[place + 1 :] for o in plan.steps[n - 1].operands} | set(plan.results)
    kept = {value: register for value, register in where.items() if value in later}
    for written in itertools.permutations(range(registers), 1 + row.destroyed):
        if set(written) & set(kept.values()):
            continue
        if any(where[step.operands[i]] == written[0] for i in row.apart):
            continue
        if row.destroyed and any(where[o] in written[:-1] for o in step.operands):
            continue
        if _holds(plan, order, {**kept, number: written[0]}, place + 1, registers):
            return True
    return False


@given(plans(longest=4))
@settings(max_examples=60)
def test_no_program_takes_fewer_registers(plan: Plan) -> None:
    whole = legalised(without_dead_steps(plan))
    if len(whole.steps) > 4:
        return
    least = least_registers_by_brute_force(whole)
    assert fits(plan, 6) == (least <= 6)
    if least <= 6:
        assert len(allocate(plan, least).registers) <= least
        assert not fits(plan, least - 1)


def test_a_bad_order_is_mended() -> None:
    # six shifted copies first, their sum afterwards: the order given takes eight registers, another one two
    steps = [PlanStep("east", (number,)) for number in range(6)]
    total = 0
    for number in range(1, 7):
        steps.append(PlanStep("add", (total, number)))
        total = len(steps)
    plan = Plan("auke", 0, tuple(steps), (total,))
    assert needed_registers(plan) == 7
    program = allocate(plan, 3)
    assert program.registers == ("A", "B")
    prove(format_program(program), computed(plan), 0)


def test_too_few_registers_is_said() -> None:
    plan = naive_plan(SOBEL, 0, "auke")
    with pytest.raises(RegisterPressureError, match="more than the 2 registers given; 3 would do"):
        allocate(plan, 2)
    with pytest.raises(RegisterPressureError, match="1 to 6 registers, not 0"):
        allocate(plan, 0)


def test_doubling_takes_a_copy_on_the_chip() -> None:
    plan = Plan("scamp5", 0, (PlanStep("add", (0, 0)),), (1,))
    assert format_program(allocate(plan)) == "# scamp5; image in A; results in A\nB = mov(A)\nA = add(A, B)\n"


def test_macros_in_cpp() -> None:
    source = format_macros(parse_program(LAPLACIAN_5))
    assert "subx(A, C, east, B);" in source
    assert "5 macros, 10 bus transfers" in source
    assert "all();" not in source
    text = "# scamp5; image in A; results in B\nB, C, A = div(A)\nB = mov2x(B, east, north)\nC, D, E = div(B)\n"
    lines = format_macros(parse_program(text)).splitlines()
    assert [line.strip() for line in lines[8:13]] == [
        "all();  // shifts by two need every processing element flagged",
        "div(B, C, A);",
        "mov2x(B, B, east, north);",
        "div(C, D, E, B);",
        "scamp5_kernel_end();",
    ]


@given(plans())
@settings(max_examples=60)
def test_macros_of_the_papers_instructions_compute_the_same(plan: Plan) -> None:
    if plan.target == "auke" and fits(plan, 3):
        prove(format_program(as_macros(allocate(plan))), computed(plan), plan.depth)


def test_instruction_sets_are_those_of_the_facts() -> None:
    costs = {(row.name, row.operands, row.destroyed): row.bus_transfers for row in instruction_set("scamp5").rows}
    assert costs == {
        ("mov", 1, 0): 2,
        ("movx", 1, 0): 2,
        ("mov2x", 1, 0): 3,
        ("add", 2, 0): 2,
        ("add", 3, 0): 2,
        ("addx", 2, 0): 2,
        ("add2x", 2, 0): 3,
        ("sub", 2, 0): 2,
        ("subx", 2, 0): 2,
        ("sub2x", 2, 0): 3,
        ("neg", 1, 0): 2,
        ("divq", 1, 0): 2,
        ("div", 1, 2): 5,
        ("res", 0, 0): 2,
        ("res", 0, 1): 3,
    }
    assert ScampProgram("auke", (), ("A",)).bus_transfers == 0
