"""What a comparison's report says, against its runs."""

from __future__ import annotations

import dataclasses
import math
import random
from pathlib import Path

import numpy as np
import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.comparison.outcome import CaseOutcome, ComparisonOutcome
from kilotune.experiments.comparison.plan import Case, ComparisonPlan
from kilotune.experiments.presentation.section import Figure, Paragraph, Section, Table, figures_in
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.report.comparison_sections import comparison_sections, overview_section
from kilotune.experiments.report.regret import final_figure, regret_bands, regret_figure, zero_scale
from kilotune.experiments.report.stored_report import report_page
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.anytime import Curve, Improvement
from kilotune.search.budget import Budget
from kilotune.search.comparison import RunRecord, compare
from kilotune.search.comparison_store import save_comparison, save_findings
from kilotune.search.space import Direction, Objective
from kilotune.search.store import Store, StoreError
from kilotune.search.study import Study
from tests.experiments.report.studies import comparison_outcome, run_record


def loss_after(curve: Curve, seconds: float) -> float:
    """Best-so-far at that time; +inf before anything feasible was found."""
    return next((step.loss for step in reversed(curve.steps) if step.seconds <= seconds), math.inf)


def no_study(case: CaseOutcome) -> tuple[Problem, Study]:
    raise ValueError("the study is gone")


def with_cases(outcome: ComparisonOutcome, *cases: CaseOutcome) -> ComparisonOutcome:
    plan = dataclasses.replace(outcome.plan, cases=tuple(case.case for case in cases))
    return dataclasses.replace(outcome, plan=plan, cases=cases)


def random_runs(seed: int) -> list[RunRecord]:
    rng = random.Random(seed)
    runs = []
    for strategy in ("one", "two"):
        for number in range(5):
            times = sorted(rng.choice((0.1, 0.2, 0.3, 0.4, rng.random())) for _ in range(rng.randrange(5)))
            losses = sorted((rng.randrange(10, 90) for _ in times), reverse=True)
            steps = tuple(
                Improvement(at, x, float(loss)) for at, (x, loss) in enumerate(zip(times, losses, strict=True), start=1)
            )
            runs.append(RunRecord(strategy, number, Curve(steps, 60, 1.5), -math.inf, False, True))
    return runs


@pytest.mark.parametrize("seed", range(6))
def test_bands_are_quartiles_of_what_each_run_had_reached(seed: int) -> None:
    runs = random_runs(seed)
    compared = compare(runs, None)
    for band in regret_bands(compared, by_time=True):
        own = [run for run in runs if run.strategy == band.strategy]
        for at, x in enumerate(band.xs):
            regrets = sorted(loss_after(run.curve, x) / compared.reference.loss * 100 - 100 for run in own)
            for share, value in ((0.25, band.lower[at]), (0.5, band.median[at]), (0.75, band.upper[at])):
                low, high = regrets[math.floor(share * 4)], regrets[math.ceil(share * 4)]
                expected = low if low == high else math.inf if math.isinf(high) else float(np.quantile(regrets, share))
                assert value == pytest.approx(expected)
        if band.xs:
            assert band.xs[-1] == 1.5
            assert set(band.xs) >= {step.seconds for run in own for step in run.curve.steps}


def test_zero_has_a_place_on_a_logarithmic_axis() -> None:
    runs = [run_record("a", seed, [4000.0, 45.0, 40.0], proved=True) for seed in range(3)]
    figure = regret_figure(compare(runs, None), by_time=True)
    assert figure is not None
    axis = figure.layout.yaxis
    assert axis.type == "log"
    assert axis.ticktext[0] == "0"
    (median,) = [trace for trace in figure.data if trace.name == "a"]
    assert median.customdata[-1] == 0.0
    assert median.y[-1] == axis.tickvals[0] > 0
    assert zero_scale([0.0, 1.0, 10.0]) is None
    assert zero_scale([0.0, 0.0]) is None


def test_nothing_found_draws_nothing_and_is_said() -> None:
    runs = [run_record("a", seed, []) for seed in range(3)]
    compared = compare([dataclasses.replace(run, bound=-math.inf) for run in runs], math.inf)
    assert regret_figure(compared, by_time=False) is None
    assert final_figure(compared, Objective("loss"), "first plan") is None
    outcome = comparison_outcome()
    case = dataclasses.replace(outcome.cases[0], comparison=compared)
    section = comparison_sections(with_cases(outcome, case), no_study)[1]
    assert "Nothing feasible was found" in "\n".join(b.text for b in section.blocks if isinstance(b, Paragraph))


def test_final_values_are_metrics_also_where_more_is_better() -> None:
    runs = [run_record("a", seed, [-90.0 - seed]) for seed in range(3)]
    runs = [dataclasses.replace(run, bound=-95.0) for run in runs]
    figure = final_figure(compare(runs, -80.0), Objective("accuracy", Direction.MAXIMIZE), "first plan")
    assert figure is not None
    assert sorted(figure.data[0].y) == [90.0, 91.0, 92.0]
    levels = {trace.name: trace.y[0] for trace in figure.data[1:]}
    assert levels == {"best bound": 95.0, "first plan": 80.0}


