"""Plug-ins beside one another: what works goes on working whatever the others are, and what does not is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.experiments.plugins.packages import PLAIN, install, tune

pytestmark = pytest.mark.slow

FULL = """
import click

from kilotune.experiments.problems.family import SpaceFamily, SpaceEntry

FAMILY = SpaceFamily(
    "Scaled sums (scaled)",
    (SpaceEntry("scaled", "the least multiple of a sum", "exhaustive"),),
    (click.Option(["--factor"], type=click.IntRange(1), help="What the sum is multiplied by"),),
    "scaled",
)


def resolve_input(text):
    return text or ""


def read_options(space, asked):
    return {"factor": 1, **asked.given}


def build_problem(request):
    from kilotune.experiments.problems.plain_problem import PlainProblem
    from sums import Sum

    return PlainProblem(request, Sum(request.options["factor"]))
"""

UNPICKLABLE = '''
from sums import Sum


class Locked(Sum):
    """Holds what no process can send to another."""

    def __reduce__(self):
        raise TypeError("a lock stays where it is")


def make(text):
    return Locked()


def nothing(text):
    return 7


def fails(text):
    raise KeyError(text)
'''

BROKEN = "import nothing_there\n"
EXITS = "raise SystemExit('no licence')\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    install(folder, "sums", "sums", PLAIN, sum="sums:make", plain_class="sums:Sum")
    install(folder, "broken", "broken", BROKEN, broken="broken:make", shiftry="sums:make", absent="sums:absent")
    install(folder, "exits", "exits", EXITS, exits="exits:make")
    install(folder, "one", "one", PLAIN, twin="one:make")
    install(folder, "two", "two", PLAIN, twin="two:make")
    install(folder, "full", "scaled", FULL, scaled="scaled:FAMILY", unoffered="scaled:FAMILY")
    greedy = FULL.replace("--factor", "--budget").replace('"scaled"', '"greedy"')
    install(folder, "greedy", "greedy", greedy, greedy="greedy:FAMILY")
    doorless = FULL.replace('"scaled"', '"doorless"').replace('"doorless",\n)', '"no_such_module",\n)')
    install(folder, "doorless", "doorless", doorless, doorless="doorless:FAMILY")
    locked = {
        "locked": "locked:make",
        "nothing": "locked:nothing",
        "fails": "locked:fails",
        "number": "locked:__name__",
    }
    install(folder, "locked", "locked", UNPICKLABLE, **locked)
    return folder


REASONS = {
    "broken": "cannot be loaded: ModuleNotFoundError: No module named 'nothing_there'",
    "absent": "has no attribute 'absent'",
    "exits": "cannot be loaded: SystemExit: no licence",
    "twin": "Several packages bring a space 'twin': one 0.1 (one:make), two 0.1 (two:make)",
    "unoffered": "expected a SpaceFamily with an entry 'unoffered', found one with scaled",
    "doorless": "No module named 'no_such_module'",
    "number": "expected a function that makes a space, or a SpaceFamily, found str",
}


def test_the_list_shows_what_works_and_why_the_rest_does_not(place: Path) -> None:
    listed = json.loads(tune(place, "list", "spaces", "--json").stdout)
    usable = {row["name"]: row for row in listed if not row["decides"].startswith("not usable")}
    assert {"sum", "plain-class", "scaled", "locked", "seedot", "cm"} < set(usable)
    assert usable["sum"]["decides"] == "The least sum of three digits, and an offset."
    assert usable["sum"]["from"] == "sums 0.1"
    assert usable["sum"]["default_strategy"] == "local"
    assert usable["scaled"]["default_strategy"] == "exhaustive"
    assert usable["shiftry"]["from"] == "kilotune"
    reasons = {row["name"]: row["decides"] for row in listed if row["decides"].startswith("not usable")}
    assert set(reasons) == {*REASONS, "shiftry"}
    assert "kilotune has a space of that name" in reasons["shiftry"]
    for name, reason in REASONS.items():
        assert reason in reasons[name]


def test_the_doctor_says_the_same(place: Path) -> None:
    said = tune(place, "doctor").stdout
    assert "plug-in    sum: the space of sums 0.1 (sums:make)" in said
    for reason in (*REASONS.values(), "'shiftry' of broken 0.1 (sums:make) is not used"):
        assert reason in said


@pytest.mark.parametrize("name", REASONS)
def test_asking_for_a_broken_one_says_why(place: Path, name: str) -> None:
    done = tune(place, "--space", name)
    assert done.returncode == 4
    assert REASONS[name] in done.stderr
    assert "Traceback" not in done.stderr


def test_a_taken_name_is_still_kilotunes(place: Path) -> None:
    done = tune(place, "--space", "shiftry", "--input", "worked-example", "--budget", "3trials", "--no-output")
    assert done.returncode == 0
    assert "shiftry on worked-example" in done.stdout


def test_options_of_a_family_are_there_with_its_space_only(place: Path) -> None:
    result = json.loads(
        tune(place, "--space", "scaled", "--factor", "4", "--json", "-", "--quiet", "--no-output").stdout
    )
    assert result["best"]["metrics"]["total"] == 4
    assert result["strategy"] == "exhaustive"
    assert "--factor" in tune(place, "--space=scaled", "--help").stdout
    assert "--factor" not in tune(place, "--help").stdout
    assert "No such option" in tune(place, "--space", "sum", "--factor", "4").stderr
    wrong = tune(place, "--space", "scaled", "--capacity", "1KiB")
    assert wrong.returncode == 4
    assert "--capacity does not go with the space scaled: it is for memory." in wrong.stderr


def test_an_option_that_tune_has_is_refused(place: Path) -> None:
    done = tune(place, "--space", "greedy", "--budget", "3trials")
    assert done.returncode == 4
    assert "brings an option --budget, which tune has already" in done.stderr


def test_help_loads_none(place: Path) -> None:
    """The module that exits would end the process."""
    done = tune(place, "--help")
    assert done.returncode == 0
    assert "exits 0.1" in done.stdout


def test_input_reaches_the_function(place: Path) -> None:
    def total(*arguments: str) -> float:
        done = tune(place, "--space", *arguments, "--json", "-", "--quiet", "--no-output")
        return float(json.loads(done.stdout)["best"]["metrics"]["total"])

    assert total("sum") == 7
    assert total("sum", "--input", "3") == 3
    assert total("plain-class") == 0
    wrong = tune(place, "--space", "sum", "--input", "x")
    assert wrong.returncode == 4
    assert "--input x: invalid literal for int()" in wrong.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nothing",), "expected a space (kilotune.search.space.Space), found int without name, objectives"),
        (("fails", "--input", "a"), "with --input a makes no space: KeyError: 'a'"),
        (("sum", "--limit", "flash=2"), "--limit and --device do not go with the space sum"),
        (("sum", "--objective", "memory"), "--objective memory: for the space sum there is no choice"),
        (("locked", "--jobs", "2"), "The space sum cannot be sent to worker processes: TypeError: a lock stays"),
    ],
)
def test_what_cannot_be_used_is_a_sentence(place: Path, arguments: tuple[str, ...], sentence: str) -> None:
    done = tune(place, "--space", *arguments, "--no-output", "--budget", "5trials")
    assert done.returncode == 4
    assert sentence in done.stderr


def test_one_job_needs_no_pickle(place: Path) -> None:
    assert tune(place, "--space", "locked", "--no-output", "--budget", "5trials").returncode == 0


def test_a_study_goes_on_and_is_exported(place: Path) -> None:
    arguments = ("--space", "sum", "--input", "2", "--strategy", "random", "--study", "long", "--no-output")
    assert tune(place, *arguments, "--budget", "10trials").returncode == 0
    result = json.loads(tune(place, "resume", "long", "--budget", "10trials", "--json", "-", "--no-output").stdout)
    assert result["evaluations"] == 20
    assert tune(place, "export", "long", "--output", "here").returncode == 0
    written = json.loads((place / "here" / "decisions.json").read_text())
    assert written["assignment"] == result["best"]["assignment"]
    assert written["metrics"] == {"total": 2 + sum(written["assignment"].values())}
    assert written["input"] == "2"
