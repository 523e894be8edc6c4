"""Variables of 32 bits: who may have them, what they keep of a sum, and that both executions and the model know them."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from ortools.sat.python import cp_model

from kilotune.codegen import ir
from kilotune.codegen.fixed.shiftry import ShiftryLowering
from kilotune.codegen.fixed.table import Column
from kilotune.codegen.interference import Interference
from kilotune.evaluators.fixed_point.measuring import Task
from kilotune.evaluators.fixed_point.simulator import Backend
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Measurement, SolveLimit, Trial
from kilotune.spaces.shiftry.candidates import ShiftryOptions
from kilotune.spaces.shiftry.formats import aligned_parameters, parse_format
from kilotune.spaces.shiftry.placement_model import Width, add_placement
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.codegen.fixed.programs import HERE, variable
from tests.spaces.small_network import small_network

TASK = small_network(5)
REAL = ir.ResultKind.REAL
OPTIONS = ShiftryOptions(accuracy_drop=5.0)
PLAIN, WIDE = ShiftrySpace(TASK, OPTIONS), ShiftrySpace(TASK, replace(OPTIONS, wide=True))


def test_temporaries_and_what_is_added_may_have_32_bits_behind_the_papers_formats() -> None:
    summed = aligned_parameters(TASK.program)
    assert "B" in summed
    assert "W" not in summed
    for plain, decision in zip(PLAIN.decisions, WIDE.decisions, strict=True):
        role = TASK.program.variable(decision.name).role
        further = [parse_format(str(option)) for option in decision.options[len(plain.options) :]]
        assert decision.options[: len(plain.options)] == plain.options
        if role is ir.Role.TEMPORARY or decision.name in summed:  # what is only multiplied would lose them again
            assert [(form.bits, form.scale - parse_format(str(plain.options[0])).scale) for form in further] == [
                (32, 16)
            ]
        else:
            assert not further
    assert WIDE.core() == {decision.name: list(decision.options) for decision in PLAIN.decisions}


def test_the_papers_procedure_answers_as_before() -> None:
    found, papers = run_procedure(WIDE), run_procedure(PLAIN)
    assert found is not None
    assert papers is not None
    assert found.assignment == papers.assignment
    assert found.metrics == papers.metrics


def test_the_compiled_kernel_and_the_definition_agree_on_mixed_batches() -> None:
    rng = np.random.default_rng(0)
    candidates = [{d.name: d.options[rng.integers(len(d.options))] for d in WIDE.decisions} for _ in range(60)]
    candidates[7] = {d.name: d.options[0] for d in WIDE.decisions}
    defined = ShiftrySpace(TASK, WIDE.options, Backend.NUMPY)
    assert [m.metrics for m in WIDE.evaluate(candidates)] == [m.metrics for m in defined.evaluate(candidates)]


def product(bits: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The row of `t = a * w`, and the scales of a, w and t, where each takes all digits of its width."""
    variables = [variable("a", (1, 4)), variable("w", (4, 1), ir.Role.PARAMETER), variable("t", (1, 1))]
    a, w, t = (ir.whole(one) for one in variables)
    body = (ir.Fill(a, HERE, 0.5), ir.MatMul(t, HERE, a, w))
    program = ir.Program("product", tuple(variables), body, t, REAL)
    batch = ShiftryLowering(program, {}).lower([bits], [[width - 1 for width in bits]])
    return batch.rows[0, 1], batch.scales[0]


@pytest.mark.parametrize(
    ("widths", "given_up", "accumulator"),
    [((16, 16, 16), 0, 32), ((32, 8, 16), 8, 32), ((32, 16, 32), 16, 32), ((8, 8, 16), 0, 16), ((8, 8, 32), 0, 32)],
)
def test_a_product_of_32_bits_leaves_a_wide_factor_what_the_other_does_not_take(
    widths: tuple[int, int, int], given_up: int, accumulator: int
) -> None:
    row, scales = product(widths)
    assert row[Column.ACC_BITS] == accumulator
    assert row[Column.SHIFT_A] == given_up
    assert row[Column.SHIFT_OUT] == scales[0] - row[Column.SHIFT_A] + scales[1] - scales[2] - row[Column.SHIFT_TERM]


def test_a_wide_sum_keeps_the_digits_of_its_finer_operand() -> None:
    """By the paper's rule a sum has the lower scale of the two operands; with 32 bits there is room for the higher one."""
    variables = [variable("a", (1,)), variable("b", (1,)), variable("t", (1,))]
    a, b, t = (ir.whole(one) for one in variables)
    body = (ir.Fill(a, HERE, 0.5), ir.Fill(b, HERE, 0.5), ir.Add(t, HERE, a, b))
    lowering = ShiftryLowering(ir.Program("sum", tuple(variables), body, t, REAL), {})
    columns = [Column.SHIFT_A, Column.SHIFT_B, Column.SHIFT_OUT]
    wide = lowering.lower([[32, 16, 32]], [[31, 15, 30]])
    assert wide.rows[0, 2, columns].tolist() == [1, -15, 0]
    assert wide.scales[0, 2] == 30
    narrow = lowering.lower([[32, 16, 16]], [[31, 15, 14]])
    assert narrow.rows[0, 2, columns].tolist() == [17, 1, 0]


