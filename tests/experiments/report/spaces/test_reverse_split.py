"""What is drawn of a program is the program: its graph, its registers, its weights, its length."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from kilotune.codegen.scamp.instructions import instruction_set
from kilotune.codegen.scamp.sums import Sum
from kilotune.codegen.scamp.text import parse_program
from kilotune.evaluators.scamp5.symbolic import execute
from kilotune.experiments.presentation.section import Paragraph, Section
from kilotune.experiments.problems.reverse_split.figures.program_figures import stencil
from kilotune.experiments.problems.reverse_split.figures.sections import draw
from kilotune.experiments.problems.reverse_split.figures.split_figures import thinned
from kilotune.experiments.problems.reverse_split.figures.value_graph import value_graph
from kilotune.experiments.problems.reverse_split.problem import KernelProblem
from kilotune.search.procedure import run_procedure
from kilotune.search.result import Status
from kilotune.search.study import Study
from tests.experiments.report.spaces.studies import NASTY, of_best, strings, study_of

pytestmark = pytest.mark.slow

STUDIES = {
    "sobel": ("sobel", "exhaustive", 8, {}),
    "box5": ("box5", "random", 6, {}),
    "gauss5": ("gauss5", "greedy", 2, {}),
    "analognet2": ("analognet2", "exhaustive", 2, {}),
    "both sobels, AUKE": ("sobel-pair", "exhaustive", 3, {"target": "auke"}),
    "front": ("gauss5", "tpe", 6, {"objective": "front"}),
}
LINE = re.compile(r"([A-F, ]+) = (\w+)\((.*)\)")


@pytest.fixture(scope="module", params=STUDIES)
def drawn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[KernelProblem, Study, Any]:
    """A study and its sections."""
    source, strategy, trials, options = STUDIES[request.param]
    folder = tmp_path_factory.mktemp("studies")
    problem, study = study_of(folder, "reverse-split", source, strategy, trials, **(options or {}))
    assert isinstance(problem, KernelProblem)
    return problem, study, draw(problem, study)


def best_text(problem: KernelProblem, study: Study) -> str:
    best = study.result().best
    assert best is not None
    return problem.space.program(best.assignment).text


def operands(text: str) -> Iterator[tuple[int, int, str]]:
    """Writer, reader and register of all values read, from the text alone."""
    writer = {"A": 0}
    for number, line in enumerate(text.splitlines()[1:], start=1):
        match = LINE.fullmatch(line)
        assert match
        for name in re.findall(r"\b[A-F]\b", match[3]):
            yield writer[name], number, name
        for name in re.findall(r"[A-F]", match[1]):
            writer[name] = number


def operand_data(figure: go.Figure) -> list[list[int]]:
    """[source, target, sign, shifted] of the drawn edges."""
    return [list(edge) for trace in figure.data if trace.meta == "operands" for edge in trace.customdata]


def node_data(figure: go.Figure) -> dict[int, tuple[float, float]]:
    """Places of the drawn nodes by their numbers."""
    return {
        int(number): (x, y)
        for trace in figure.data
        if trace.customdata is not None and trace.meta != "operands"
        for number, x, y in zip(trace.customdata, trace.x, trace.y, strict=True)
    }


@pytest.mark.slow
def test_the_edges_are_the_programs(drawn: tuple[KernelProblem, Study, Any]) -> None:
    problem, study, sections = drawn
    text, figure = best_text(problem, study), of_best(sections)[0].figure
    expected = Counter((source, target) for source, target, _ in operands(text))
    assert Counter((source, target) for source, target, _, _ in operand_data(figure)) == expected
    nodes = node_data(figure)
    assert sorted(nodes) == list(range(len(text.splitlines())))
    assert all(nodes[target][1] > nodes[source][1] for source, target in expected)
    assert nodes[0][1] == min(y for _, y in nodes.values())


def test_executing_what_is_drawn_gives_the_kernels(drawn: tuple[KernelProblem, Study, Any]) -> None:
    problem, study, sections = drawn
    text = best_text(problem, study)
    program, figure = parse_program(text), of_best(sections)[0].figure
    expected, depth = execute(text)
    edges = operand_data(figure)
    values = {0: Sum.image(depth)}
    for number, operation in enumerate(program.operations, start=1):
        row = instruction_set(program.target).get(operation.op, len(operation.sources))
        total = Sum()
        for source, target, sign, shifted in edges:
            if target == number:
                term = values[source].shifted(row.offset(operation.directions)) if shifted else values[source]
                total = total + term if sign > 0 else total - term
        for _ in range(row.halvings):
            total = total.halved()
        values[number] = total
    labels = next(t.text for t in figure.data if t.mode == "text")
    for kernel, wanted in enumerate(expected, start=1):
        drawn_results = [n for n, label in enumerate(labels) if re.search(rf"<b>result [\d ]*\b{kernel}\b", label)]
        assert [values[number] for number in drawn_results] == [wanted]
        assert wanted.scaled(1 << problem.wanted.depth) == problem.wanted.sums[kernel - 1].scaled(1 << depth)
    assert [node.value for node in value_graph(program).nodes] == [values[n] for n in range(len(values))]


@pytest.mark.slow
def test_hover_says_instruction_register_and_stencil(drawn: tuple[KernelProblem, Study, Any]) -> None:
    problem, study, sections = drawn
    text = best_text(problem, study)
    graph = value_graph(parse_program(text))
    hovers = {
        int(number): hover
        for trace in of_best(sections)[0].figure.data
        if trace.customdata is not None and trace.meta != "operands"
        for number, hover in zip(trace.customdata, trace.hovertext, strict=True)
    }
    for number, line in enumerate(text.splitlines()[1:], start=1):
        assert f"instruction {number}: {line}" in hovers[number]
        assert f"register {line[0]}" in hovers[number]
        assert hovers[number].endswith(stencil(graph.nodes[number].value, graph.depth))


def test_a_stencil_shows_the_weights_with_north_above() -> None:
    total = Sum.of({(0, 0): 4, (1, 0): -2, (0, 1): 1})
    assert stencil(total, 1).replace("\u00a0", "") == "1/2·<br>[2]-1"


def test_a_register_is_shown_as_long_as_its_value_is_needed(drawn: tuple[KernelProblem, Study, Any]) -> None:
    problem, study, sections = drawn
    text = best_text(problem, study)
    end = len(text.splitlines())
    results = text.splitlines()[0].split("results in ")[1].split(", ")
    reads = [(source, target, name) for source, target, name in operands(text)]
    writer = {"A": 0}
    for number, line in enumerate(text.splitlines()[1:], start=1):
        match = LINE.fullmatch(line)
        assert match
        writer |= dict.fromkeys(re.findall(r"[A-F]", match[1]), number)
    reads += [(writer[name], end, name) for name in results]
    expected = set()
    for number in range(end):
        register = "A" if number == 0 else text.splitlines()[number][0]
        last = max((t for s, t, name in reads if s == number and name == register), default=number)
        expected.add((register, number, number, last))
    figure = of_best(sections)[1].figure
    lives = {tuple(life) for trace in figure.data if trace.customdata is not None for life in trace.customdata}
    assert lives == expected
    lines = [line.strip() for line in figure.layout.yaxis.ticktext[1:-1]]
    assert [line.split("  ", 1)[1] for line in lines] == text.splitlines()[1:]
    description = of_best(sections)[1].description
    busiest = max(sum(first < time <= last for _, _, first, last in expected) for time in range(end + 1))
    assert f"at most {busiest} hold needed values at once" in description


def test_the_weights_are_those_that_the_program_computes(drawn: tuple[KernelProblem, Study, Any]) -> None:
    problem, study, sections = drawn
    computed, depth = execute(best_text(problem, study))
    maps = of_best(sections)[2].figure.data
    assert len(maps) == len(computed)
    for heat, kernel, total in zip(maps, problem.kernels.kernels, computed, strict=True):
        rows = [[float(weight) for weight in row] for row in kernel.picture()]
        assert [list(row) for row in heat.z] == rows
        assert sum(map(sum, rows)) == pytest.approx(sum(weight for _, weight in total.terms) / (1 << depth))
        centre = [row.index("the pixel itself") for row in heat.customdata if "the pixel itself" in row]
        assert centre == [(kernel.columns - 1) // 2]


def test_approximated_weights_stand_below_those_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text(json.dumps({"kernels": [[[0.1, 0.2], [0.33, -0.7]], [[0.5, 0.1, 0.3]]]}))
    problem, study = study_of(tmp_path, "reverse-split", str(path), "exhaustive", 1, depth=4)
    shown = of_best(draw(problem, study))[2]
    maps = shown.figure.data
    assert [[list(row) for row in heat.z] for heat in maps[:2]] == [
        [[0.1, 0.2], [0.33, -0.7]],
        [[0.125, 0.1875], [0.3125, -0.6875]],
    ]
    assert isinstance(problem, KernelProblem)
    results, depth = execute(best_text(problem, study))
    assert Fraction(results[0].weight((0, 1)), 1 << depth) == Fraction(1, 8)
    assert "0.1 at cell (0, 1)" in shown.description


def test_what_a_program_may_cost_is_said_as_the_trials_say(drawn: tuple[KernelProblem, Study, Any]) -> None:
    problem, study, sections = drawn
    metric, paper = problem.space.objectives[0].metric, run_procedure(problem.space)
    assert paper is not None
    known = paper.measurement.metrics.get(metric)
    if metric == "bus_transfers":
        shown = of_best(sections)[3]
        traces = {trace.name: trace for trace in shown.figure.data}
        front = sorted(
            (t.measurement.metrics[metric], t.measurement.metrics["noise_percent"]) for t in study.result().front
        )
        assert list(zip(traces["front"].x, traces["front"].y, strict=True)) == front
        assert list(traces["paper's heuristic"].x) == [known]
        return
    (words,) = (block.text for section in sections for block in section.blocks if isinstance(block, Paragraph))
    lowest = min(t.measurement.metrics.get(metric, float("inf")) for t in study.trials())
    assert f"The best program takes {lowest:g} instructions." in words
    assert f"No program takes less than {study.result().bound:g} instructions" in words
    missing = "finds no program that the registers hold"
    assert (missing if known is None else f"The paper's heuristic (AUKE) takes {known:g}.") in words


def test_a_division_destroys_the_registers_that_are_crossed_out() -> None:
    text = "# scamp5; image in A; results in D\nB, C, D = div(A)\nD = add(B, C)\n"
    graph = value_graph(parse_program(text))
    assert graph.lost == (("C", 1), ("D", 1))
    (_, divided, left) = graph.operands
    assert (divided.source, divided.factor) == (1, 1)
    assert (left.source, left.factor) == (1, -1)  # the register C holds the negative
    assert graph.nodes[2].value == execute(text)[0][0] == Sum()


def test_a_running_study_is_drawn(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "reverse-split", "sobel", "random", 1)
    study.status = Status.RUNNING
    assert len(draw(problem, study)) >= 2


def test_a_study_whose_trials_all_failed_says_so(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "reverse-split", "gauss5", "random", 3, registers=2)
    assert all(trial.measurement.failure for trial in study.trials())
    graph, weights, length = draw(problem, study)
    words = [block.text for section in (graph, length) for block in section.blocks if isinstance(block, Paragraph)]
    assert "no graph" in words[0]
    assert str(study.trials()[0].measurement.failure) in words[0]
    assert "None of 3 trials" in words[1]
    assert of_best((weights,))


def test_a_filter_that_is_the_image_itself_has_a_graph(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "reverse-split", "identity", "exhaustive", 1)
    sections = draw(problem, study)
    assert all(isinstance(section, Section) for section in sections)
    labels = [t.text for t in of_best(sections)[0].figure.data if t.mode == "text"]
    assert "result 1" in labels[0][0]


def test_a_filters_name_is_no_markup(tmp_path: Path) -> None:
    folder = tmp_path / NASTY.replace("/", "_")
    folder.mkdir()
    path = folder / f"{NASTY.replace('/', '_')}.json"
    path.write_text(json.dumps({"kernels": [[[1, -1]]]}))
    problem, study = study_of(tmp_path, "reverse-split", str(path), "exhaustive", 1)
    assert not [
        text for figure in of_best(draw(problem, study)) for text in strings(figure.figure) if "<script" in text
    ]


def test_thinning_keeps_the_extremes() -> None:
    points = [(float(n), float((n * 7919) % 10_007)) for n in range(10_000)]
    kept = thinned(points)
    assert len(kept) <= 2000
    assert min(kept, key=lambda p: p[1]) == min(points, key=lambda p: p[1])
    assert max(kept, key=lambda p: p[1]) == max(points, key=lambda p: p[1])
    assert kept == sorted(kept)
