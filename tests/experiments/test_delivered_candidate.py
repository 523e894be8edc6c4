"""All ways by which an answer leaves a study hand over the same candidate: command, stored study and Python, before and after summaries."""

from __future__ import annotations

import dataclasses
import html
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kilotune.evaluators.executors.in_process import InProcessExecutor
from kilotune.experiments.dashboard.page_rendering import Pages
from kilotune.experiments.dashboard.watched_study import WatchedStudy, version_of
from kilotune.experiments.notebook.stored_study import load_study
from kilotune.experiments.notebook.tuned_study import TunedStudy
from kilotune.experiments.notebook.tuning import tune
from kilotune.experiments.presentation.wording import number
from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.report.stored_report import report_page
from kilotune.experiments.studies import joining, tuning
from kilotune.experiments.studies.delivery import kept_delivery
from kilotune.experiments.studies.measured_finalists import FINALIST
from kilotune.experiments.studies.placing_finalists import exported_trial
from kilotune.experiments.studies.request_parsing import read_keywords, request_from
from kilotune.search.budget import Budget
from kilotune.search.result import Progress, Status
from kilotune.search.space import Assignment
from kilotune.search.store import Store
from tests.commands import tune as command
from tests.experiments.problems.fpga.hardware_problems import needs_tools

pytestmark = pytest.mark.slow

BESIDE = ("kilotune-manifest.json", "README.md", "decisions.json")


@dataclass(frozen=True)
class Case:
    """What is asked for, as the command has it and in Python; `differs`: whether another one than the best of the search is delivered;
    `grows`: whether the search alone finds fewer trials, since what is delivered is found after it."""

    options: str
    keywords: dict[str, Any]
    differs: bool = False
    grows: bool = False


CASES = {
    "confirmed": Case(
        "--space shiftry --input bonsai-digits --budget 600trials --seed 41 --drop 2",
        {"space": "shiftry", "input": "bonsai-digits", "budget": "600trials", "seed": 41, "drop": 2.0},
        differs=True,
    ),
    "measured": Case(
        "--space shiftry --input mlp-digits --budget 100trials --device uno --objective latency --level Os --shape compact",
        {
            "space": "shiftry",
            "input": "mlp-digits",
            "budget": "100trials",
            "device": "uno",
            "objective": "latency",
            "level": "Os",
            "shape": "compact",
        },
        differs=True,
    ),
    "linked": Case(
        "--space shiftry --input protonn-cancer --budget 40trials --device uno --limit linked=1000 --seed 1",
        {
            "space": "shiftry",
            "input": "protonn-cancer",
            "budget": "40trials",
            "device": "uno",
            "limits": {"linked": 1000},
            "seed": 1,
        },
        grows=True,
    ),
    "forest": Case(
        "--space forest --input forest-digits --budget 30trials",
        {"space": "forest", "input": "forest-digits", "budget": "30trials"},
    ),
    "memory": Case(
        "--space memory --strategy random --budget 30trials",
        {"space": "memory", "strategy": "random", "budget": "30trials"},
    ),
    "cm": Case(
        "--space cm --input lenet5 --strategy random --budget 5trials",
        {"space": "cm", "input": "lenet5", "strategy": "random", "budget": "5trials"},
    ),
    "fpga": Case(
        "--space fpga --input protonn-cancer --budget 20trials",
        {"space": "fpga", "input": "protonn-cancer", "budget": "20trials"},
    ),
}

every_case = pytest.mark.parametrize(
    "case", [pytest.param(case, marks=needs_tools if name == "fpga" else ()) for name, case in CASES.items()], ids=CASES
)


