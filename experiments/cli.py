"""The `tune` command. Heavy imports wait until a command needs them: `tune --help` answers at once."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

import click

from kilotune.codegen.diagnostics import InputError, sentence
from kilotune.experiments.commands import completion
from kilotune.experiments.commands.certificates import certify_command, check_command
from kilotune.experiments.commands.command_line import (
    TuneGroup,
    budget_option,
    level_option,
    point_option,
    refuse_options_before_command,
    shape_option,
    storage_option,
    with_problem_options,
    with_run_options,
)
from kilotune.experiments.commands.compare import compare_command
from kilotune.experiments.commands.dashboard import dashboard_command
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.commands.export_targets import ExportCommand, TargetName
from kilotune.experiments.commands.interrupts import INTERRUPTED_LINE, QuitsInImports
from kilotune.experiments.commands.listing_options import given_to_listing, listed_names, with_listing_options
from kilotune.experiments.commands.near_choice import NearChoice
from kilotune.experiments.commands.profile import profile_command
from kilotune.experiments.commands.report import report_command
from kilotune.experiments.presentation.wording import counted
from kilotune.experiments.problems.registry import example_space, space_names

SPACE = example_space()
HELP = f"""Search for the best decisions a compiler for tiny hardware can make, and write the program.

\b
tune --space {SPACE:<30}a bundled model, 60 seconds
tune --space {SPACE} --input my-model --limit flash=4KiB --budget 2h
tune resume STUDY                          go on where a run was stopped or killed
tune list models                           what can be tuned out of the box
"""


@click.group(
    cls=TuneGroup,
    invoke_without_command=True,
    help=HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit status: 0 a feasible best, 1 none found that meets the constraints, or none measured at all, 2 interrupted and resumable, "
    "3 internal error, 4 bad usage or bad input.",
)
@with_problem_options
@click.option(
    "--strategy",
    metavar="NAME",
    shell_complete=completion.strategies,
    help="How to search (`tune list strategies`) [default: the space's best].",
)
@budget_option
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True)
@click.option(
    "--study",
    "study_name",
    metavar="NAME",
    shell_complete=completion.studies,
    help="Name of the study; resumes it when it exists.",
)
@storage_option
@with_run_options
@click.version_option(package_name="kilotune")
@click.pass_context
def cli(context: click.Context, /, **options: Any) -> None:
    if context.invoked_subcommand is not None:
        refuse_options_before_command(context)
        return
    if options["space"] is None:
        raise click.UsageError(f"Missing option --space: expected one of {', '.join(space_names())} (or a subcommand).")

    from kilotune.experiments.commands.search import search

    context.exit(search(options))


@cli.command("resume")
@click.argument("study", shell_complete=completion.studies)
@click.option("--input", "input_", metavar="PATH", help="Where the input is now, if it was moved: the same content.")
@click.option(
    "--place",
    type=click.IntRange(0),
    metavar="N",
    help="Of hardware: how many candidates are tried by synthesis, place and route this time  [default: the study's].",
)
@budget_option
@storage_option
@with_run_options
@click.pass_context
def resume_command(context: click.Context, /, study: str, **options: Any) -> None:
    """Go on with STUDY for another BUDGET; every finished trial is kept."""
    from kilotune.experiments.commands.search import resume

    context.exit(resume(study, options))


@cli.command("export", cls=ExportCommand)
@click.argument("study", shell_complete=completion.studies)
@click.option(
    "--target",
    type=TargetName(),
    help="What the program is for  [default: c; of hardware verilog; with --streaming c-steps, with --overwrite-input c-frames].",
)
@level_option
@shape_option
@point_option
@click.option("--to", type=click.Choice(["optuna"]), help="All trials instead, as an Optuna journal file.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="A folder, for a program an empty one or its own; --to: a new file.",
)
@storage_option
def export_command(
    study: str,
    target: str | None,
    to: str | None,
    level: str | None,
    shape: str | None,
    point: int | None,
    output: Path,
    storage: str | None,
) -> None:
    """Write the best program of STUDY, or one of its front, as a folder that checks itself against recorded samples, or its placement."""
    from kilotune.evaluators.architectures.registry import project_target
    from kilotune.experiments.problems.problem import HasTargets, export_trial
    from kilotune.experiments.studies import joining
    from kilotune.experiments.studies.chosen_builds import built_for
    from kilotune.experiments.studies.placing_finalists import exported_trial
    from kilotune.experiments.studies.storage import open_store

    problem, stored, _ = joining.resume(open_store(storage), study)
    if to is not None:
        from kilotune.experiments.studies.optuna_export import export_optuna

        if target or level or shape or point:
            raise click.UsageError("--target, --level, --shape and --point are for programs, --to is for all trials.")
        click.echo(
            f"{output}: {counted(export_optuna(stored, output), 'trial')}; `optuna-dashboard {output}` shows them",
            err=True,
        )
        return
    best = exported_trial(problem, stored, point)
    artefacts = export_trial(built_for(problem, stored, best, level, shape), best, output, target, level)
    check = ""
    if isinstance(problem, HasTargets):
        check = f"; {project_target(target or problem.usual_target).next_step(output)}"
    click.echo(f"{output}: {', '.join(artefacts)} of trial {best.number}{check}", err=True)


@cli.command("list")
@click.argument("what", type=NearChoice(listed_names()))
@with_listing_options
@storage_option
@click.option("--json", "as_json", is_flag=True, help="As JSON on stdout.")
def list_command(what: str, storage: str | None, as_json: bool, **options: Any) -> None:
    """Show what there is. `buffers`: a program's temporaries as CSV (id,lower,upper,size; live in [lower, upper))."""
    from kilotune.experiments.commands import listing
    from kilotune.experiments.studies.storage import open_store

    given = given_to_listing(what, options)
    rows = listing.rows(what, lambda: open_store(storage), given)
    click.echo(json.dumps(rows, indent=2) if as_json else listing.text_of(what, rows))


