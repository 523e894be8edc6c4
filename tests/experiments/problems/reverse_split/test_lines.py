"""What the terminal says of a program."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from kilotune.codegen.scamp.macros import plan_of
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.evaluators.scamp5.macro_check import check_macros
from kilotune.evaluators.scamp5.symbolic import prove
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.reverse_split import problem as module
from kilotune.experiments.problems.reverse_split.weight_errors import position_sentence
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.experiments.studies.tuning import conclude
from kilotune.experiments.terminal.front_table import MOST_ROWS, front_table
from kilotune.search.budget import Budget
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Assignment, Trial
from kilotune.search.study import Study
from kilotune.spaces.reverse_split.space import ReverseSplitSpace

COMPILER = any(shutil.which(command) for command in ("cc", "gcc", "clang"))


@pytest.mark.parametrize(
    "compiled", [pytest.param(True, marks=pytest.mark.skipif(not COMPILER, reason="no C compiler")), False]
)
def test_a_search_without_a_compiler_says_what_it_lacks(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends early with a wide gap, and nothing else would tell why."""
    if not compiled:
        monkeypatch.setattr(module, "load_kernel", lambda: None)
    made = build_problem(request_from("reverse-split", input="sobel", strategy="random"))
    answer = run_procedure(made.space)
    assert answer is not None
    assert (module.WITHOUT_COMPILER in made.lines(answer)) is not compiled


@pytest.mark.parametrize("options", [{}, {"error": 0.001}])
def test_weights_too_large_for_two_registers_are_refused_before_any_search(options: dict[str, float]) -> None:
    kernels, goal = "[[1000001, -777777], [3, 65536]]", "front" if options else "instructions"
    with pytest.raises(ValueError, match=r"\]\]: 2 registers of macros leave none to double a total in"):
        build_problem(request_from("reverse-split", input=kernels, objective=goal, options={"registers": 2, **options}))


def test_a_permitted_error_saves_digits_and_says_what_it_costs() -> None:
    kernels = "[[101, 7, -3], [64, 0, 2]]"
    exact, rough = (
        build_problem(request_from("reverse-split", input=kernels, strategy="random", options={"error": error}))
        for error in (None, 0.1)
    )
    assert isinstance(exact, module.KernelProblem)
    assert isinstance(rough, module.KernelProblem)
    (total,) = rough.wanted.sums
    assert [weight << (rough.given_depth - rough.wanted.depth) for _, weight in total.terms] == [64, 96]
    answers = [run_procedure(made.space) for made in (exact, rough)]
    assert answers[0] is not None
    assert answers[1] is not None
    assert answers[1].metrics["instructions"] < answers[0].metrics["instructions"]
    lines = rough.lines(answers[1])
    assert "The kernels have 3 signed digits of 10: of each, weights are off by at most 7.78 %." in lines
    assert any(line.endswith("a smaller --error makes it smaller.") for line in lines)
    assert rough.details(answers[1])["relative_errors"] == [
        pytest.approx(((25 + 49 + 9 + 4) / (101**2 + 49 + 9 + 64**2 + 4)) ** 0.5)
    ]
    assert len(exact.approximation_sentences(exact.made(answers[0]))) == 1


def test_the_table_of_a_front_measures_nothing_that_it_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """RMSE and SSIM on photographs take seconds a point, after the budget, and have no column there."""
    problem = build_problem(request_from("reverse-split", input="sobel", objective="front"))
    study = Study(problem.space, "exhaustive", seed=1)
    result = study.run(InProcessExecutor(problem.space), Budget(trials=4))
    assert result.front
    asked: list[Assignment] = []
    monkeypatch.setattr(module.KernelProblem, "test_metrics", lambda _, assignment: asked.append(assignment))
    table = front_table(conclude(problem, study, result))
    assert table is not None
    assert table.row_count == min(MOST_ROWS, len(result.front))
    assert len(asked) <= 2  # the best program and the paper's, whose figures stand beside the table


