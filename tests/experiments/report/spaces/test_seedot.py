"""The maxscale curve: its values are those of the candidates, measured again; gaps stay gaps."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.experiments.presentation.canvas import thinned
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.problems.fixed_point.figures.seedot import draw
from kilotune.experiments.problems.paper_trials import papers_answer
from kilotune.experiments.studies import tuning
from kilotune.search.procedure import run_procedure
from kilotune.search.study import Study
from kilotune.spaces.seedot.space import SeeDotSpace
from tests.experiments.report.spaces.studies import figures, said, study_of, tables, trace

BITS = (8, 16, 32)


def measured_again(study: Study, metric: str, larger: bool) -> dict[tuple[int, int], float]:
    """The best value of each (B, P), from a space of its own."""
    space = cast(SeeDotSpace, study.space)
    fresh = SeeDotSpace(space.task, space.options)
    best: dict[tuple[int, int], float] = {}
    for trial in study.trials():
        value = fresh.evaluate([trial.assignment])[0].metrics[metric]
        choice = int(trial.assignment["bitwidth"]), int(trial.assignment["maxscale"])
        best[choice] = (max if larger else min)(best.get(choice, value), value)
    return best


@pytest.mark.parametrize(
    ("model", "metric", "larger"),
    [("protonn-cancer", "accuracy_percent", True), ("worked-example", "precision_loss", False)],
)
def test_the_curve_is_what_the_candidates_measure(tmp_path: Path, model: str, metric: str, larger: bool) -> None:
    problem, study = study_of(tmp_path, "seedot", model, "random", 40)
    (figure,) = figures(draw(problem, study))
    expected = measured_again(study, metric, larger)
    drawn = {
        (bits, x): y
        for bits in BITS
        for t in [trace(figure, f"{bits} bits")]
        for x, y in zip(t.x, t.y, strict=True)
        if y is not None
    }
    assert drawn == expected
    assert len(expected) < 56
    for bits in BITS:
        line = trace(figure, f"{bits} bits")
        assert list(line.x) == list(range(bits))
        assert line.connectgaps is False
    assert f"{len(expected)} of 56 pairs" in said(draw(problem, study))


def test_marks_reference_and_words(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "seedot", "protonn-cancer", "random", 60)
    sections = draw(problem, study)
    (figure,) = figures(sections)
    paper, best = run_procedure(build_problem(problem.request).space), study.front.best
    assert paper is not None
    assert best is not None
    for name, trial in (("paper's choice", paper), ("best trial", best)):
        mark = trace(figure, name)
        assert (list(mark.x), list(mark.y)) == (
            [trial.assignment["maxscale"]],
            [trial.measurement.metrics["accuracy_percent"]],
        )
        assert f"P = {trial.assignment['maxscale']}" in said(sections)
    reference = problem.float_metrics()["train"]["accuracy_percent"]
    assert set(trace(figure, "float model").y) == {reference}
    assert f"The float model reaches {reference:.4g} %" in said(sections)
    assert f"keeps {paper.measurement.metrics['accuracy_percent']:.4g} %" in said(sections)
    rows = {row[0]: row for row in tables(sections)[0].rows}
    for bits in BITS:
        values = [y for y in trace(figure, f"{bits} bits").y if y is not None]
        assert (rows[bits][1], rows[bits][3], rows[bits][4]) == (
            len(values),
            round(max(values), 4),
            round(min(values), 4),
        )


def test_a_numerical_model_has_no_float_line_and_a_logarithmic_axis(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "seedot", "mlp-diabetes", "exhaustive", 56)
    (figure,) = figures(draw(problem, study))
    assert "float model" not in [t.name for t in figure.data]
    assert figure.layout.yaxis.type == "log"
    assert None not in [y for bits in BITS for y in trace(figure, f"{bits} bits").y]


def test_what_breaks_a_limit_is_hollow(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "seedot", "protonn-cancer", "random", 60, flash_limit_bytes=300)
    sections = draw(problem, study)
    (figure,) = figures(sections)
    space = cast(SeeDotSpace, study.space)
    for bits in BITS:
        line = trace(figure, f"{bits} bits")
        own = {
            scale: [t for t in study.trials() if (t.assignment["bitwidth"], t.assignment["maxscale"]) == (bits, scale)]
            for scale in range(bits)
        }
        for scale, symbol in enumerate(line.marker.symbol):
            if own[scale]:
                flash = min(space.evaluate([t.assignment])[0].metrics["flash_bytes"] for t in own[scale])
                assert symbol.endswith("-open") == (flash > 300), (bits, scale)
    assert "Hollow marks" in said(sections)


def test_no_candidate_within_the_limits(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "seedot", "protonn-cancer", "random", 5, ram_limit_bytes=1)
    assert "No trial keeps the limits; the nearest" in said(draw(problem, study))


def test_one_trial_of_a_running_study(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "seedot", "worked-example", "random", 1)
    (figure,) = figures(draw(problem, study))
    (line,) = [t for t in figure.data if t.name.endswith("bits")]
    assert sum(y is not None for y in line.y) == 1


def test_nothing_but_failures(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "seedot", "worked-example", "random", 4, fails=True)
    sections = draw(problem, study)
    assert not figures(sections)
    assert "4 trials, and none could be measured" in said(sections)
    assert "the machine is on fire" in said(sections)


def test_the_papers_choice_is_left_out_where_there_is_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, study = study_of(tmp_path, "seedot", "worked-example", "random", 5)
    assert papers_answer(study, seconds=-1) is None
    monkeypatch.setattr("kilotune.experiments.problems.fixed_point.figures.seedot.papers_answer", lambda study: None)
    sections = draw(problem, study)
    assert "paper's choice" not in [t.name for t in figures(sections)[0].data]
    assert "The paper's choice is not known yet" in said(sections)


def test_what_the_study_holds_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, study = study_of(tmp_path, "seedot", "worked-example", "exhaustive", 56)
    expected = run_procedure(study.space)
    monkeypatch.setattr(study.space, "evaluate", None)
    assert papers_answer(study) == expected


def test_a_page_that_refreshes_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With time for a measurement or two at a time the paper's choice is known in the end, and then for nothing."""
    _, study = study_of(tmp_path, "seedot", "worked-example", "random", 5)
    space, measured = cast(SeeDotSpace, study.space), list[int]()
    expected, evaluate = run_procedure(study.space), space.evaluate
    clock = itertools.count()
    monkeypatch.setattr("kilotune.experiments.problems.paper_trials.time.thread_time", lambda: next(clock))
    monkeypatch.setattr(space, "evaluate", lambda batch: measured.append(len(batch)) or evaluate(batch), raising=False)
    answers = [papers_answer(study, seconds=5) for _ in range(40)]
    assert answers[0] is None
    assert answers[-1] == expected
    count = sum(measured)
    assert papers_answer(study, seconds=-1) == expected
    assert sum(measured) == count


def test_what_a_report_has_measured_its_figures_know(tmp_path: Path) -> None:
    """A table with the paper's result above a figure that does not know it yet would contradict itself."""
    problem, study = study_of(tmp_path, "seedot", "worked-example", "random", 5)
    assert papers_answer(study, seconds=-1) is None
    expected = tuning.procedure_of(problem, study)
    assert papers_answer(study, seconds=-1) == expected


@given(st.lists(st.floats(-1e6, 1e6) | st.just(float("nan")), max_size=400), st.integers(6, 60))
def test_thinning_keeps_ends_and_extremes(values: list[float], most: int) -> None:
    kept = thinned(values, most).tolist()
    assert kept == sorted(set(kept))
    assert len(kept) <= max(most, 0) or len(values) <= most
    if values:
        assert {0, len(values) - 1} <= set(kept)
        finite = [v for v in values if np.isfinite(v)]
        shown: list[Any] = [values[k] for k in kept if np.isfinite(values[k])]
        assert not finite or (min(shown), max(shown)) == (min(finite), max(finite))
    assert all(0 <= a < b for a, b in itertools.pairwise(kept))
