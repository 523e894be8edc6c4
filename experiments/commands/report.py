"""`tune report`: a study or a comparison as one HTML file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kilotune.experiments.command_line import storage_option
from kilotune.experiments.exit_status import ExitStatus

if TYPE_CHECKING:
    from kilotune.experiments.comparison.outcome import CaseOutcome
    from kilotune.experiments.problem import Problem
    from kilotune.search.store import Store, StudyRow
    from kilotune.search.study import Study


MOST_BYTES = 240
"""Of a file's name; a letter may take four."""


@click.command("report")
@click.argument("name", metavar="STUDY|COMPARISON")
@click.option("--output", type=click.Path(path_type=Path), help="The file to write  [default: out/NAME.html]")
@storage_option
def report_command(name: str, output: Path | None, storage: str | None) -> ExitStatus:
    """Write one HTML file that opens offline: what was asked, what was found, and how the search went.

    Of a study whose input is gone it shows the trials alone, and the exit status is 4.
    """
    from kilotune.experiments.output_file import write_whole
    from kilotune.experiments.tuning import default_storage
    from kilotune.search.store import Store

    path = output or Path("out") / f"{file_name(name)}.html"
    if path.is_dir():
        raise ValueError(f"--output {path}: expected a file, found a folder.")
    page = report_page(Store(storage or default_storage()), name)
    click.echo(f"{path}: {write_whole(path, page.text) / 1e6:.1f} MB", err=True)
    if page.trouble:
        click.echo(f"tune: the report has the trials only, since the space cannot be built: {page.trouble}", err=True)
    return ExitStatus.BAD_INPUT if page.trouble else ExitStatus.FEASIBLE


@dataclass(frozen=True)
class Page:
    """A whole file. `trouble`: why it shows trials only, a sentence."""

    text: str
    trouble: str = ""


def report_page(store: Store, name: str) -> Page:
    """Of the study of that name, else of the comparison. StoreError, which lists what there is, when there is neither."""
    from kilotune.experiments import tuning
    from kilotune.experiments.comparison.records import RecordReader
    from kilotune.experiments.report.comparison_sections import comparison_sections, comparison_title
    from kilotune.experiments.report.page import render_page
    from kilotune.experiments.report.study_sections import study_sections, study_title
    from kilotune.experiments.report.unbuilt import NO_REQUEST, sections_of_rows, trouble_of
    from kilotune.search.comparison_store import comparisons
    from kilotune.search.space import Measurement, Trial
    from kilotune.search.store import StoreError

    if not store.studies(name) and comparisons(store, name):
        outcome = RecordReader(store).load(name)

        def study_of(case: CaseOutcome) -> tuple[Problem, Study]:
            run = case.best_run()
            problem, study, _ = tuning.resume(store, case.studies[run.strategy, run.seed])
            return problem, study

        return Page(render_page(comparison_title(outcome), comparison_sections(outcome, study_of)))
    row = _row(store, name)
    try:
        if "space" not in row.request:
            raise ValueError(NO_REQUEST)
        problem, study, row = tuning.resume(store, name)
    except (ValueError, OSError, StoreError) as error:
        trouble = trouble_of(error)
        trials = [Trial(t.number, {}, Measurement(t.metrics, t.failure), t.elapsed_s) for t in store.trials(name)]
        return Page(render_page(f"Study {name}", sections_of_rows(row, trials, trouble)), trouble)
    return Page(render_page(study_title(problem), study_sections(problem, study, row), f"Study {name}"))


def _row(store: Store, name: str) -> StudyRow:
    """StoreError: there is no study of that name; the message lists those that are no run of a comparison, and the
    comparisons."""
    from kilotune.search.comparison_store import comparisons
    from kilotune.search.store import StoreError

    if not store.studies(name):
        studies = ", ".join(row.name for row in store.studies() if "comparison" not in row.request) or "none yet"
        compared = ", ".join(row.name for row in comparisons(store)) or "none yet"
        raise StoreError(
            f"{store.place} holds no study or comparison {name!r}. Its studies: {studies}. Its comparisons: {compared}."
        )
    return store.study(name)


def file_name(name: str) -> str:
    """The name without what does not belong into the name of a file, and not longer than one may be."""
    return re.sub(r"[^\w.-]+", "-", name)[: MOST_BYTES // 4].strip(".-") or "report"