def files_of(folder: Path) -> dict[str, bytes]:
    """What was exported, without the list of it, and without what tells of a run on a device besides, which the command has just made."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in BESIDE]
    decisions = folder / "decisions.json"
    decided = json.loads(decisions.read_text())["assignment"] if decisions.is_file() else None
    return {"decided": json.dumps(decided).encode()} | {str(p.relative_to(folder)): p.read_bytes() for p in files}


def by_command(case: Case, folder: Path) -> tuple[Assignment, dict[str, bytes]]:
    """The study `one`, in `studies.db`: its best by --json, and what it wrote."""
    given = (*case.options.split(), "--study", "one", *("--storage", "studies.db"), "--output", "written", "--quiet")
    done = command(folder, os.environ, "--json", "-", *given)
    assert done.returncode == 0, done.stderr
    best: Assignment = json.loads(done.stdout)["best"]["assignment"]
    return best, files_of(folder / "written")


def exported(study: TunedStudy, folder: Path) -> dict[str, bytes]:
    study.export(folder)
    return files_of(folder)


@every_case
def test_every_way_out_has_the_commands_candidate(case: Case, tmp_path: Path) -> None:
    best, files = by_command(case, tmp_path)
    check_pages(case, best, files, Store(str(tmp_path / "studies.db")))
    done = command(tmp_path, os.environ, "export", "one", *("--storage", "studies.db"), "--output", "again")
    assert done.returncode == 0, done.stderr
    assert files_of(tmp_path / "again") == files
    loaded = load_study("one", str(tmp_path / "studies.db"))
    stored = tune(**case.keywords, study="one", storage=str(tmp_path / "python.db"))
    for name, study in {"memory": tune(**case.keywords), "stored": stored, "loaded": loaded}.items():
        check_python(case, best, files, study, tmp_path / name)


def check_python(case: Case, best: Assignment, files: dict[str, bytes], study: TunedStudy, folder: Path) -> None:
    """It hands over this candidate, and reads of summaries change nothing."""
    assert study.best is not None
    assert study.best.assignment == best
    assert study.feasible
    front, trials, tested = study.front, study.trials, study.test_metrics
    assert exported(study, folder / "before") == files
    outcome = study.outcome()  # of which the summary is made
    assert outcome.result.best == study.best == study.result.best
    assert outcome.test == tested
    assert (study.front, study.trials, study.test_metrics) == (front, trials, tested)
    assert exported(study, folder / "after") == files
    searched = study.search.result().best
    assert searched is not None
    assert (searched.assignment != best) is case.differs
    assert (len(trials) > int(case.keywords["budget"].removesuffix("trials"))) is case.grows


def check_pages(case: Case, best: Assignment, files: dict[str, bytes], store: Store) -> None:
    """The report and the dashboard's page of the study show this candidate."""
    problem, study, row = joining.resume(store, "one")
    outcome = tuning.conclude(problem, study, study.result(), most_checked=0)
    chosen = outcome.result.best
    assert chosen is not None
    assert chosen.assignment == best
    watched = WatchedStudy(store, row)
    drawn, _ = watched.drawn(row)
    assert f"Best: trial {chosen.number}." in drawn.html
    facts = Pages("here", {}, False).study_news(row, watched.read, 0, "", None, True)["facts"]
    assert facts["best"] == number(chosen.metrics[problem.space.objectives[0].metric])
    if case is CASES["confirmed"]:  # its program is short enough to stand there whole
        assert files["model.c"].decode()[-2000:].strip() in html.unescape(report_page(store, "one").text)


def test_a_page_that_was_drawn_before_the_choice_is_drawn_again(tmp_path: Path) -> None:
    by_command(CASES["confirmed"], tmp_path)
    store = Store(str(tmp_path / "studies.db"))
    _, study, row = joining.resume(store, "one")
    kept = row.request[FINALIST]
    store.change_request("one", {key: value for key, value in row.request.items() if key != FINALIST})
    watched = WatchedStudy(store, before := store.study("one"))
    assert f"Best: trial {kept['best']}." in watched.drawn(before)[0].html
    study.keep_in_request(FINALIST, kept)
    assert version_of(store.study("one")) != version_of(before)


def test_a_study_goes_on_and_chooses_again(tmp_path: Path) -> None:
    """By `tune resume` and in Python: then all have what that run has come to."""
    confirmed = CASES["confirmed"]
    by_command(dataclasses.replace(confirmed, options=f"{confirmed.options} --budget 200trials"), tmp_path)
    where, on = ("--storage", "studies.db"), ("--budget", "200trials", "--json", "-", "--no-output", "--quiet")
    done = command(tmp_path, os.environ, "resume", "one", *where, *on)
    assert done.returncode == 0, done.stderr
    best = json.loads(done.stdout)["best"]["assignment"]
    loaded = load_study("one", str(tmp_path / "studies.db"))
    python = tune(**{**confirmed.keywords, "budget": "200trials"})
    assert python.resume("200trials") is python
    for study in (loaded, python):
        assert study.best is not None
        assert study.best.assignment == best
        assert study.best != study.search.result().best
        assert len(study.trials) == len(loaded.trials) > 200
    assert command(tmp_path, os.environ, "export", "one", *where, "--output", "again").returncode == 0
    assert (
        files_of(tmp_path / "again") == exported(python, tmp_path / "python") == exported(loaded, tmp_path / "loaded")
    )


