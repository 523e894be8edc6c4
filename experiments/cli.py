"""The `tune` command. Heavy imports wait until a command needs them: `tune --help` answers at once."""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kilotune.codegen.diagnostics import sentence
from kilotune.codegen.emit.levels import LEVELS
from kilotune.experiments.artefacts.inputs import files_of_store, files_read
from kilotune.experiments.artefacts.output_file import check_output_file, write_output
from kilotune.experiments.commands import completion
from kilotune.experiments.commands.command_line import (
    TuneGroup,
    budget_option,
    storage_option,
    with_problem_options,
    with_run_options,
)
from kilotune.experiments.commands.compare import compare_command
from kilotune.experiments.commands.dashboard import dashboard_command
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.commands.export_targets import ExportCommand, TargetName
from kilotune.experiments.commands.listing_options import given_to_listing, listed_names, with_listing_options
from kilotune.experiments.commands.report import report_command
from kilotune.experiments.problems.registry import example_space, space_names
from kilotune.experiments.requests.request import TuneRequest
from kilotune.experiments.studies.request_parsing import given_options, request_from

if TYPE_CHECKING:
    from kilotune.experiments.studies.command_time import CommandTime
    from kilotune.experiments.studies.tuning import TuneOutcome
    from kilotune.search.stopping import StopRule
    from kilotune.search.store import Store


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
        return
    if options["space"] is None:
        raise click.UsageError(f"Missing option --space: expected one of {', '.join(space_names())} (or a subcommand).")

    from kilotune.experiments.studies import tuning
    from kilotune.experiments.studies.command_time import CommandTime
    from kilotune.search.budget import Budget
    from kilotune.search.stopping import SETTLED, StopRule

    budget, stop = Budget.parse(options["budget"]), StopRule.parse(options["stop"] or str(SETTLED))
    _limit_s(options)
    _reach_workers(options)
    request = request_from(
        options["space"],
        input=options["input_"],
        strategy=options["strategy"],
        seed=options["seed"],
        limits=options["limits"],
        device=options["device"],
        objective=options["objective"],
        options=given_options(options),
    )
    time = CommandTime(budget)
    request = dataclasses.replace(request, procedure_first=True, stop=str(stop))
    problem = time.build(request)
    store = _open(options["storage"])
    given = options["study_name"]
    name = tuning.free_study_name(store, request.space) if given is None else given
    folder = _checked_output(problem, name, options)
    study = tuning.join(store, name, problem, budget)
    context.exit(_run(problem, study, time, stop, folder, options))


@cli.command("resume")
@click.argument("study", shell_complete=completion.studies)
@click.option("--input", "input_", metavar="PATH", help="Where the input is now, if it was moved: the same content.")
@budget_option
@storage_option
@with_run_options
@click.pass_context
def resume_command(context: click.Context, /, study: str, **options: Any) -> None:
    """Go on with STUDY for another BUDGET; every finished trial is kept."""
    from kilotune.experiments.studies import tuning
    from kilotune.experiments.studies.command_time import CommandTime
    from kilotune.search.budget import Budget
    from kilotune.search.stopping import SETTLED, StopRule

    _limit_s(options)
    _reach_workers(options)
    given = None if options["stop"] is None else StopRule.parse(options["stop"])
    store, time = _open(options["storage"]), CommandTime(Budget.parse(options["budget"]))
    problem, resumed, row = tuning.resume(store, study, options["input_"], time)
    if "comparison" in row.request:
        of = row.request["comparison"]
        raise ValueError(f"{study} is a run of the comparison {of}: `tune compare --name {of}` goes on with it.")
    stop = given or StopRule.parse(TuneRequest.from_json(row.request).stop or str(SETTLED))
    context.exit(_run(problem, resumed, time, stop, _checked_output(problem, study, options), options))


