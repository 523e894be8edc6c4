"""`tune report`: a study or a comparison as one HTML file, its figures and tables also as files for a paper."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kilotune.experiments.artefacts.inputs import files_of_store
from kilotune.experiments.artefacts.output_file import check_output_file, write_whole
from kilotune.experiments.commands import completion
from kilotune.experiments.commands.command_line import storage_option
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.commands.near_choice import NearChoice
from kilotune.experiments.report.figure_formats import FORMATS

if TYPE_CHECKING:
    from kilotune.experiments.presentation.section import Section


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
    type=NearChoice(FORMATS),
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
    from kilotune.experiments.report.stored_report import files_behind, report_page
    from kilotune.experiments.studies.storage import open_store

    if formats and figures is None:
        raise ValueError("--format: expected together with --figures, the folder for them.")
    for option, folder in (("--figures", figures), ("--tables", tables)):
        if folder is not None and folder.exists() and not folder.is_dir():
            raise ValueError(f"{option} {folder}: expected a folder, found a file.")
    path = output or Path("out") / f"{file_name(name)}.html"
    store = open_store(storage)
    if output is not None and output.parent.is_dir():  # else it is made
        check_output_file("--output", output, (*files_of_store(store), *files_behind(store, name)))
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


def file_name(name: str) -> str:
    """The name without what does not belong into the name of a file, and not longer than one may be."""
    return re.sub(r"[^\w.-]+", "-", name)[: MOST_BYTES // 4].strip(".-") or "report"
