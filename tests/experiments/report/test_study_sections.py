"""What a study's report says, against the study itself."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from _pytest.monkeypatch import MonkeyPatch

from kilotune.experiments.presentation.section import Figure, Listing, Paragraph, Section, Table, figures_in
from kilotune.experiments.presentation.text import cell_text
from kilotune.experiments.problems.memory.figures import sections as memory_drawing
from kilotune.experiments.problems.problem import Problem
from kilotune.experiments.report import report_data
from kilotune.experiments.report.pareto_front import pareto_sections
from kilotune.experiments.report.report_data import ReportData, thinned
from kilotune.experiments.report.study_sections import study_sections
from kilotune.experiments.report.trials import best_trials_section, decisions_sections, failures_sections
from kilotune.experiments.studies import joining, tuning
from kilotune.experiments.studies.procedure_outcome import ProcedureOutcome, ProcedureState
from kilotune.search.result import Status
from kilotune.search.space import Measurement, Trial
from kilotune.search.store import Store
from kilotune.search.stored_rows import StudyRow
from kilotune.search.study import Study
from kilotune.search.work_sharing import SharedStudy
from tests.experiments.report.studies import make_study, shiftry_request
from tests.experiments.report.studies import request_from as asked


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(str(tmp_path_factory.mktemp("store") / "studies.db"))


@pytest.fixture(scope="module")
def shiftry(store: Store) -> tuple[Problem, Study, StudyRow]:
    problem, study = make_study(store, "shiftry", shiftry_request(limits=["flash=20"], seed=6), 400)
    return problem, study, store.study("shiftry")


def reported(problem: Problem, study: Study, row: StudyRow) -> ReportData:
    outcome = tuning.conclude(problem, study, study.result(), most_checked=0)
    return ReportData(problem, study, row, study.trials(), outcome)


def by_title(sections: tuple[Section, ...]) -> dict[str, Section]:
    return {section.title: section for section in sections}


def blocks(section: Section, kind: type) -> list:  # type: ignore[type-arg]
    return [
        block for block in (figures_in(section.blocks) if kind is Figure else section.blocks) if isinstance(block, kind)
    ]


def text(section: Section) -> str:
    return "\n".join(block.text for block in blocks(section, Paragraph))


def test_sections_of_a_flat_space_with_several_objectives(shiftry: tuple[Problem, Study, StudyRow]) -> None:
    sections = by_title(study_sections(*shiftry))
    titles = list(sections)
    assert titles[:2] == ["What was asked", "What was found"]
    for title in ("Pareto front", "How the search went", "What failed", "The best candidates", "The best program in C"):
        assert title in titles
    (program,) = blocks(sections["The best program in C"], Listing)
    assert "worked-example" in program.text
    (command,) = blocks(sections["What was asked"], Listing)
    assert "--limit flash=20" in command.text


def test_the_curve_is_the_running_minimum_of_feasible_candidates(shiftry: tuple[Problem, Study, StudyRow]) -> None:
    problem, study, _ = shiftry
    figure = blocks(by_title(study_sections(*shiftry))["How the search went"], Figure)[0].figure
    (curve,) = [trace for trace in figure.data if trace.name == "best so far"]
    metric, lowest, expected = problem.space.objectives[0].metric, float("inf"), []
    for place, trial in enumerate(study.trials(), start=1):
        metrics = trial.measurement.metrics
        if all(c.violation(metrics) == 0 for c in problem.space.constraints) and metrics[metric] < lowest:
            lowest = metrics[metric]
            expected.append((place, lowest))
    assert len(expected) > 1
    assert list(zip(curve.x, curve.y, strict=True)) == [*expected, (len(study.trials()), lowest)]


def test_the_front_is_what_no_candidate_beats_in_both(shiftry: tuple[Problem, Study, StudyRow]) -> None:
    problem, study, _ = shiftry
    (block,) = blocks(by_title(study_sections(*shiftry))["Pareto front"], Figure)
    (front,) = [trace for trace in block.figure.data if trace.name == "Pareto front"]
    first, second = problem.space.objectives[:2]
    points = {
        (first.loss(m), second.loss(m))
        for m in (t.measurement.metrics for t in study.trials())
        if all(c.violation(m) == 0 for c in problem.space.constraints)
    }
    best = sorted(p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points))
    assert list(zip(front.x, front.y, strict=True)) == best
    assert len(best) > 1


def test_the_best_candidate_is_found_when_it_was_measured(shiftry: tuple[Problem, Study, StudyRow]) -> None:
    """Not when the first objective came to its end: here the second one went on."""
    problem, study, _ = shiftry
    best, leading = study.front.best, problem.space.objectives[0]
    assert best is not None
    trials = [t for t in study.trials() if leading.metric in t.metrics]
    place = [t.number for t in trials].index(best.number) + 1
    first = next(n for n, t in enumerate(trials, 1) if leading.loss(t.metrics) == leading.loss(best.metrics))
    assert first < place
    sentence = text(by_title(study_sections(*shiftry))["How the search went"])
    assert f"found with evaluation {place} of {len(trials)}, after {best.elapsed_s:.3g} s" in sentence
    assert sentence.endswith(f"Its expected error had been reached with evaluation {first}.")


def test_a_procedure_over_a_limit_is_not_drawn_as_if_it_kept_it(shiftry: tuple[Problem, Study, StudyRow]) -> None:
    made = reported(*shiftry)
    over = next(trial for trial in made.trials if made.feasible_metric(trial) is None)
    under = next(trial for trial in made.trials if made.feasible_metric(trial) is not None)
    for trial, name in ((over, "paper's procedure, not permitted"), (under, "paper's procedure")):
        answer = ProcedureOutcome(ProcedureState.ENDED, trial)
        changed = dataclasses.replace(made, outcome=dataclasses.replace(made.outcome, paper=answer))
        (block,) = blocks(pareto_sections(changed)[0], Figure)
        assert name in [trace.name for trace in block.figure.data]


def test_failures_are_counted_by_reason(shiftry: tuple[Problem, Study, StudyRow]) -> None:
    problem, study, row = shiftry
    trials = study.trials()
    broken = [
        dataclasses.replace(t, measurement=Measurement(failure="too wide" if t.number % 3 else "it broke"))
        for t in trials[:30]
    ]
    changed = dataclasses.replace(reported(problem, study, row), trials=[*broken, *trials[30:]])
    (section,) = failures_sections(changed)
    (table,) = blocks(section, Table)
    rows = {str(r[0]): r[1] for r in table.rows}
    assert rows["too wide"] == 20
    assert rows["it broke"] == 10
    limit = problem.space.constraints[0]
    missed = sum(limit.violation(t.measurement.metrics) > 0 for t in trials[30:])
    assert missed > 0
    assert missed in rows.values()
    assert "30 could not be measured" in text(section)


def test_the_best_candidates_are_in_order(shiftry: tuple[Problem, Study, StudyRow]) -> None:
    made = reported(*shiftry)
    (table,) = blocks(best_trials_section(made), Table)
    metric = table.columns.index("memory bytes")
    numbers = [row[1] for row in table.rows]
    seen, expected = list[str](), list[int]()
    for trial in sorted(made.trials, key=lambda t: (made.ranking.rank(t.measurement), t.number)):
        metrics = str([(name, cell_text(value)) for name, value in sorted(trial.measurement.metrics.items())])
        expected += [trial.number] if metrics not in seen else []
        seen.append(metrics)
    assert numbers == expected[:50]
    assert len(set(seen)) < len(seen)
    alike = table.columns.index("candidates like it")
    if len(expected) <= 50:
        assert sum(row[alike] for row in table.rows) == len(made.trials)
    shown = [tuple(map(cell_text, row[2:])) for row in table.rows]
    assert len(set(shown)) == len(shown)
    assert table.rows[0][metric] == made.outcome.result.best.measurement.metrics["memory_bytes"]  # type: ignore[union-attr]


def test_few_trials_say_nothing_about_decisions(shiftry: tuple[Problem, Study, StudyRow]) -> None:
    made = reported(*shiftry)
    assert decisions_sections(dataclasses.replace(made, trials=made.trials[:10])) == ()
    rest: list[Trial] = [
        dataclasses.replace(t, measurement=Measurement({"memory_bytes": 1.0, "precision_loss": 0.0, "demoted": 0.0}))
        for t in made.trials
    ]
    assert decisions_sections(dataclasses.replace(made, trials=rest)) == ()


def test_one_objective_has_no_front_and_a_drawing_that_fails_costs_itself_only(
    store: Store, monkeypatch: MonkeyPatch
) -> None:
    problem, study = make_study(store, "memory", asked("memory", strategy="random"), 50)
    row = store.study("memory")

    def broken(problem: Problem, study: Study) -> tuple[Section, ...]:
        raise KeyError("no such colour")

    monkeypatch.setattr(memory_drawing, "draw", broken)
    sections = by_title(study_sections(problem, study, row))
    assert "Pareto front" not in sections
    assert "KeyError: 'no such colour'" in text(sections["Not drawn"])
    assert {"What was found", "The best candidates", "The best placement"} <= set(sections)
    monkeypatch.setattr(memory_drawing, "draw", lambda p, s: (Section("Address map", ()),))
    assert list(by_title(study_sections(problem, study, row)))[2] == "Address map"


def test_figures_of_the_search_say_that_another_candidate_was_chosen_after_it(
    shiftry: tuple[Problem, Study, StudyRow], monkeypatch: MonkeyPatch
) -> None:
    problem, study, row = shiftry
    found, concluded = study.front.best, reported(problem, study, row).outcome
    assert found is not None
    title = "Demotion, variable by variable"
    assert "was chosen after it" not in text(by_title(study_sections(problem, study, row))[title])
    other = next(t for t in study.trials() if t.number != found.number and t.measurement.failure is None)
    chosen = dataclasses.replace(concluded, result=dataclasses.replace(concluded.result, best=other))
    monkeypatch.setattr(tuning, "conclude", lambda *_, **__: chosen)
    said = text(by_title(study_sections(problem, study, row))[title])
    assert f"the search found best, trial {found.number}; trial {other.number} was chosen after it" in said


@pytest.mark.slow
def test_a_study_without_trials_and_one_that_runs_say_so(store: Store) -> None:
    problem, study = make_study(store, "empty", asked("memory", strategy="random"), 0)
    sections = by_title(study_sections(problem, study, store.study("empty")))
    assert list(sections) == ["What was asked", "What was found"]
    assert "no trial yet" in text(sections["What was found"])
    make_study(store, "going", asked("memory", strategy="random"), 20)
    store.append("going", [], status=Status.RUNNING.value)
    problem, study, row = joining.resume(store, "going")

    def found() -> str:
        return text(by_title(study_sections(problem, study, row))["What was found"])

    assert "stopped before its end, without a word: `tune resume going` goes on" in found()  # nobody works on it
    other = SharedStudy(store, "going")
    try:
        assert "still running" in found()
    finally:
        other.leave()


def test_nothing_feasible_is_said(store: Store) -> None:
    problem, study = make_study(store, "hopeless", shiftry_request(limits=["flash=1"]), 60)
    sections = by_title(study_sections(problem, study, store.study("hopeless")))
    assert "Pareto front" not in sections
    assert "meets the constraints" in text(sections["How the search went"])
    assert "feasible" in blocks(sections["The best candidates"], Table)[0].columns


@pytest.mark.parametrize(
    ("space", "input_", "title"), [("reverse-split", "sobel", "The best program"), ("cm", "lenet5", "The best mapping")]
)
def test_other_families_show_what_was_decided(store: Store, space: str, input_: str, title: str) -> None:
    problem, study = make_study(store, space, asked(space, input=input_, strategy="greedy"), 3)
    section = by_title(study_sections(problem, study, store.study(space)))[title]
    listed = [b.text for b in blocks(section, Listing)] + [str(b.rows) for b in blocks(section, Table)]
    assert "=" in listed[0] or "conv" in listed[0].lower()


def test_thinning_keeps_what_it_must() -> None:
    things = list(range(1000))
    few = thinned(things, 10, kept=(999, 3))
    assert few == sorted({*range(0, 1000, 100), 999, 3})
    assert thinned(things, 1000) == things


def test_report_command_writes_one_file_and_lists_what_there_is(store: Store, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from kilotune.experiments.commands.report import file_name, report_command

    make_study(store, "cli", asked("memory", strategy="random"), 5)
    done = CliRunner().invoke(report_command, ["cli", "--output", str(tmp_path / "r.html"), "--storage", store.url])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "r.html").stat().st_size > 4e6
    assert "r.html" in done.output
    assert "MB" in done.output
    missing = CliRunner().invoke(report_command, ["nothing", "--storage", store.url])
    assert "cli" in str(missing.exception)
    assert "Its comparisons: none yet" in str(missing.exception)
    folder = CliRunner().invoke(report_command, ["cli", "--output", str(tmp_path), "--storage", store.url])
    assert isinstance(folder.exception, ValueError)
    assert file_name("../<script>alert(1)</script>") == "script-alert-1-script"
    assert file_name("...") == "report"


def test_one_candidate_has_no_course(store: Store) -> None:
    problem, study = make_study(store, "single", asked("memory", strategy="greedy"), 1)
    section = by_title(study_sections(problem, study, store.study("single")))["How the search went"]
    assert "One candidate" in text(section)
    assert not blocks(section, Figure)


def test_a_study_whose_input_is_gone_shows_its_trials(store: Store, tmp_path: Path) -> None:
    """Trials are not lost with a file; that they are all there is, is said on the page, on stderr and by the exit status."""
    from click.testing import CliRunner

    from kilotune.experiments.commands.report import report_command

    instance = tmp_path / "moved.csv"
    instance.write_text("id,lower,upper,size\na,0,4,10\nb,2,6,20\n")
    make_study(store, "gone", asked("memory", input=str(instance), strategy="random"), 3)
    changes = (
        ("expected its input there, found nothing", instance.unlink),
        ("fingerprint", lambda: instance.write_text("id,lower,upper,size\na,0,4,11\n")),
    )
    for said, change in changes:
        change()
        page = tmp_path / "r.html"
        command = ["gone", "--output", str(page), "--storage", store.url]
        done = CliRunner().invoke(report_command, command, standalone_mode=False)
        assert done.return_value == 4
        for seen in (done.stderr, page.read_text()):
            assert said in seen
            assert "cannot be built" in seen
        assert 'data-value="30' in page.read_text()  # the peak of a trial


def test_of_a_long_study_the_finalist_chosen_after_the_search_is_shown_too(
    shiftry: tuple[Problem, Study, StudyRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a reader: one that is none of the best in the search ended the report."""
    problem, study, row = shiftry
    monkeypatch.setattr(report_data, "MOST_TOLD", 20)
    monkeypatch.setattr(report_data, "BEST_SHOWN", 3)
    numbers = {trial.number for trial in report_data.shown_trials(study)[0]}
    assert len(numbers) < 100
    chosen = next(trial for trial in reversed(study.trials()) if trial.number not in numbers and trial.metrics)
    conclude = tuning.conclude

    def chosen_after(*given: Any, **options: Any) -> tuning.TuneOutcome:
        outcome = conclude(*given, **options)
        return dataclasses.replace(outcome, result=dataclasses.replace(outcome.result, best=chosen))

    monkeypatch.setattr(tuning, "conclude", chosen_after)
    place = study.trials().index(chosen) + 1
    (section,) = [s for s in study_sections(problem, study, row) if s.title.startswith("How the search")]
    assert any(f"with evaluation {place} of" in block.text for block in blocks(section, Paragraph))
