"""`tune report`: a study or a comparison as one HTML file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kilotune.experiments.command_line import storage_option

if TYPE_CHECKING:
    from kilotune.experiments.comparison.outcome import CaseOutcome
    from kilotune.experiments.problem import Problem
    from kilotune.search.store import Store, StudyRow
    from kilotune.search.study import Study


@click.command("report")
@click.argument("name", metavar="STUDY|COMPARISON")
@click.option("--output", type=click.Path(path_type=Path), help="The file to write  [default: out/NAME.html]")
@storage_option
def report_command(name: str, output: Path | None, storage: str | None) -> None:
    """Write one HTML file that opens offline: what was asked, what was found, and how the search went."""
    from kilotune.experiments.report.page import write_whole
    from kilotune.experiments.tuning import default_storage
    from kilotune.search.store import Store

    path = output or Path("out") / f"{file_name(name)}.html"
    if path.is_dir():
        raise ValueError(f"--output {path}: expected a file, found a folder.")
    text = report_text(Store(storage or default_storage()), name)
    click.echo(f"{path}: {write_whole(path, text) / 1e6:.1f} MB", err=True)


def report_text(store: Store, name: str) -> str:
    """The page of the study of that name, else of the comparison. StoreError, which lists what there is, when there is neither."""
    from kilotune.experiments import tuning
    from kilotune.experiments.comparison.records import RecordReader
    from kilotune.experiments.report.comparison_sections import comparison_sections, comparison_title
    from kilotune.experiments.report.page import render_page
    from kilotune.experiments.report.study_sections import study_sections, study_title
    from kilotune.search.comparison_store import comparisons

    if not store.studies(name) and comparisons(store, name):
        outcome = RecordReader(store).load(name)

        def study_of(case: CaseOutcome) -> tuple[Problem, Study]:
            run = case.best_run()
            problem, study, _ = tuning.resume(store, case.studies[run.strategy, run.seed])
            return problem, study

        return render_page(comparison_title(outcome), comparison_sections(outcome, study_of))
    problem, study, row = _resumed(store, name)
    return render_page(study_title(problem), study_sections(problem, study, row), f"Study {name}")


def _resumed(store: Store, name: str) -> tuple[Problem, Study, StudyRow]:
    """StoreError: there is no study of that name; the message lists those that are no run of a comparison, and the
    comparisons."""
    from kilotune.experiments import tuning
    from kilotune.search.comparison_store import comparisons
    from kilotune.search.store import StoreError

    if not store.studies(name):
        studies = ", ".join(row.name for row in store.studies() if "comparison" not in row.request) or "none yet"
        compared = ", ".join(row.name for row in comparisons(store)) or "none yet"
        raise StoreError(
            f"{store.place} holds no study or comparison {name!r}. Its studies: {studies}. Its comparisons: {compared}."
        )
    return tuning.resume(store, name)


def file_name(name: str) -> str:
    """The name without what does not belong into the name of a file."""
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "report"