@cli.command("export", cls=ExportCommand)
@click.argument("study", shell_complete=completion.studies)
@click.option("--target", type=TargetName(), help="What the program is for  [default: c].")
@click.option("--level", type=click.Choice(LEVELS), help="-O level on the device [default: the study's].")
@click.option("--to", type=click.Choice(["optuna"]), help="All trials instead, as an Optuna journal file.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="A folder, for a program an empty one or its own; --to: a new file.",
)
@storage_option
def export_command(
    study: str, target: str | None, to: str | None, level: str | None, output: Path, storage: str | None
) -> None:
    """Write the best program of STUDY as a folder that checks itself against recorded samples, or its placement."""
    from kilotune.evaluators.architectures.registry import project_target
    from kilotune.experiments.problems.problem import HasTargets, export_trial
    from kilotune.experiments.studies import tuning

    problem, stored, _ = tuning.resume(_open(storage), study)
    if to is not None:
        from kilotune.experiments.studies.optuna_export import export_optuna

        if target or level:
            raise click.UsageError("--target and --level are for programs, --to is for all trials.")
        click.echo(
            f"{output}: {export_optuna(stored, output)} trials; `optuna-dashboard {output}` shows them", err=True
        )
        return
    best = stored.result().best
    if best is None:
        raise ValueError(f"Study {study!r} holds no trial yet: there is nothing to export.")
    artefacts = export_trial(problem, best, output, target, level)
    check = f"; {project_target(target or 'c').next_step(output)}" if isinstance(problem, HasTargets) else ""
    click.echo(f"{output}: {', '.join(artefacts)} of trial {best.number}{check}", err=True)


@cli.command("list")
@click.argument("what", type=click.Choice(listed_names()))
@with_listing_options
@storage_option
@click.option("--json", "as_json", is_flag=True, help="As JSON on stdout.")
def list_command(what: str, storage: str | None, as_json: bool, **options: Any) -> None:
    """Show what there is. `buffers`: a program's temporaries as CSV (id,lower,upper,size; live in [lower, upper))."""
    from kilotune.experiments.commands import listing

    given = given_to_listing(what, options)
    rows = listing.rows(what, lambda: _open(storage), given)
    click.echo(json.dumps(rows, indent=2) if as_json else listing.text_of(what, rows))


@cli.command("cache")
@click.option("--clear", is_flag=True, help="Forget all of them.")
def cache_command(clear: bool) -> None:
    """Say how many measurements are kept for later studies, and where."""
    from kilotune.evaluators.executors.cache import EvaluationCache

    cache = EvaluationCache()
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


cli.add_command(compare_command)
cli.add_command(report_command)
cli.add_command(dashboard_command)


def _open(storage: str | None) -> Store:
    from kilotune.experiments.studies.storage import default_storage
    from kilotune.search.store import Store

    return Store(storage or default_storage())


def _reach_workers(options: dict[str, Any]) -> None:
    """Before there is a study: a cluster that cannot be used leaves none behind. ValueError, a sentence, for such a one."""
    if options["ray"] is None:
        return
    from kilotune.evaluators.executors.ray_connection import LOCAL, connect
    from kilotune.evaluators.executors.ray_nodes import check_nodes

    local = options["ray"] == LOCAL
    if not options["quiet"]:
        click.echo(
            f"{'starting' if local else 'connecting to'} Ray{'' if local else ' at ' + options['ray']}", err=True
        )
    ray = connect(options["ray"], options["jobs"])
    for line in () if local else check_nodes(ray):
        if not options["quiet"]:
            click.echo(line, err=True)


def _limit_s(options: dict[str, Any]) -> float | None:
    """How long one evaluation may take. ValueError, a sentence."""
    from kilotune.search.budget import parse_seconds

    try:
        return None if options["time_limit"] is None else parse_seconds(options["time_limit"])
    except ValueError as error:
        raise ValueError(f"--time-limit {error}") from None


def _checked_output(problem: Any, study: str, options: dict[str, Any]) -> Path | None:
    """The folder of the artefacts; None for none. ValueError, a sentence, for one, or a --json, that could not be written."""
    folder = None if options["no_output"] else options["output"] or Path("out") / study
    if folder is not None:
        problem.check_output(folder)
    if options["json_file"]:
        check_output_file("--json", options["json_file"], _files_read(problem, options))
    return folder


