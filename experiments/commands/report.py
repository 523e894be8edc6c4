"""`tune report`: a study or a comparison as one HTML file, its figures and tables also as files for a paper."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kilotune.experiments.artefacts.inputs import files_of_store, files_read
from kilotune.experiments.artefacts.output_file import check_output_file, write_whole
from kilotune.experiments.commands import completion
from kilotune.experiments.commands.command_line import storage_option
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.report.figure_formats import FORMATS
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.suggestion import did_you_mean

if TYPE_CHECKING:
    from kilotune.experiments.comparison.outcome import CaseOutcome
    from kilotune.experiments.presentation.section import Section
    from kilotune.experiments.problems.problem import Problem
    from kilotune.search.store import Store
    from kilotune.search.stored_rows import StudyRow
    from kilotune.search.study import Study


MOST_BYTES = 240
"""The most bytes of a file's name; a letter may take four."""


@click.command("report")
@click.argument("name", metavar="STUDY|COMPARISON", shell_complete=completion.reported)
@click.option("--output", type=click.Path(path_type=Path), help="The file to write  [default: out/NAME.html]")
@click.option(
    "--figures", type=click.Path(path_type=Path), metavar="FOLDER", help="Write every figure there as files too."
)
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(FORMATS),
    help="Of --figures; several are possible  [default: pdf and svg]",
)
@click.option(
    "--tables",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Write every table there as LaTeX (booktabs) too.",
)
@storage_option
def report_command(
    name: str,
    output: Path | None,
    figures: Path | None,
    formats: tuple[str, ...],
    tables: Path | None,
    storage: str | None,
) -> ExitStatus:
    """Write one HTML file that opens offline: what was asked, what was found, and how the search went.

    Of a study whose input is gone it shows the trials alone, and the exit status is 4.

    \b
    tune report STUDY --figures paper/figures --tables paper/tables

    writes its figures and tables for a paper as well, into folders of this study's own: their names come from their titles, and
    are the same when the study has gone on. Stdout lists them. Figures take the extra `figures` and an installed Chrome or Chromium.
    """
    from kilotune.experiments.studies.storage import default_storage
    from kilotune.search.store import Store

    if formats and figures is None:
        raise ValueError("--format: expected together with --figures, the folder for them.")
    for option, folder in (("--figures", figures), ("--tables", tables)):
        if folder is not None and folder.exists() and not folder.is_dir():
            raise ValueError(f"{option} {folder}: expected a folder, found a file.")
    path = output or Path("out") / f"{file_name(name)}.html"
    store = Store(storage or default_storage())
    if output is not None and output.parent.is_dir():  # else it is made
        check_output_file("--output", output, (*files_of_store(store), *_files_read(store, name)))
    page = report_page(store, name)
    click.echo(f"{path}: {write_whole(path, page.text) / 1e6:.1f} MB", err=True)
    if figures is not None or tables is not None:
        _write_for_a_paper(page.sections, figures, formats or FORMATS[:2], tables)
    if page.trouble:
        click.echo(f"tune: the report has the trials only, since the space cannot be built: {page.trouble}", err=True)
    return ExitStatus.BAD_INPUT if page.trouble else ExitStatus.FEASIBLE


def _write_for_a_paper(
    sections: Sequence[Section], figures: Path | None, formats: Sequence[str], tables: Path | None
) -> None:
    """Drawn, then written, then listed on stdout."""
    from rich.console import Console
    from rich.progress import Progress

    from kilotune.experiments.report.paper_files import drawn_files, named_figures, table_files

    files: dict[Path, str | bytes] = {}
    if figures is not None:
        named = named_figures(sections)
        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("drawing figures", total=len(named) * len(formats))
            drawn = drawn_files(named, formats, lambda: progress.advance(task))
        files |= {figures / file: content for file, content in drawn.items()}
    if tables is not None:
        files |= {tables / file: text for file, text in table_files(sections).items()}
    for file, content in files.items():
        write_whole(file, content)
        click.echo(str(file))


@dataclass(frozen=True)
class Page:
    """A whole file, and the sections that it shows. `trouble`: why it shows trials only, a sentence."""

    text: str
    sections: tuple[Section, ...]
    trouble: str = ""


def report_page(store: Store, name: str) -> Page:
    """The page of the study of that name, else of the comparison. StoreError, which lists what there is, when there is neither."""
    from kilotune.experiments.comparison.records import RecordReader
    from kilotune.experiments.report.comparison_sections import comparison_sections, comparison_title
    from kilotune.experiments.report.page import render_page
    from kilotune.experiments.report.study_sections import study_sections, study_title
    from kilotune.experiments.report.unavailable_space import NO_REQUEST, sections_of_rows, trouble_of
    from kilotune.experiments.studies import tuning
    from kilotune.search.comparison_store import comparisons
    from kilotune.search.space import Measurement, Trial
    from kilotune.search.store import StoreError

    if not store.studies(name) and comparisons(store, name):
        outcome = RecordReader(store).load(name)

        def study_of(case: CaseOutcome) -> tuple[Problem, Study]:
            run = case.best_run()
            problem, study, _ = tuning.resume(store, case.studies[run.strategy, run.seed])
            return problem, study

        sections = comparison_sections(outcome, study_of)
        return Page(render_page(comparison_title(outcome), sections), sections)
    row = _row(store, name)
    try:
        if "space" not in row.request:
            raise ValueError(NO_REQUEST)
        problem, study, row = tuning.resume(store, name)
    except (ValueError, OSError, StoreError) as error:
        trouble = trouble_of(error)
        trials = [Trial(t.number, {}, Measurement(t.metrics, t.failure), t.elapsed_s) for t in store.trials(name)]
        sections = sections_of_rows(row, trials, trouble)
        return Page(render_page(f"Study {name}", sections), sections, trouble)
    sections = study_sections(problem, study, row)
    return Page(render_page(study_title(problem), sections, f"Study {name}"), sections)


def _files_read(store: Store, name: str) -> tuple[Path, ...]:
    """What the studies behind a report read; empty where that is not known."""
    from kilotune.experiments.comparison.plan import ComparisonPlan
    from kilotune.search.comparison_store import comparisons

    requests = [TuneRequest.from_json(row.request) for row in store.studies(name) if "space" in row.request]
    for row in comparisons(store, name):
        requests += [case.request() for case in ComparisonPlan.from_json(row.plan).cases]
    return tuple(file for request in requests for file in files_read(request))


def _row(store: Store, name: str) -> StudyRow:
    """StoreError: there is no study of that name; the message lists those that are no run of a comparison, and the
    comparisons."""
    from kilotune.search.comparison_store import comparisons
    from kilotune.search.store import StoreError

    if not store.studies(name):
        readable = store.studies(damaged=lambda error: None)
        studies = [row.name for row in readable if "comparison" not in row.request]
        compared = [row.name for row in comparisons(store)]
        raise StoreError(
            f"{store.place} holds no study or comparison {name!r}{did_you_mean(name, studies + compared)}. "
            f"Its studies: {', '.join(studies) or 'none yet'}. Its comparisons: {', '.join(compared) or 'none yet'}."
        )
    return store.study(name)


def file_name(name: str) -> str:
    """The name without what does not belong into the name of a file, and not longer than one may be."""
    return re.sub(r"[^\w.-]+", "-", name)[: MOST_BYTES // 4].strip(".-") or "report"