def test_results_that_may_lie_anywhere_are_said_to_lie_where_the_program_puts_them() -> None:
    problem = build_problem(request_from("reverse-split", input="[[1, 0], [0, -1]]", options={"anywhere": True}))
    assert isinstance(problem, module.KernelProblem)
    study = Study(problem.space, "exhaustive", seed=1)
    best = study.run(InProcessExecutor(problem.space), Budget(trials=60)).best
    assert best is not None
    assert best.metrics["instructions"] == 1
    x, y = problem.details(best)["position"]
    (total,) = problem.kernels.approximate(0).sums
    program = prove(problem.texts(best)["program"], [total.shifted((x, y))], 0)
    assert program.instructions == 1
    said = {(1, -1): "1 to the east and 1 to the south of it", (-1, 1): "1 to the west and 1 to the north of it"}
    cell = next(cell for cell, weight in total if weight < 0)
    assert (x, y) == (-cell[0], -cell[1])
    sentence = position_sentence((x, y))
    assert sentence in problem.lines(best)
    assert f"// {sentence}" in problem.texts(best)["macros"]
    assert check_macros(problem.texts(best)["macros"], [total.shifted((x, y))], 0)
    assert all(words in position_sentence(at) for at, words in said.items())


TIGHT = """
B = east(A); C = west(A); D = add(A, C); A = sub(C, A); E = north(B); F = south(C); E = sub(E, B); C = add(C, E); C = addneg(F, C)
F = north(A); C = add(F, C); C = addneg(F, A); C = sub(C, B); B = sub(D, B); C = south(D); C = sub(F, C); C = sub(C, B); C = east(F)
F = south(B); F = add(A, F); E = add(F, E); A = south(A); E = north(B); D = sub(D, E); B = add(A, B); A = add(A, D); A = sub(B, C)
"""
"""Six results, read as they finish; all six registers hold something while negated sums are made, which are two macros each."""


@pytest.mark.parametrize("tight", [True, False])
def test_a_program_without_cpp_says_why(tight: bool) -> None:
    if tight:
        results = "E after 21, C after 13, A after 26, C after 11, C after 17, A after 27"
        text = f"# auke; image in A; results in {results}\n" + TIGHT.strip().replace("; ", "\n") + "\n"
        rows = np.random.default_rng(1).integers(-1, 2, (6, 3, 3)).tolist()
    else:
        text, rows = "# auke; image in A; results in A\nB = north(A)\nA = addneg(A, B)\n", [[[-1], [-1], [0]]]
    problem = build_problem(request_from("reverse-split", input=json.dumps(rows), options={"target": "auke"}))
    assert isinstance(problem, module.KernelProblem)
    space = problem.space
    assert isinstance(space, ReverseSplitSpace)
    candidate = space.program_candidate(plan_of(prove(text, problem.wanted.sums, problem.wanted.depth)))
    trial = Trial(0, candidate, space.evaluate([candidate])[0])
    texts = problem.texts(trial)
    assert ("macros" in texts) == (not tight)
    said = [problem.lines(trial), problem.details(trial).values(), texts["program"].splitlines()]
    assert [any(module.WITHOUT_MACROS in str(line) for line in lines) for lines in said] == 3 * [tight]


@pytest.mark.parametrize(
    ("count", "registers", "large", "read"),
    [
        (4, 6, True, False),
        (5, 6, False, False),
        (5, 6, True, True),
        (3, 4, True, False),
        (5, 5, True, True),
        (6, 6, False, True),
    ],
)
def test_results_that_leave_one_register_are_read_where_that_is_shorter(
    count: int, registers: int, large: bool, read: bool
) -> None:
    """Five 8-bit kernels took 552 macros in six registers, and 181 in five, where they were read as they finish."""
    rows = [[[37 * number + 90, -101 - 3 * number]] if large else [[number + 1, -1]] for number in range(count)]
    problem = build_problem(request_from("reverse-split", input=json.dumps(rows), options={"registers": registers}))
    assert isinstance(problem, module.KernelProblem)
    assert isinstance(problem.space, ReverseSplitSpace)
    step = next(step for step in problem.space.exact_search(0, lambda: 5.0) if step.candidate is not None)
    assert step.candidate is not None
    lines = problem.lines(Trial(0, step.candidate, problem.space.evaluate([step.candidate])[0]))
    assert (module.READ_RESULTS in lines) == (read and count < registers)
    assert ("after" in lines[0].splitlines()[0]) == read


def test_results_stay_where_something_depends_on_their_place() -> None:
    for given, sentence in (
        ({"input": "analognet2-digits"}, "region by region"),
        ({"objective": "front"}, "not with a front"),
    ):
        with pytest.raises(ValueError, match=sentence):
            build_problem(request_from("reverse-split", options={"anywhere": True}, **given))  # type: ignore[arg-type]