def _run(
    problem: Any, study: Any, time: CommandTime, stop: StopRule, folder: Path | None, options: dict[str, Any]
) -> int:
    from kilotune.experiments.studies import tuning
    from kilotune.experiments.terminal.progress import ProgressDisplay

    workplace = tuning.Workplace(options["jobs"], options["ray"], _limit_s(options), not options["no_cache"])
    with ProgressDisplay(problem, study, options["quiet"]) as display:
        outcome = tuning.run(problem, study, time, workplace, display, stop)
    return _deliver(outcome, folder, options)


def _files_read(problem: Any, options: dict[str, Any]) -> tuple[Path, ...]:
    """What the search reads besides what is bundled: no result may replace it."""
    described = [Path(options["device"])] if options.get("device") else []
    return (*files_read(problem.request), *described, *files_of_store(_open(options["storage"])))


def _deliver(outcome: TuneOutcome, folder: Path | None, options: dict[str, Any]) -> int:
    """Program, summary, JSON. The study keeps the search whatever happens here."""
    from rich.console import Console

    from kilotune.experiments.studies import tuning
    from kilotune.experiments.terminal.summary import print_summary
    from kilotune.search.result import Status

    result = outcome.result
    to_stdout = options["json_file"] == "-"
    if not options["quiet"]:
        print_summary(outcome, Console(stderr=to_stdout, highlight=False, markup=False))
    artefacts: dict[str, str] = {}
    if result.best is not None and result.best.measurement.failure is None and folder is not None:
        artefacts = _export(outcome, folder)
        if not options["quiet"]:
            check = shlex.join(["make", "-C", str(folder), "check"])
            hint = f" (`{check}` runs it)" if "source" in artefacts else ""
            click.echo(f"{', '.join(artefacts)} in {folder}{hint}", err=to_stdout)
    if options["json_file"]:
        text = json.dumps(tuning.as_json(outcome, artefacts), indent=2, allow_nan=False) + "\n"
        write_output(options["json_file"], text)
    if result.status is Status.INTERRUPTED:
        click.echo(f"interrupted; `tune resume {result.study}` goes on", err=True)
        return ExitStatus.INTERRUPTED
    return ExitStatus.FEASIBLE if result.feasible else ExitStatus.INFEASIBLE


def _export(outcome: TuneOutcome, folder: Path) -> dict[str, str]:
    assert outcome.result.best is not None
    from kilotune.experiments.artefacts.folder import RefusedOutputError

    try:
        return outcome.problem.export(outcome.result.best, folder)
    except (OSError, RefusedOutputError) as error:
        kept = f"The search is kept: `tune export {outcome.result.study} --output DIR` writes what it found."
        raise OSError(f"{str(error).rstrip('.')}. {kept}") from error


def main(arguments: list[str] | None = None) -> None:
    """Entry point: every expected mistake becomes one sentence on stderr and its exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        status = cli.main(given, prog_name="tune", standalone_mode=False)
        sys.exit(status if isinstance(status, int) else ExitStatus.FEASIBLE)
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("interrupted; finished trials are kept: `tune list studies`, `tune resume STUDY`", err=True)
        sys.exit(ExitStatus.INTERRUPTED)
    except click.ClickException as error:
        click.echo(f"tune: {sentence(error.format_message())}", err=True)
        sys.exit(ExitStatus.BAD_INPUT)
    except Exception as error:
        if "--debug" in given:
            traceback.print_exc()
        sys.exit(_explain(error))


def _explain(error: Exception) -> int:
    from kilotune.search.executor import ExecutorError
    from kilotune.search.store import StoreError

    if isinstance(error, ExecutorError):
        click.echo(f"tune: {error} Finished trials are kept: `tune list studies`, `tune resume STUDY`", err=True)
        return ExitStatus.INTERRUPTED
    if isinstance(error, ValueError | OSError | StoreError):
        click.echo(f"tune: {sentence(str(error))}", err=True)
        return ExitStatus.BAD_INPUT
    click.echo(f"tune: internal error: {type(error).__name__}: {error} (--debug shows where)", err=True)
    return ExitStatus.INTERNAL_ERROR
