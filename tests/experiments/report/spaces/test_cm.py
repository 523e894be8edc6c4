"""What is drawn of a mapping is the mapping: loads of links, utilisation of cores, the schedule, the paper's placement."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from kilotune.codegen.cm.hardware import load_hardware
from kilotune.codegen.cm.pipeline import GMEM
from kilotune.codegen.onnx.graph import Graph
from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.presentation.section import Paragraph, Table
from kilotune.experiments.problems.cm.figures import busy_figures
from kilotune.experiments.problems.cm.figures import sections as cm
from kilotune.experiments.problems.cm.figures.sections import draw
from kilotune.experiments.problems.cm.mesh import load_of
from kilotune.experiments.problems.cm.networks import chain
from kilotune.experiments.problems.cm.pipeline_bars import DRAWN_IMAGES, MOST_BARS
from kilotune.experiments.problems.cm.problem import MappingProblem
from kilotune.experiments.problems.cm.utilisation import bars_of, usage_of
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.budget import Budget
from kilotune.search.procedure import run_procedure
from kilotune.search.result import Status
from kilotune.search.space import Measurement
from kilotune.search.study import Study
from kilotune.spaces.cm.embedding import solve_with_cp_sat
from kilotune.spaces.cm.procedure import embedding_of
from kilotune.spaces.cm.space import CmSpace
from tests.experiments.report.spaces.studies import NASTY, of_best, strings, study_of

pytestmark = pytest.mark.slow

STUDIES = {
    "resnet20 on a mesh": ("resnet20", "anneal", 3, {"hardware": "mesh-8x8"}),
    "resnet20 at random": ("resnet20", "random", 2, {"hardware": "mesh-8x8"}),
    "lenet": ("lenet5", "anneal", 3, {}),
    "lenet on a ring": ("lenet5", "random", 2, {"hardware": "ring-64"}),
}


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A study, its sections, and what the best trial means."""

    problem: MappingProblem
    study: Study
    sections: Any

    @property
    def space(self) -> CmSpace:
        return self.problem.space

    @property
    def metrics(self) -> dict[str, float]:
        best = self.study.result().best
        assert best is not None
        return dict(best.measurement.metrics)

    @property
    def lowered(self) -> Any:
        best = self.study.result().best
        assert best is not None
        return self.space.lowered(self.space.replicas(best.assignment))

    @property
    def mapping(self) -> Any:
        best = self.study.result().best
        assert best is not None
        return self.space.mapping(best.assignment)


@pytest.fixture(scope="module", params=STUDIES)
def drawn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    """A study and its sections."""
    source, strategy, trials, options = STUDIES[request.param]
    problem, study = study_of(tmp_path_factory.mktemp("studies"), "cm", source, strategy, trials, **(options or {}))
    assert isinstance(problem, MappingProblem)
    return Drawn(problem, study, draw(problem, study))


def named(graph: Graph, name: str) -> Graph:
    """The network and all of its tensors by a name like that."""
    names = {tensor: f"{name}{number}" for number, tensor in enumerate(graph.shapes)}
    nodes = [
        dataclasses.replace(node, inputs=tuple(names[i] for i in node.inputs), output=names[node.output])
        for node in graph.nodes
    ]
    shapes = {names[tensor]: shape for tensor, shape in graph.shapes.items()}
    outputs = tuple(dataclasses.replace(o, tensor=names[o.tensor]) for o in graph.outputs)
    return dataclasses.replace(
        graph, name=name, nodes=tuple(nodes), shapes=shapes, input=names[graph.input], outputs=outputs
    )


def small_study(network: Graph, hardware: str = "mesh-8x8", trials: int = 2) -> tuple[MappingProblem, Study]:
    """A study of a network that no command line names."""
    space = CmSpace.of(network, load_hardware(hardware))
    return study_in(space, trials)


def study_in(space: CmSpace, trials: int) -> tuple[MappingProblem, Study]:
    """A study of a space made by hand."""
    problem = MappingProblem(TuneRequest("cm", space.network.name, "random"), space, None)
    study = Study(space, "random")
    study.run(InProcessExecutor(space), Budget(trials=trials), handle_interrupts=False)
    return problem, study


