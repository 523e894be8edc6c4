"""What `tune` and `tune resume` do, from what was asked to the files of the result."""

from __future__ import annotations

import dataclasses
import json
import shlex
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from kilotune.evaluators.compiled_library import find_compiler
from kilotune.evaluators.executors.ray_connection import LOCAL, connect
from kilotune.evaluators.executors.ray_nodes import check_nodes
from kilotune.experiments.artefacts.folder import RefusedOutputError
from kilotune.experiments.artefacts.inputs import files_of_store, files_read
from kilotune.experiments.artefacts.output_file import check_output_file, write_output
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.problems.problem import PlacesFinalists, Problem, ProfilesPrograms
from kilotune.experiments.requests.request import TuneRequest
from kilotune.experiments.studies import joining, outcome_file, tuning
from kilotune.experiments.studies.command_time import CommandTime
from kilotune.experiments.studies.libraries import load_libraries
from kilotune.experiments.studies.moved_input import stored_request
from kilotune.experiments.studies.request_parsing import given_options, request_from
from kilotune.experiments.studies.storage import open_store
from kilotune.experiments.studies.workplace import Workplace
from kilotune.experiments.terminal.live_display import LiveDisplay
from kilotune.experiments.terminal.progress import ProgressDisplay
from kilotune.experiments.terminal.summary import print_summary
from kilotune.search.budget import Budget, parse_seconds
from kilotune.search.stopping import SETTLED, StopRule
from kilotune.search.store import Store
from kilotune.search.study import Study


def search(options: dict[str, Any]) -> int:
    """A new study, or the one of that name goes on; the exit status. `options`: the command's parameters by name. ValueError,
    a sentence, for what cannot be used; InputError for an input."""
    budget, stop = Budget.parse(options["budget"]), StopRule.parse(options["stop"] or str(SETTLED))
    _limit_s(options)
    find_compiler()
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
    request = dataclasses.replace(request, procedure_first=True, stop=str(stop))
    _load(request, options)
    time = CommandTime(budget)
    problem = _built(time, request, options)
    store = open_store(options["storage"])
    study, folder = _joined(store, problem, budget, options)
    return _run(problem, study, time, stop, folder, options)


def _joined(store: Store, problem: Problem, budget: Budget, options: dict[str, Any]) -> tuple[Study, Path | None]:
    """The study of the name that was given, or a new one, and where its artefacts go."""
    given = options["study_name"]
    if given is not None:
        folder = _checked_output(problem, given, options)
        return joining.join(store, given, problem, budget), folder
    study = joining.begin_unnamed(store, problem, budget, lambda name: _checked_output(problem, name, options))
    return study, _checked_output(problem, study.name, options)


def resume(study: str, options: dict[str, Any]) -> int:
    """The study goes on; the exit status. As `search`."""
    _limit_s(options)
    find_compiler()
    _reach_workers(options)
    given = None if options["stop"] is None else StopRule.parse(options["stop"])
    store, budget = open_store(options["storage"]), Budget.parse(options["budget"])
    _load(stored_request(store.study(study)), options)
    time = CommandTime(budget)
    problem, resumed, row = joining.resume(store, study, options["input_"], time)
    if "comparison" in row.request:
        of = row.request["comparison"]
        raise ValueError(f"{study} is a run of the comparison {of}: `tune compare --name {of}` goes on with it.")
    resumed.make_strategy()  # refused before the study is running, where it cannot be had
    if options["place"] is not None:
        problem = _with_places(problem, options["place"], study)
    stop = given or StopRule.parse(TuneRequest.from_json(row.request).stop or str(SETTLED))
    return _run(problem, resumed, time, stop, _checked_output(problem, study, options), options)


def _with_places(problem: Problem, most: int, study: str) -> Problem:
    """ValueError, a sentence, for a study of no hardware."""
    if not isinstance(problem, PlacesFinalists):
        raise ValueError(f"--place is for hardware: {study} is a study of the space {problem.request.space}.")
    return problem.with_places(most)


def _built(time: CommandTime, request: TuneRequest, options: dict[str, Any]) -> Problem:
    """The problem; what takes its time says on stderr how far it has come."""
    with LiveDisplay(options["quiet"], is_erased=True) as display:

        def tell(text: str) -> None:
            display.draw(Text(text))
            if not display.is_redrawn:
                display.line_if_due(lambda: text)

        return time.build(request, tell)


def _load(request: TuneRequest, options: dict[str, Any]) -> None:
    """Libraries, before the clock starts."""
    load_libraries(request, lambda line: None if options["quiet"] else click.echo(line, err=True))


def _reach_workers(options: dict[str, Any]) -> None:
    """Before there is a study: a cluster that cannot be used leaves none behind. ValueError, a sentence, for such a one."""
    if options["ray"] is None:
        return
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
    try:
        return None if options["time_limit"] is None else parse_seconds(options["time_limit"])
    except ValueError as error:
        raise ValueError(f"--time-limit {error}") from None


def _checked_output(problem: Problem, study: str, options: dict[str, Any]) -> Path | None:
    """The folder of the artefacts; None for none. ValueError, a sentence, for one, or a --json, that could not be written."""
    folder = None if options["no_output"] else options["output"] or Path("out") / study
    if folder is not None:
        problem.check_output(folder)
    if options["json_file"]:
        check_output_file("--json", options["json_file"], _files_read(problem, options))
    return folder


def _run(
    problem: Problem, study: Study, time: CommandTime, stop: StopRule, folder: Path | None, options: dict[str, Any]
) -> int:
    workplace = Workplace(options["jobs"], options["ray"], _limit_s(options), not options["no_cache"])
    with ProgressDisplay(problem, study, options["quiet"]) as display:
        outcome = tuning.run(problem, study, time, workplace, display, stop, display.conclude)
    return _deliver(outcome, folder, options)


def _files_read(problem: Problem, options: dict[str, Any]) -> tuple[Path, ...]:
    """What the search reads besides what is bundled: no result may replace it."""
    described = [Path(options["device"])] if options.get("device") else []
    return (*files_read(problem.request), *described, *files_of_store(open_store(options["storage"])))


def _deliver(outcome: tuning.TuneOutcome, folder: Path | None, options: dict[str, Any]) -> int:
    """Program, summary, JSON. The study keeps the search whatever happens here."""
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
        text = json.dumps(outcome_file.as_json(outcome, artefacts), indent=2, allow_nan=False) + "\n"
        write_output(options["json_file"], text)
    if outcome.interrupted:
        click.echo(f"interrupted; `{outcome.resuming}` goes on", err=True)
        return ExitStatus.INTERRUPTED
    return ExitStatus.FEASIBLE if outcome.usable else ExitStatus.INFEASIBLE


def _export(outcome: tuning.TuneOutcome, folder: Path) -> dict[str, str]:
    assert outcome.exported is not None
    problem = outcome.problem
    if isinstance(problem, ProfilesPrograms):
        problem = problem.knowing_run(outcome.device_check)
    try:
        return problem.export(outcome.exported, folder)
    except (OSError, RefusedOutputError) as error:
        kept = f"The search is kept: `tune export {outcome.result.study} --output DIR` writes what it found."
        raise OSError(f"{str(error).rstrip('.')}. {kept}") from error