def test_the_overview_says_where_the_paper_is_not_optimal() -> None:
    outcome = comparison_outcome()
    section = overview_section(outcome)
    (table,) = [b for b in section.blocks if isinstance(b, Table)]
    (row,) = table.rows
    assert row == (
        "memory", "fastgrnn-digits", "peak bytes", 40.0, "proved optimum", 60.0, 50.0, "not optimal", "exhaustive", 0.0
    )  # fmt: skip
    assert not [b for b in section.blocks if isinstance(b, Figure)]
    other = dataclasses.replace(outcome.cases[0], case=dataclasses.replace(outcome.cases[0].case, title="<b>two</b>"))
    (figure,) = [
        b for b in overview_section(with_cases(outcome, outcome.cases[0], other)).blocks if isinstance(b, Figure)
    ]
    assert list(figure.figure.data[0].customdata) == [50.0, 50.0]
    assert figure.figure.data[0].y[1] == "&lt;b&gt;two&lt;/b&gt;"


def test_the_overview_draws_optimal_procedures_at_zero() -> None:
    outcome = comparison_outcome()
    case = outcome.cases[0]
    optimal = [run_record("a", seed, [50.0, 40.0], proved=True) for seed in range(2)]
    far = [run_record("a", seed, [4000.0, 42.0]) for seed in range(2)]
    both = (
        dataclasses.replace(case, comparison=compare(optimal, 40.0)),
        dataclasses.replace(case, comparison=compare(far, 4000.0), case=dataclasses.replace(case.case, title="far")),
        dataclasses.replace(
            case, comparison=compare(optimal, math.inf), case=dataclasses.replace(case.case, title="no")
        ),
    )
    section = overview_section(with_cases(outcome, *both))
    (table,) = [b for b in section.blocks if isinstance(b, Table)]
    at = table.columns.index("which is")
    assert [row[at] for row in table.rows] == ["optimal", "not optimal", "infeasible"]
    (block,) = [b for b in section.blocks if isinstance(b, Figure)]
    paper, best = block.figure.data[:2]
    floor = block.figure.layout.xaxis.tickvals[0]
    assert block.figure.layout.xaxis.ticktext[0] == "0"
    assert list(paper.x) == [floor, pytest.approx(9900.0), None]
    assert list(best.x) == [floor, pytest.approx(5.0), floor]
    assert 0 < floor < 5


def test_a_case_has_its_tables_and_figures_and_survives_a_lost_study() -> None:
    sections = comparison_sections(comparison_outcome(), no_study)
    assert [s.title for s in sections] == ["All cases", "memory-case", "The best run"]
    case = sections[1]
    standings, pairwise_tests = [b for b in case.blocks if isinstance(b, Table)]
    assert [row[0] for row in standings.rows] == ["exhaustive", "greedy"]
    by_name = dict(zip(standings.columns, standings.rows[0], strict=True))
    assert by_name["median"] == 40.0
    assert by_name["runs proved"] == 4
    assert by_name["runs to the optimum"] == 4
    assert pairwise_tests.rows[0][:5] == ("exhaustive", "greedy", 4, 0, 0)
    assert len(list(figures_in(case.blocks))) == 3
    assert case.blocks[0] == Paragraph("A verdict.")
    assert "the study is gone" in sections[2].blocks[0].text  # type: ignore[union-attr]


def test_the_best_runs_figures_become_parts_of_the_chapter(monkeypatch: pytest.MonkeyPatch) -> None:
    from kilotune.experiments.problems.memory.figures import sections as memory

    class Held:
        book = (1,)

    monkeypatch.setattr(memory, "draw", lambda problem, study: (Section("Address map", (Paragraph("a map"),)),))
    outcome = comparison_outcome()
    sections = comparison_sections(outcome, lambda case: (case.problem, Held()))  # type: ignore[arg-type, return-value]
    last = sections[-1]
    assert last.title == "Address map"
    assert last.blocks == (Paragraph("Of the best run: exhaustive, seed 0."), Paragraph("a map"))
    assert last.level == 3


def test_an_unfinished_comparison_says_what_is_missing() -> None:
    outcome = comparison_outcome()
    case = dataclasses.replace(outcome.cases[0], wanted=20)
    sections = comparison_sections(with_cases(outcome, case), no_study)
    texts = "\n".join(b.text for s in sections for b in s.blocks if isinstance(b, Paragraph))
    assert "not complete" in texts
    assert "8 of 20 runs are complete" in texts
    assert "no finished case" in comparison_sections(with_cases(outcome), no_study)[0].blocks[0].text  # type: ignore[union-attr]


def test_a_stored_comparison_becomes_a_page_with_the_best_runs_figures(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "studies.db"))
    request = request_from("memory")
    case = Case("memory-fastgrnn", "memory", request.input, ("greedy", "random"), request.options)
    plan = ComparisonPlan((case,), 2, "30trials")
    save_comparison(store, "mine", plan.as_json())
    save_findings(store, "mine", {case.title: {"loss": 320.0, "evaluations": 2}})
    for run in plan.runs():
        asked = case.request(run.strategy, run.seed)
        problem = build_problem(asked)
        study = Study.create(
            store,
            plan.study_name("mine", run),
            problem.space,
            run.strategy,
            run.seed,
            request={**asked.as_json(), "comparison": "mine"},
        )
        study.run(InProcessExecutor(problem.space), Budget(trials=30))
    html = report_page(store, "mine").text
    assert "<h1>Comparison mine</h1>" in html
    assert "Address map</h3>" in html
    assert "Of the best run: " in html
    with pytest.raises(
        StoreError, match=r"no study or comparison 'other'. Its studies: none yet. Its comparisons: mine."
    ):
        report_page(store, "other")