@cli.command("cache")
@click.option("--clear", is_flag=True, help="Forget all of them.")
def cache_command(clear: bool) -> None:
    """Say how many measurements are kept for later studies, and where."""
    from kilotune.evaluators.executors.cache import EvaluationCache

    with contextlib.closing(EvaluationCache()) as cache:
        kept, path = len(cache), cache.path
        if clear:
            cache.clear()
    click.echo(f"{path}: {kept} measurements{' forgotten' if clear else ''}")


@cli.command("doctor")
def doctor_command() -> None:
    """Say which tools were found and how to get the rest."""
    from kilotune.experiments.commands.doctor import findings

    for line in findings():
        click.echo(line)


@cli.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of the result that --json writes."""
    from kilotune.experiments.studies.result_schema import result_schema

    click.echo(json.dumps(result_schema(), indent=2))


cli.add_command(certify_command)
cli.add_command(check_command)
cli.add_command(compare_command)
cli.add_command(report_command)
cli.add_command(profile_command)
cli.add_command(dashboard_command)


def main(arguments: list[str] | None = None) -> None:
    """Entry point: every expected mistake becomes one sentence on stderr and its exit status."""
    with QuitsInImports():
        status = _run(sys.argv[1:] if arguments is None else arguments)
        _end_now_under_a_call(status)
        sys.exit(status)


def _end_now_under_a_call(status: int) -> None:
    """Where compiled code does not hear at once that it is to stop, nobody waits for it: all that this command had to write is written."""
    if threading.active_count() == 1:
        return
    from kilotune.evaluators.interruptible import is_any_left

    if is_any_left():
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):
                stream.flush()
        os._exit(status)


def _run(given: list[str]) -> int:
    """The exit status."""
    try:
        # Read when NumPy is imported. Matrices here are small: other threads of its BLAS only spin, on cores that --jobs needs.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        status = cli.main(given, prog_name="tune", standalone_mode=False)
        return status if isinstance(status, int) else ExitStatus.FEASIBLE
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo(INTERRUPTED_LINE, err=True)
        return ExitStatus.INTERRUPTED
    except click.ClickException as error:
        said = " ".join(error.format_message().split())
        click.echo(f"tune: {sentence(said)}", err=True)
        return ExitStatus.BAD_INPUT
    except Exception as error:
        if "--debug" in given:
            traceback.print_exc()
        return _explain(error)


def _explain(error: Exception) -> int:
    from kilotune.search.executor import ExecutorError
    from kilotune.search.store import StoreError

    if isinstance(error, ExecutorError):
        click.echo(f"tune: {error} Finished trials are kept: `tune list studies`, `tune resume STUDY`", err=True)
        return ExitStatus.INTERRUPTED
    if isinstance(error, ValueError | OSError | StoreError):
        # what is wrong with a file is of bounded length as it is, each further thing beside the first one
        click.echo(f"tune: {error if isinstance(error, InputError) else sentence(str(error))}", err=True)
        return ExitStatus.BAD_INPUT
    click.echo(f"tune: internal error: {type(error).__name__}: {error} (--debug shows where)", err=True)
    return ExitStatus.INTERNAL_ERROR