def computed(*steps: tuple[str, type[ir.Operation], str, str]) -> Task:
    """(result, operation, operands) of vectors of six, the first ones from the input X; an operand may be missing."""
    made = {"X": variable("X", (6,), ir.Role.INPUT)} | {name: variable(name, (6,)) for name, *_ in steps}
    view = {name: ir.whole(one) for name, one in made.items()}
    body = tuple(
        operation(view[out], HERE, view[a], *([view[b]] if b else []))  # type: ignore[call-arg]
        for out, operation, a, b in steps
    )
    program = ir.Program("steps", tuple(made.values()), body, view[steps[-1][0]], REAL)
    return Task(program, {}, np.random.default_rng(2).uniform(-1.0, 1.0, (40, 6)), None)


TOGETHER = computed(
    ("a", ir.Negate, "X", ""),
    ("b", ir.Relu, "X", ""),
    ("c", ir.Add, "a", "b"),
    ("d", ir.Add, "c", "a"),
    ("e", ir.Add, "d", "b"),
)
"""When c is computed, three of five temporaries are alive."""
IN_PLACE = computed(("a", ir.Negate, "X", ""), ("b", ir.Relu, "a", ""))
"""One may lie where the other does, and their bytes are all that is needed."""


@pytest.mark.parametrize("task", [TASK, TOGETHER, IN_PLACE], ids=["network", "together", "in place"])
def test_the_model_reaches_a_candidate_of_32_bits_wherever_there_are_some_within_its_very_memory(task: Task) -> None:
    whole = ShiftrySpace(task, WIDE.options)
    widest = {d.name: next((o for o in d.options if "int32" in str(o)), d.options[0]) for d in whole.decisions}
    (measured,) = whole.evaluate([widest])
    limits = {name: int(measured.metrics[f"{name}_bytes"]) for name in ("flash", "ram")}
    options = replace(whole.options, flash_limit_bytes=limits["flash"], ram_limit_bytes=limits["ram"])
    space = ShiftrySpace(task, options)
    rng = np.random.default_rng(0)
    trials = []
    for number in range(300):
        drawn = {d.name: d.options[rng.integers(len(d.options))] for d in space.decisions}
        others = sum(drawn[name] != option for name, option in widest.items())
        loss = float(np.expm1(others / 10))
        trials.append(
            Trial(number, drawn, Measurement({"expected_flips": loss, "precision_loss": loss, "expected_error": loss}))
        )
    answer = space.model(trials).solve(1, [], 0, SolveLimit(5.0))
    assert answer.candidates == (widest,)


def running_mean(length: int = 256) -> Task:
    """The mean of numbers that come one after the other: one sum, in a loop, at one scale."""
    variables = [variable("X", (length, 1), ir.Role.INPUT), variable("term", (1,)), variable("mean", (1,))]
    term, mean = (ir.whole(one) for one in variables[1:])
    number = ir.View("X", (1,), (1,), ir.Affine(0, (("i", 1),)))
    body = (
        ir.Multiply(term, HERE, number, ir.Literal(1.0 / length)),
        ir.Add(mean, HERE, mean, term),
    )
    program = ir.Program(
        "mean", tuple(variables), (ir.Fill(mean, HERE, 0.0), ir.Loop("i", 0, length, body, HERE)), mean, REAL
    )
    return Task(program, {}, np.random.default_rng(1).uniform(0.2, 1.0, (40, length)), None)


def test_a_long_sum_keeps_its_digits() -> None:
    space = ShiftrySpace(running_mean(), ShiftryOptions(wide=True))
    narrow = {d.name: d.options[0] for d in space.decisions}
    wide = {d.name: d.options[-1] if "int32" in str(d.options[-1]) else d.options[0] for d in space.decisions}
    without, within = (m.metrics["precision_loss"] for m in space.evaluate([narrow, wide]))
    assert without > 1e-3  # 256 times what a term of 16 bits at the scale of the sum loses
    assert within < without / 20


def test_places_of_variables_whose_width_is_open_are_those_of_the_same_widths_given() -> None:
    elements = {"a": 3, "b": 2, "c": 1}
    program = ir.Program(
        "three", tuple(variable(n, (size,)) for n, size in elements.items()), (), ir.View("a", (), ()), REAL
    )
    pairs = frozenset(itertools.combinations(sorted(elements), 2))
    interference = Interference(program, tuple(elements), pairs, (), (), ())
    for widths in itertools.product((1, 2, 4), repeat=3):
        peaks = []
        for is_open in (False, True):
            model = cp_model.CpModel()
            held = {}
            for name, width in zip(elements, widths, strict=True):
                variable_width = model.new_int_var_from_domain(cp_model.Domain.from_values([1, 2, 4]), name)
                model.add(variable_width == width)
                held[name] = Width(variable_width, (1, 2, 4)) if is_open else Width(width, (width,))
            peak = model.new_int_var(0, 60, "peak")
            offsets = add_placement(model, interference, held, peak, 60)
            model.minimize(peak)
            solver = cp_model.CpSolver()
            assert solver.solve(model) == cp_model.OPTIMAL
            for name, width in zip(elements, widths, strict=True):
                assert solver.value(offsets[name]) % width == 0
            peaks.append(solver.value(peak))
        assert peaks[0] == peaks[1]
