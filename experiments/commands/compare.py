"""`tune compare`: strategies under one budget, seed by seed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kilotune.evaluators.compiled_library import find_compiler
from kilotune.experiments.artefacts.inputs import files_of_store, files_read
from kilotune.experiments.artefacts.output_file import check_output_file, write_output
from kilotune.experiments.commands import completion
from kilotune.experiments.commands.command_line import WithFamilies, storage_option, with_problem_options
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.problems.registry import families_of
from kilotune.experiments.studies.request_parsing import given_options, keyword_of, request_from

if TYPE_CHECKING:
    from kilotune.experiments.comparison.outcome import ComparisonOutcome
    from kilotune.experiments.comparison.plan import Case, ComparisonPlan
    from kilotune.search.store import Store

DEFAULT_REPEATS = 10
DEFAULT_BUDGET = "10s"


@click.command("compare", cls=WithFamilies)
@with_problem_options
@click.option(
    "--suite",
    metavar="NAME|FILE",
    shell_complete=completion.suites,
    help="Several cases instead of one --space: five-spaces, or a TOML file.",
)
@click.option(
    "--strategies",
    metavar="A,B,C",
    shell_complete=completion.strategy_lists,
    help="What is compared: names of `tune list strategies` with commas between, or all that fit: all  [default: the common "
    "ones that fit, and the space's best].",
)
@click.option("--repeats", type=click.IntRange(1), help=f"Seeds per strategy  [default: {DEFAULT_REPEATS}]")
@click.option(
    "--budget", metavar="BUDGET", help=f"Of each run: CPU seconds, trials, or both  [default: {DEFAULT_BUDGET}]"
)
@click.option("--seed", type=click.IntRange(0, 2**62), help="The first one  [default: 0]")
@click.option("--jobs", type=click.IntRange(1), help="Runs at the same time  [default: one a processor].")
@click.option(
    "--name",
    metavar="NAME",
    shell_complete=completion.comparisons,
    help="Of the comparison; goes on with it when it exists.",
)
@storage_option
@click.option("--json", "json_file", metavar="FILE", help="Write everything as JSON; - for stdout.")
@click.option("--csv", "csv_file", metavar="FILE", help="Write one row a run; - for stdout.")
@click.option("--markdown", "markdown_file", metavar="FILE", help="Write the tables as Markdown; - for stdout.")
@click.option("--quiet", is_flag=True, help="No progress, no tables.")
@click.pass_context
def compare_command(context: click.Context, /, **options: Any) -> None:
    """Compare strategies on a space: the same empty start, the same budget, paired seeds.

    Every run is a study of its own, on one core and a clock of its own, and shares no measurements with others. A killed comparison
    goes on with `tune compare --name NAME`; there, more --repeats, --strategies or --budget extend it.
    Exit status: 0 complete, 1 complete and no run of any case met the constraints, else as of `tune`.

    \b
    tune compare --space SPACE --strategies exhaustive,greedy,tpe,cp,random --repeats 10 --budget 10s
    tune compare --space SPACE --strategies all --repeats 12
    tune compare --suite five-spaces --name five --budget 5s
    tune report five
    """
    from kilotune.experiments.comparison.records import load
    from kilotune.experiments.comparison.session import run_comparison
    from kilotune.experiments.studies.storage import open_store

    files = _files(options)
    find_compiler()
    store = open_store(options["storage"])
    name, plan = _plan(store, options)
    _refuse_inputs(files, plan, store, options)
    try:
        complete = run_comparison(store, name, plan, options["jobs"], options["quiet"])
    except KeyboardInterrupt:
        _say_interrupted(context, name)
    outcome = load(store, name)
    if not options["quiet"]:
        from kilotune.experiments.comparison.table import console, print_comparison

        print_comparison(outcome, console(to_stderr="-" in files.values()))
    _write(outcome, files)
    if not complete:
        _say_interrupted(context, name)
    if not options["quiet"]:
        click.echo(f"comparison {name}; `tune report {name}` writes it as a page", err=True)
    context.exit(ExitStatus.FEASIBLE if outcome.feasible else ExitStatus.INFEASIBLE)


def _files(options: dict[str, Any]) -> dict[str, str]:
    """The files that were asked for, by option. ValueError for one that could not be written; before the runs, not after."""
    files = {kind: options[f"{kind}_file"] for kind in ("json", "csv", "markdown") if options[f"{kind}_file"]}
    for kind, file in files.items():
        check_output_file(f"--{kind}", file)
    for one, other in combinations(files, 2):
        if files[one] == files[other] or Path(files[one]).resolve() == Path(files[other]).resolve():
            place = "stdout" if files[one] == "-" else files[one]
            raise click.UsageError(f"--{one} {files[one]} and --{other} {files[other]} would both go to {place}.")
    return files


def _refuse_inputs(files: Mapping[str, str], plan: ComparisonPlan, store: Store, options: Mapping[str, Any]) -> None:
    """ValueError when a result would be written over something that the runs read."""
    described = [Path(options[name]) for name in ("device", "suite") if options[name]]
    read = [*described, *files_of_store(store), *(file for case in plan.cases for file in files_read(case.request()))]
    for kind, file in files.items():
        check_output_file(f"--{kind}", file, read)


def _write(outcome: ComparisonOutcome, files: dict[str, str]) -> None:
    from kilotune.experiments.comparison.files import as_csv, as_json
    from kilotune.experiments.comparison.markdown import as_markdown

    for kind, file in files.items():
        if kind == "json":
            write_output(file, json.dumps(as_json(outcome), indent=2, allow_nan=False) + "\n")
        else:
            write_output(file, as_csv(outcome) if kind == "csv" else as_markdown(outcome))


def _say_interrupted(context: click.Context, name: str) -> NoReturn:
    click.echo(f"interrupted; `tune compare --name {name}` goes on", err=True)
    context.exit(ExitStatus.INTERRUPTED)


def _plan(store: Store, options: dict[str, Any]) -> tuple[str, ComparisonPlan]:
    """The name, and the plan: of what was asked, or of the stored comparison of that name, extended. StoreError when it was
    asked for something else."""
    from kilotune.experiments.comparison.plan import ComparisonPlan, case_title
    from kilotune.experiments.comparison.records import stored_plan
    from kilotune.experiments.comparison.session import extended
    from kilotune.experiments.studies.joining import check_study_name, dated_name
    from kilotune.search.comparison_store import comparison, comparisons

    name = options["name"]
    existing = None
    if name is not None and comparisons(store, check_study_name(name)):
        existing = stored_plan(comparison(store, name))
    if options["space"] is None and options["suite"] is None:
        if existing is None:
            raise click.UsageError("Expected --space, --suite, or the --name of a comparison that exists.")
        unwanted = [*_of_a_case(options), *(["--seed"] if options["seed"] not in (None, existing.seed) else [])]
        if unwanted:
            raise click.UsageError(f"{unwanted[0]} does not go with --name alone: what {name} compares is stored.")
        plan = extended(existing, _strategies(options), options["repeats"], options["budget"])
    else:
        seed, repeats = options["seed"] or 0, options["repeats"] or DEFAULT_REPEATS
        plan = ComparisonPlan(_cases(options), repeats, options["budget"] or DEFAULT_BUDGET, seed)
        plan.limits  # noqa: B018 - a budget that cannot be read is refused before anything is stored
    if existing is not None and not plan.extends(existing):
        raise ValueError(
            f"The comparison {name!r} was of other cases, from another seed, or had more seeds, strategies or budget: "
            f"`tune compare --name {name}` goes on with it; choose another --name for this one."
        )
    return name or dated_name(case_title("compare", Path(options["suite"] or options["space"]).stem)), plan


def _of_a_case(options: dict[str, Any]) -> list[str]:
    """The options given that say on what one --space is compared."""
    named = {"device": "device", "objective": "objective", "input": "input_", "limit": "limits"}
    given = [name for name, key in named.items() if options[key]]
    special = given_options(options)
    for family in families_of(options["space"]):
        given += [keyword_of(option) for option in family.options if option.name in special]
    return [f"--{name.replace('_', '-')}" for name in dict.fromkeys(given)]


def _strategies(options: dict[str, Any]) -> list[str] | None:
    given = options["strategies"]
    return None if given is None else [name.strip() for name in given.split(",") if name.strip()]


def _cases(options: dict[str, Any]) -> tuple[Case, ...]:
    """ValueError for what cannot be compared."""
    from kilotune.experiments.comparison.suite import ALL, DEFAULT_STRATEGIES, case_of, fitting, load_suite, require

    given, strategies = given_options(options), _strategies(options)
    if options["suite"] is not None:
        unwanted = [*(["--space"] if options["space"] else []), *_of_a_case(options)]
        if unwanted:
            raise click.UsageError(f"{unwanted[0]} does not go with --suite: its cases say what is compared.")
        return load_suite(options["suite"], strategies)
    request = request_from(
        options["space"],
        input=options["input_"],
        limits=options["limits"],
        device=options["device"],
        objective=options["objective"],
        options=given,
    )
    for name in strategies or ():
        if name != ALL:
            require(request, name)
    return (case_of(request, fitting(request, strategies or (*DEFAULT_STRATEGIES, request.strategy))),)
