"""What a study found: figures beside the paper's procedure, what is known about the optimum, and the artefact itself."""

from __future__ import annotations

import tempfile
from pathlib import Path

from kilotune.experiments.presentation.section import Block, Listing, Paragraph, Section, Table
from kilotune.experiments.problems.metric_names import metric_label
from kilotune.experiments.problems.problem import DescribesBest, Explains, Problem, ProfilesPrograms, bound_reason_of
from kilotune.experiments.problems.problem_entry import procedure_name
from kilotune.experiments.problems.program_profile import TITLES
from kilotune.experiments.report.report_data import ReportData
from kilotune.experiments.studies.procedure_outcome import ProcedureState
from kilotune.experiments.studies.tuning import TuneOutcome
from kilotune.experiments.terminal.sample_differences import sample_differences
from kilotune.experiments.terminal.summary import against_float, compared, conclusion, on_device
from kilotune.experiments.terminal.whole_programs import larger_program
from kilotune.search.result import Status
from kilotune.search.space import Trial
from kilotune.search.study import Study

MOST_LINES = 400
ARTEFACTS = (
    ("source", "The best program in C"),
    ("program", "The best program"),
    ("placement", "The best placement"),
)
"""What is shown of what a problem exports, the first that there is; and its title."""


def result_section(reported: ReportData) -> Section:
    """The best candidate in figures and sentences."""
    outcome, problem = reported.outcome, reported.problem
    titles, rows = compared(outcome)
    labels = {label for label, _ in rows}
    best, procedure, name = outcome.result.best, outcome.procedure, procedure_name(problem)
    for objective in reversed(problem.space.objectives):
        label = metric_label(objective.metric)
        if label not in labels:
            values = {
                name: None if procedure is None else procedure.measurement.metrics.get(objective.metric),
                "best found": None if best is None else best.measurement.metrics.get(objective.metric),
            }
            rows.insert(0, (label, [values.get(title) for title in titles]))
    if procedure is None and name in titles:
        at = titles.index(name)
        titles, rows = titles[:at] + titles[at + 1 :], [(label, v[:at] + v[at + 1 :]) for label, v in rows]
    sentences = [*conclusion(outcome).split("\n"), *_against_paper(reported)]
    sentences += _about_the_best(outcome)
    if outcome.device_check is not None:
        sentences.append(on_device(outcome.device_check))
        if outcome.device_check.measured is not None and outcome.float_on_device is not None:
            sentences.append(against_float(outcome.device_check.measured, outcome.float_on_device))
        larger = larger_program(outcome)
        sentences += [] if larger is None else [larger]
    blocks: list[Block] = []
    if outcome.result.status is Status.RUNNING:
        blocks.append(Paragraph(f"{unended(reported.study)} This is how far it had come."))
    table = Table(
        ("metric", *titles),
        [(label, *values) for label, values in rows],
        "The best candidate in figures.",
        sortable=False,
    )
    return Section("What was found", (*blocks, *(Paragraph(s) for s in sentences), table))


def _about_the_best(outcome: TuneOutcome) -> list[str]:
    """What is known of it besides its figures."""
    reason, approximation, missing = bound_reason_of(outcome.problem), outcome.approximation, outcome.test_not_measured
    said = [
        sample_differences(outcome),
        None if reason is None else f"Bound: {reason['sentence']}.",
        None if approximation is None else f"{approximation['sentence']}.",
        None if missing is None else f"{missing}.",
        outcome.said_of_finalists,
    ]
    return [sentence for sentence in said if sentence is not None]


def unended(study: Study) -> str:
    """A sentence on a study that is stored as running."""
    if study.is_at_work():
        return "The study was still running."
    return f"The study was stopped before its end, without a word: `tune resume {study.name}` goes on with it."


def profile_sections(problem: Problem, best: Trial) -> tuple[Section, ...]:
    """What each layer of the best program takes; none where there is no program."""
    if best.measurement.failure is not None or not isinstance(problem, ProfilesPrograms):
        return ()
    profile = problem.layer_profile(best, None)
    table = Table(TITLES, profile.rows, "Layers in program order; RAM and flash in bytes.", sortable=False)
    return (Section("What each layer takes", (table, *(Paragraph(sentence) for sentence in profile.sentences))),)


def artefact_sections(problem: Problem, best: Trial) -> tuple[Section, ...]:
    """The program, the placement or the mapping itself; none where the best trial has none."""
    if best.measurement.failure is not None:
        return ()
    if isinstance(problem, DescribesBest):
        return (problem.best_section(best),)
    with tempfile.TemporaryDirectory() as folder:
        written = problem.export(best, Path(folder) / "best")
        what, title = next(((w, t) for w, t in ARTEFACTS if w in written), (next(iter(written)), "The best candidate"))
        text = Path(written[what]).read_text(encoding="utf-8")
    explained = tuple(Paragraph(line) for line in _remarks(problem, best, text))
    return (Section(title, (*explained, *_cut(text))),)


def _remarks(problem: Problem, best: Trial, text: str) -> list[str]:
    """What the problem says of a candidate besides its text."""
    lines = problem.lines(best) if isinstance(problem, Explains) else []
    return [line for line in lines if not text.strip().startswith(line.strip())]  # the text may have notes behind it


def _cut(text: str) -> tuple[Block, ...]:
    lines = text.splitlines()
    if len(lines) <= MOST_LINES:
        return (Listing(text),)
    note = f"The first {MOST_LINES} of {len(lines)} lines; `tune export` writes all of them."
    return (Listing("\n".join(lines[:MOST_LINES])), Paragraph(note))


def _against_paper(reported: ReportData) -> list[str]:
    """How the best compares with the paper's procedure in the first objective, in a sentence."""
    result, paper, name = reported.outcome.result, reported.paper_metric, procedure_name(reported.problem)
    if not result.feasible or result.best is None:
        return []
    if reported.outcome.paper.state is not ProcedureState.ENDED:
        return [reported.outcome.paper.sentence(name) or "The space has no procedure of a paper."]
    objective = reported.problem.space.objectives[0]
    label, best = metric_label(objective.metric), reported.feasible_metric(result.best)
    if paper is None:
        return [f"The {name} finds no candidate that meets the constraints."]
    assert best is not None
    if best == paper:
        proved = ", which is the optimum" if result.proved else ""
        return [f"The {name} reaches the same {label}{proved}."]
    share = f" ({100 * abs(best - paper) / abs(paper):.3g} %)" if paper else ""
    better = objective.loss({objective.metric: best}) < objective.loss({objective.metric: paper})
    how = "better" if better else "worse"
    return [f"In {label} the best found, {best:.6g}, is {how} than the {name}, {paper:.6g}{share}."]