def test_what_was_stopped_is_delivered_the_same_whatever_is_asked_for(tmp_path: Path) -> None:
    """As after Ctrl-C: what time there is for the choice is none of the summary's."""

    def watch(progress: Progress) -> bool:
        return progress.trials >= 300

    given = {**CASES["confirmed"].keywords, "budget": "100000trials", "storage": str(tmp_path / "studies.db")}
    study = tune(**given, study="one", progress=watch)
    assert study.status is Status.INTERRUPTED
    best, files = study.best, exported(study, tmp_path / "before")
    study.summary()
    assert study.best == study.outcome().result.best == best
    assert exported(study, tmp_path / "after") == files
    done = command(tmp_path, os.environ, "export", "one", *("--storage", "studies.db"), "--output", "again")
    assert done.returncode == 0, done.stderr
    assert files_of(tmp_path / "again") == files


def test_after_an_end_without_a_choice_none_is_made_by_a_summary(tmp_path: Path) -> None:
    """A process that was killed, or a run of a comparison: all have the best of the search."""
    store = Store(str(tmp_path / "studies.db"))
    request = dataclasses.replace(
        request_from("shiftry", input="bonsai-digits", seed=41, options=read_keywords("shiftry", {"drop": 2.0})),
        procedure_first=True,
    )
    problem = build_problem(request)
    study = joining.join(store, "one", problem, Budget(trials=600))
    searched = study.run(InProcessExecutor(problem.space), Budget(trials=600)).best
    loaded = load_study("one", str(tmp_path / "studies.db"))
    assert loaded.best == searched
    loaded.summary()
    assert loaded.best == loaded.outcome().result.best == searched
    assert exported_trial(problem, study, None) == searched
    chosen = loaded.resume("1trials").best
    assert chosen is not None
    assert chosen != searched, "a run that goes on chooses"
    assert chosen == load_study("one", str(tmp_path / "studies.db")).best


def test_a_comparisons_best_run_is_exported_as_it_was_compared(tmp_path: Path) -> None:
    given = ("--space", "shiftry", "--input", "protonn-cancer", "--strategies", "random,local", "--repeats", "1")
    where = ("--storage", "studies.db")
    done = command(tmp_path, os.environ, "compare", *given, "--budget", "60trials", "--name", "both", *where, "--quiet")
    assert done.returncode == 0, done.stderr
    runs = [row.name for row in Store(str(tmp_path / "studies.db")).studies()]
    assert len(runs) == 2
    for number_, run in enumerate(runs):
        loaded = load_study(run, str(tmp_path / "studies.db"))
        assert loaded.best == loaded.search.result().best
        folder = f"written{number_}"
        assert command(tmp_path, os.environ, "export", run, *where, "--output", folder).returncode == 0
        assert exported(loaded, tmp_path / f"python{number_}") == files_of(tmp_path / folder)


def test_of_a_stored_study_it_is_said_that_nothing_was_linked_within_its_limit(tmp_path: Path) -> None:
    """The estimate alone keeps no limit on what is linked."""
    case = CASES["linked"]
    by_command(case, tmp_path)
    store = Store(str(tmp_path / "studies.db"))
    problem, study, row = joining.resume(store, "one")
    assert kept_delivery(problem, study, study.result()).finalists.kept
    store.change_request("one", {key: value for key, value in row.request.items() if key != FINALIST})
    unlinked = load_study("one", str(tmp_path / "studies.db"))
    assert not unlinked.feasible
    found = kept_delivery(unlinked.problem, unlinked.search, unlinked.search.result()).finalists
    assert found.said == "No finalist has been linked within 1000 bytes yet: `tune resume one` links some."
    assert unlinked.outcome().finalists_kept, "the best is built for its device, and links within it"