def traced(figure: go.Figure, what: str) -> list[list[Any]]:
    """customdata of cores or links, flat."""
    (trace,) = (trace for trace in figure.data if trace.meta == what)
    if not isinstance(trace, go.Heatmap):
        return [list(entry) for entry in trace.customdata]
    return [list(entry) for row in trace.customdata for entry in row if entry is not None]


@pytest.mark.slow
def test_link_loads_are_what_the_streams_bring(drawn: Drawn) -> None:
    pipeline, hardware, mapping = drawn.lowered.pipeline, drawn.space.hardware, drawn.mapping
    elements = []  # of every stream, from the pipeline's edges alone
    for edge in pipeline.edges:
        packets = pipeline.writer_iterations(edge) if edge.sent is None else int(np.count_nonzero(edge.sent))
        elements.append(packets * edge.elements)
    elements += [pipeline.stages[k].iterations * pipeline.stages[k].output_elements for k in pipeline.outputs]
    expected = [0] * len(hardware.links)
    for count, route in zip(elements, mapping.routes, strict=True):
        for number in route:
            expected[number] += count
    links = traced(of_best(drawn.sections)[0].figure, "links")
    assert {int(number): load for number, load, _ in links} == dict(enumerate(expected))
    for number, load, ticks in links:
        assert ticks == load / hardware.links[int(number)].width
    for use in usage_of(drawn.lowered, hardware, mapping, drawn.metrics["ticks_per_image"]).links:
        assert sum(count for _, count in use.carried) == use.load


