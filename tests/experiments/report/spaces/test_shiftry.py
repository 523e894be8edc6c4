"""The order of demotion is the procedure's own, and every point is what an evaluator of its own measures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from kilotune.evaluators.fixed_point.measuring import FixedPointEvaluator
from kilotune.evaluators.fixed_point.simulator import Backend
from kilotune.experiments.problems.fixed_point.figures.accuracy_scatter import accuracy_scatter
from kilotune.experiments.problems.fixed_point.figures.demotion import demotion_order
from kilotune.experiments.problems.fixed_point.figures.demotion_figure import demotion_figure
from kilotune.experiments.problems.fixed_point.figures.shiftry import draw
from kilotune.experiments.problems.paper_trials import measure_beside
from kilotune.search.procedure import run_procedure
from kilotune.search.space import Assignment, Measurement, Trial
from kilotune.search.study import Study
from kilotune.spaces.shiftry.formats import parse_format
from kilotune.spaces.shiftry.space import ShiftrySpace
from tests.experiments.report.spaces.studies import figures, said, strings, study_of, tables, trace


def space_of(study: Study) -> ShiftrySpace:
    return cast(ShiftrySpace, study.space)


def procedure_trace(space: ShiftrySpace) -> list[Assignment]:
    """The candidates that stand alone in their batches: the cumulative demotions, and the answer."""
    generator, alone = space.procedure(), list[Assignment]()
    try:
        batch = next(generator)
        while True:
            if len(batch) == 1:
                alone.append(batch[0])
            measured = space.evaluate(batch)
            batch = generator.send([Trial(i, a, m) for i, (a, m) in enumerate(zip(batch, measured, strict=True))])
    except StopIteration:
        return alone


def demoted_names(before: Assignment, after: Assignment) -> list[str]:
    return [name for name in after if after[name] != before[name]]


def test_the_order_is_the_procedures_trace(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "shiftry", "protonn-digits", "local", 40, accuracy_drop=0.5)
    space = space_of(study)
    order = demotion_order(space, measure_beside(study, seconds=60))
    assert order is not None
    *steps, answer = procedure_trace(space)
    before = order.start
    for k, step in enumerate(steps):
        assert demoted_names(before, step) == [order.names[k]]
        assert step == order.candidate(k + 1)
        before = step
    assert 0 < order.kept < len(order.names), "this model stops on the way"
    assert order.kept == len(steps) - 1
    assert order.answer.assignment == answer
    figure = figures(draw(problem, study))[0]
    assert list(figure.layout.xaxis3.ticktext) == ["none", *order.names]
    assert f"it demotes {order.kept} of {len(order.names)}" in said(draw(problem, study))
    assert f"With {order.names[order.kept]} as well: accuracy" in said(draw(problem, study))


def test_points_are_what_the_definition_measures(tmp_path: Path) -> None:
    """Accuracy by the NumPy definition, bytes by the footprint, widths by the candidate."""
    problem, study = study_of(tmp_path, "shiftry", "protonn-cancer", "local", 40, accuracy_drop=0.1)
    space = space_of(study)
    order = demotion_order(space, measure_beside(study, seconds=60))
    assert order is not None
    reference = FixedPointEvaluator(space.task, Backend.NUMPY, space.options.in_place)
    batch = space.lower([order.candidate(k) for k in range(len(order.names) + 1)])
    labels = reference.simulator.run(batch)[:, :, 0]
    bits = batch.bits.astype(np.int64)
    flash = reference.footprint.flash_bytes(bits, reference.footprint.table_bytes(batch))
    ram = reference.footprint.ram_bytes(bits) + reference.footprint.scratch_bytes(batch)
    figure = figures(draw(problem, study))[0]
    accuracy = trace(figure, "accuracy")
    assert list(accuracy.x) == list(range(len(order.names) + 1))
    assert list(accuracy.y) == pytest.approx(100 * (labels == space.task.targets).mean(axis=1))
    assert list(trace(figure, "flash").y) == flash.tolist()
    assert list(trace(figure, "RAM").y) == ram.tolist()
    assert list(trace(figure, "flash + RAM").y) == (flash + ram).tolist()
    hollow = [symbol.endswith("-open") for symbol in accuracy.marker.symbol]
    assert hollow == [k > order.kept for k in range(len(order.names) + 1)]
    assert set(trace(figure, "permitted").y) == {space.constraints[0].limit}
    assert set(trace(figure, "float model").y) == {space.evaluator.float_metrics["accuracy_percent"]}


def test_under_a_limit_the_procedure_stops_as_soon_as_it_holds(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "shiftry", "protonn-digits", "local", 40, flash_limit_bytes=2500)
    sections = draw(problem, study)
    figure = figures(sections)[0]
    flash = list(trace(figure, "flash").y)
    first = next(k for k, value in enumerate(flash) if value <= 2500)
    assert 0 < first < len(flash) - 1
    assert f"it demotes {first} of {len(flash) - 1}. There the limits hold." in said(sections)
    assert set(trace(figure, "flash limit").y) == {2500}
    symbols = trace(figure, "flash").marker.symbol
    assert [s.endswith("-open") for s in symbols] == [k > first for k in range(len(flash))]


def test_strip_and_table_show_the_formats(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "shiftry", "protonn-cancer", "random", 60, accuracy_drop=1.0)
    sections = draw(problem, study)
    figure = figures(sections)[0]
    names = list(figure.layout.xaxis3.ticktext)
    best, paper = study.front.best, run_procedure(study.space)
    assert best is not None
    assert paper is not None
    for bits in (8, 16):
        strip = trace(figure, f"{bits} bits")
        drawn = {(y, names[x]) for x, y in zip(strip.x, strip.y, strict=True)}
        for y, assignment in ((0, best.assignment), (1, paper.assignment)):
            expected = {name for name, option in assignment.items() if parse_format(str(option)).bits == bits}
            assert {name for row, name in drawn if row == y} == expected
    for row in tables(sections)[0].rows:
        _, name, _, _, papers, bests, differs = row
        assert (papers, bests) == (paper.assignment[str(name)], best.assignment[str(name)])
        assert (differs == "differs") == (papers != bests)


@pytest.mark.parametrize("options", [{}, {"flash_limit_bytes": 300}])
def test_scatter_holds_all_trials_and_the_front(tmp_path: Path, options: dict[str, int]) -> None:
    problem, study = study_of(tmp_path, "shiftry", "protonn-cancer", "random", 150, **options)
    figure = figures(draw(problem, study))[1]
    space = space_of(study)

    def point(trial: Trial) -> tuple[float, float]:
        metrics = space.evaluate([trial.assignment])[0].metrics
        return metrics["memory_bytes"], metrics["accuracy_percent"]

    def inside(trial: Trial) -> bool:
        metrics = space.evaluate([trial.assignment])[0].metrics
        return all(c.violation(metrics) == 0 for c in space.constraints)

    kept = {point(t) for t in study.trials() if inside(t)}
    broken = {point(t) for t in study.trials() if not inside(t)}
    assert kept
    assert broken
    for name, expected in (("trials", kept), ("trials over a limit", broken)):
        drawn = trace(figure, name)
        assert set(zip(drawn.x, drawn.y, strict=True)) == expected
    front = trace(figure, "front")
    undominated = {p for p in kept if not any(q != p and q[0] <= p[0] and q[1] >= p[1] for q in kept)}
    assert set(zip(front.x, front.y, strict=True)) == undominated
    assert list(front.x) == sorted(front.x)
    best = study.front.best
    assert best is not None
    star = trace(figure, "best trial")
    assert (star.x[0], star.y[0]) == point(best)


def test_ten_thousand_trials_are_thinned_and_the_extremes_kept(tmp_path: Path) -> None:
    _, study = study_of(tmp_path, "shiftry", "protonn-cancer", "random", 1)
    numbers = np.random.default_rng(0)
    (given,) = study.trials()
    trials = []
    for k in range(10_000):
        memory, accuracy = float(numbers.integers(300, 9000)), float(numbers.uniform(0, 100))
        metrics = {**given.measurement.metrics, "memory_bytes": memory, "accuracy_percent": accuracy}
        trials.append(Trial(k, given.assignment, Measurement(metrics)))
    figure = accuracy_scatter(space_of(study), trials, None, trials[0])
    assert all(len(t.x) <= 2000 for t in figure.data)
    accuracies = [t.measurement.metrics["accuracy_percent"] for t in trials]
    drawn = [y for t in figure.data if t.name.startswith("trials") for y in t.y]
    assert (min(drawn), max(drawn)) == (min(accuracies), max(accuracies))


def test_a_numerical_model(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "shiftry", "mlp-diabetes", "local", 60)
    sections = draw(problem, study)
    first, second = figures(sections)
    assert set(trace(first, "permitted").y) == {0.1}
    losses = trace(first, "precision loss").y
    assert len(losses) == len(first.layout.xaxis3.ticktext)
    assert [list(trace(second, "front").y)] == [sorted(trace(second, "front").y, reverse=True)]
    assert "has a precision loss of" in said(sections)


def test_infeasible_and_failed_studies(tmp_path: Path) -> None:
    problem, study = study_of(tmp_path, "shiftry", "worked-example", "random", 3, ram_limit_bytes=1)
    text = said(draw(problem, study))
    assert "None keeps the limits" in text
    assert "The limits do not hold even so" in text
    other = tmp_path / "failed"
    other.mkdir()
    problem, study = study_of(other, "shiftry", "worked-example", "random", 3, fails=True)
    sections = draw(problem, study)
    assert "the machine is on fire" in said(sections)
    assert len(figures(sections)) == 1, "the paper's order does not depend on trials"


def test_without_time_there_is_a_sentence_instead(tmp_path: Path) -> None:
    _, study = study_of(tmp_path, "shiftry", "worked-example", "random", 3)
    assert demotion_order(space_of(study), measure_beside(study, seconds=-1)) is None


def test_names_are_no_markup(tmp_path: Path) -> None:
    _, study = study_of(tmp_path, "shiftry", "worked-example", "random", 1)
    order = demotion_order(space_of(study), measure_beside(study, seconds=60))
    assert order is not None
    order = replace(order, names=("<script>alert(1)</script>", *order.names[1:]), kept=len(order.names))
    texts = list(strings(demotion_figure(space_of(study), order, None)))
    assert not any("<script" in text for text in texts)
    assert any("1. &lt;script&gt;alert(1)&lt;/script&gt;: 8 bits" in text for text in texts)
    assert "&lt;script&gt;alert…" in texts
