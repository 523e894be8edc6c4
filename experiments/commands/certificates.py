"""`tune certify` and `tune check`: what a search has proved as a file, and the check of such a file."""

from __future__ import annotations

from pathlib import Path

import click

from kilotune.codegen.diagnostics import InputError
from kilotune.experiments.artefacts.inputs import files_read
from kilotune.experiments.artefacts.output_file import check_output_file, write_whole
from kilotune.experiments.commands import completion
from kilotune.experiments.commands.command_line import storage_option
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.presentation.wording import counted

LARGEST_FILE = 1 << 24
"""Bytes of a certificate."""


@click.command("certify")
@click.argument("study", shell_complete=completion.studies)
@click.option(
    "--output", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The certificate; - is stdout."
)
@storage_option
def certify_command(study: str, output: Path, storage: str | None) -> None:
    """Write the bound that STUDY has reached, and its best program, as a certificate for `tune check` (SCAMP-5)."""
    from kilotune.experiments.problems.problem import Certifies
    from kilotune.experiments.studies import joining
    from kilotune.experiments.studies.storage import open_store

    problem, stored, _ = joining.resume(open_store(storage), study)
    if not isinstance(problem, Certifies):
        raise ValueError(f"{study}: the space {problem.space.name} has no certificates; reverse-split has.")
    check_output_file("--output", output, files_read(problem.request))
    text = problem.bound_certificate(stored.result().best, stored.reported_bound())
    write_whole(output, text)
    click.echo(f"{output}: `tune check {output}` confirms it", err=True)


@click.command("check")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--jobs", type=click.IntRange(1, 64), default=1, show_default=True, help="Threads.")
def check_command(file: Path, jobs: int) -> ExitStatus:
    """Check a certificate: execute its program, and search every shorter one with a checker of its own.

    Exit status 0: confirmed; 1: what it claims is not true, or not confirmed; 4: it is no certificate.
    """
    from kilotune.evaluators.scamp5.certificate import ONE_RESULT, FalseClaimError, parse_certificate, refuted_lengths

    if not file.is_file() or file.stat().st_size > LARGEST_FILE:
        found = "a file that is too large" if file.is_file() else "none"
        raise InputError(str(file), expected="a certificate of `tune certify`", found=found)
    certificate = parse_certificate(file.read_text(encoding="utf-8", errors="replace"), str(file))
    try:
        for refuted in refuted_lengths(certificate, jobs):
            where = "" if certificate.position is None else f" at {counted(refuted.positions, 'position')}"
            click.echo(
                f"no program of {refuted.instructions}: {counted(refuted.sets, 'set')} of values{where}", err=True
            )
    except FalseClaimError as error:
        click.echo(f"{file}: {error}")
        return ExitStatus.INFEASIBLE
    program = certificate.program
    lines = (
        0 if program is None else sum(bool(line.strip()) and line.lstrip()[:1] != "#" for line in program.split("\n"))
    )
    shortest = "; its program is a shortest one" if program is not None and lines == certificate.at_least else ""
    where = "" if certificate.position is None else ", wherever its results lie together"
    lost = "" if certificate.target not in ONE_RESULT else f"; {ONE_RESULT[certificate.target]}"
    bound = f"no program has fewer than {counted(certificate.at_least, 'instruction')}{where}"
    click.echo(f"{file}: confirmed, {bound}{shortest}{lost}")
    return ExitStatus.FEASIBLE