def test_cores_are_as_busy_as_the_evaluator_says(drawn: Drawn) -> None:
    figure, lowered, ticks = of_best(drawn.sections)[0].figure, drawn.lowered, drawn.metrics["ticks_per_image"]
    cores = {core: (stage, taken) for core, stage, taken in traced(figure, "cores") if stage is not None}
    assert {core: stage for core, (stage, _) in cores.items()} == {c: s for s, c in enumerate(drawn.mapping.cores)}
    timing = drawn.space.simulate(lowered, drawn.mapping, 2, record_starts=True)
    assert timing.starts is not None
    for stage, taken in cores.values():
        assert taken == len(timing.starts[stage]) // 2 * lowered.ticks[stage]
    assert max(taken for _, taken in cores.values()) == drawn.metrics["compute_ticks"]
    links = traced(figure, "links")
    busiest_link = max(-(-load // drawn.space.hardware.links[int(n)].width) for n, load, _ in links)
    assert max(drawn.metrics["compute_ticks"], busiest_link) == drawn.metrics["promised_ticks"]
    (heat,) = (trace for trace in figure.data if trace.meta == "cores")
    if isinstance(heat, go.Heatmap):
        shares = {
            entry[0]: share
            for row, entries in zip(heat.z, heat.customdata, strict=True)
            for share, entry in zip(row, entries, strict=True)
            if entry is not None
        }
        for core, (_, taken) in cores.items():
            assert shares[core] == pytest.approx(100 * taken / ticks)
        assert all(share is None for core, share in shares.items() if core not in cores)


def test_iterations_of_several_ticks_count_so_often() -> None:
    slow = dataclasses.replace(load_hardware("mesh-8x8"), dpu_operations_per_tick=8)
    problem, study = study_in(CmSpace.of(chain(3, 8), slow), 2)
    shown = Drawn(problem, study, draw(problem, study))
    assert max(shown.lowered.ticks) > 1
    test_cores_are_as_busy_as_the_evaluator_says(shown)
    test_bars_hold_every_iteration_of_their_image(shown)


@pytest.mark.slow
def test_a_core_lies_where_its_number_says(drawn: Drawn) -> None:
    figure, columns = of_best(drawn.sections)[0].figure, drawn.space.hardware.grid_columns
    (heat,) = (trace for trace in figure.data if trace.meta == "cores")
    if columns is None:
        assert len(set(zip(heat.x, heat.y, strict=True))) == drawn.space.hardware.cores
        return
    for row, entries in enumerate(heat.customdata):
        for column, entry in enumerate(entries):
            if entry is not None:
                middle = ((heat.x[column] + heat.x[column + 1]) / 2, (heat.y[row] + heat.y[row + 1]) / 2)
                assert middle == pytest.approx((entry[0] % columns, entry[0] // columns))


def test_the_words_and_the_table_carry_the_numbers(drawn: Drawn) -> None:
    mesh = of_best(drawn.sections)[0].description
    assert f"{drawn.metrics['ticks_per_image']:g} ticks per image" in mesh
    assert f"on {len(drawn.mapping.cores)} of {drawn.space.hardware.cores} cores" in mesh
    (table,) = (block for block in drawn.sections[0].blocks if isinstance(block, Table))
    assert [row[3] for row in table.rows] == list(drawn.mapping.cores)
    assert sum(int(row[6] or 0) for row in table.rows) == drawn.metrics["sram_bytes"]
    assert max(int(row[6] or 0) for row in table.rows) == drawn.metrics["core_sram_bytes"]


def test_the_busiest_stand_beside_the_ticks_and_the_bound(drawn: Drawn) -> None:
    figure = of_best(drawn.sections)[1].figure
    traces = {trace.name: trace for trace in figure.data}
    ticks, bound = drawn.metrics["ticks_per_image"], drawn.study.result().bound
    assert list(traces[f"ticks per image ({ticks:g})"].x) == [ticks, ticks]
    assert list(traces[f"bound ({bound:g})"].x) == [bound, bound]
    assert traces["core"].x[0] == drawn.metrics["compute_ticks"]
    loads = sorted((ticks for _, _, ticks in traced(of_best(drawn.sections)[0].figure, "links")), reverse=True)
    assert list(traces["link"].x) == [load for load in loads[: busy_figures.BUSIEST] if load]
    first = usage_of(drawn.lowered, drawn.space.hardware, drawn.mapping, ticks).busiest_cores[0]
    assert figure.layout.yaxis.ticktext[0].startswith(f"core {first.core}: ")


def test_bars_hold_every_iteration_of_their_image(drawn: Drawn) -> None:
    figure, lowered = of_best(drawn.sections)[2].figure, drawn.lowered
    timing = drawn.space.simulate(lowered, drawn.mapping, DRAWN_IMAGES + 1, record_starts=True)
    assert timing.starts is not None
    for image, trace in enumerate(figure.data):
        assert len(trace.x) <= MOST_BARS
        bars: dict[int, list[tuple[int, int]]] = {}
        for (stage, first, end), base, length in zip(trace.customdata, trace.base, trace.x, strict=True):
            assert (base, base + length) == (first, end)
            bars.setdefault(int(stage), []).append((first, end))
        assert sorted(bars) == list(range(len(lowered.pipeline.stages)))
        for stage, spans in bars.items():
            iterations, ticks = lowered.pipeline.stages[stage].iterations, lowered.ticks[stage]
            own = timing.starts[stage][image * iterations : (image + 1) * iterations].tolist()
            inside = [sum(first <= start and start + ticks <= end for first, end in spans) for start in own]
            assert inside == [1] * iterations
            assert (spans[0][0], spans[-1][1]) == (own[0], own[-1] + ticks)


def test_bars_say_how_busy_they_are() -> None:
    (first, second) = bars_of(np.array([0, 3, 6, 30]), ticks=2, gap=5)
    assert (first.first, first.end, first.busy) == (0, 8, 6 / 8)
    assert (second.first, second.end, second.busy) == (30, 32, 1.0)


def test_the_paper_places_every_layer_once_and_near(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "cm", "lenet5", "random", 1)
    assert isinstance(problem, MappingProblem)
    space = problem.space
    candidate = cm.paper_candidate(space)
    assert candidate is not None
    procedure = run_procedure(space)
    assert procedure is not None
    assert candidate == procedure.assignment
    cores, once = space.mapping(candidate).cores, space.lowered({})
    assert len(set(cores)) == len(once.pipeline.stages)
    hops = [
        int(space.tables.distance[cores[s.writer], cores[s.reader]])
        for s in once.streams
        if GMEM not in (s.writer, s.reader)
    ]
    assert max(hops) == space.measure(candidate).metrics["longest_route_links"]
    nearer = embedding_of(once, space, max(hops) - 1)
    assert max(hops) == 1 or solve_with_cp_sat(nearer, 20.0).impossible
    section = draw(problem, study)[-1]
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    assert table.rows[0][2] == space.measure(candidate).metrics["ticks_per_image"]
    best = study.result().best
    assert best is not None
    assert table.rows[0][1] == best.measurement.metrics["ticks_per_image"]


def test_a_placement_that_no_solver_finds_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cm, "paper_candidate", lambda space: None)
    problem, study = study_of(tmp_path, "cm", "lenet5", "random", 1)
    (block,) = draw(problem, study)[-1].blocks
    assert isinstance(block, Paragraph)
    assert block.text.startswith("Left out: ")


def test_a_running_study_is_drawn(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "cm", "lenet5", "random", 1)
    study.status = Status.RUNNING
    assert len(of_best(draw(problem, study))) >= 3


def test_a_mapping_that_breaks_a_constraint_is_drawn_as_such(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "cm", "resnet20", "random", 1, strict=True)
    assert not study.result().feasible
    sections = draw(problem, study)
    assert "nearest is drawn" in getattr(sections[0].blocks[0], "text", "")
    assert len(of_best(sections)) >= 3


def test_a_study_whose_trials_all_failed_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CmSpace, "measure", lambda space, assignment: Measurement(failure="All wait for all."))
    problem, study = small_study(chain(3, 8))
    (section,) = draw(problem, study)
    assert "All wait for all." in getattr(section.blocks[0], "text", "")


@pytest.mark.parametrize("hardware", ["mesh-8x8", "all-to-all-64", "5pp-65", "mesh-diagonal-8x8"])
def test_names_are_no_markup(hardware: str) -> None:
    problem, study = small_study(named(chain(3, 8), NASTY), hardware)
    sections = draw(problem, study)
    assert len(of_best(sections)) >= 3
    for figure in of_best(sections):
        texts = list(strings(figure.figure))
        assert not [text for text in texts if "<script" in text or "</script" in text]
    assert [text for text in strings(of_best(sections)[0].figure) if "&lt;script&gt;" in text]
    assert NASTY in of_best(sections)[0].description  # raw: the page escapes


def test_no_trace_is_larger_than_a_page_bears() -> None:
    problem, study = small_study(chain(3, 8), "all-to-all-64", trials=1)
    for figure in of_best(draw(problem, study)):
        for trace in figure.figure.data:
            count = len(trace.hovertext) if trace.hovertext is not None else 0
            assert count <= 2000


def test_loads_are_classed_by_share() -> None:
    assert [load_of(share).title for share in (0.1, 0.25, 0.5, 0.74, 0.75, 1.2)] == [
        "link, under 25 %",
        "25 to 50 %",
        "50 to 75 %",
        "50 to 75 %",
        "75 % and more",
        "75 % and more",
    ]


def test_the_paper_s_placement_is_the_study_s_where_it_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report asked the solver again, and left out what took it more than two seconds."""
    monkeypatch.setattr(cm, "paper_candidate", lambda space: None)
    problem, study = study_of(tmp_path, "cm", "lenet5", "local", 6, procedure_first=True)
    answer = run_procedure(problem.space)
    assert answer is not None
    section = draw(problem, study)[-1]
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    assert table.rows[0][2] == answer.metrics["ticks_per_image"]


@pytest.mark.parametrize(("trials", "procedure_first"), [(2, True), (6, False)])
def test_a_study_without_the_embedding_claims_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trials: int, procedure_first: bool
) -> None:
    monkeypatch.setattr(cm, "paper_candidate", lambda space: None)
    problem, study = study_of(tmp_path, "cm", "lenet5", "local", trials, procedure_first=procedure_first)
    (block,) = draw(problem, study)[-1].blocks
    assert isinstance(block, Paragraph)
    assert block.text.startswith("Left out: ")
