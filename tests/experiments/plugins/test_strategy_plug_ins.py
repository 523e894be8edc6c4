"""Strategies of other packages beside our own: what works is used, and what does not is said in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.experiments.plugins.packages import PLAIN, install, tune

pytestmark = pytest.mark.slow

GROUP = "kilotune.strategies"

WORKS = '''
import math

from kilotune import Outcome, SteppedStrategy


class Backwards:
    """Every candidate, the last
    first.

    Not shown.
    """

    needs_flat = True
    bound = -math.inf

    def __init__(self, space, seed):
        self.decisions = space.decisions

    def steps(self):
        yield [{d.name: d.options[-1] for d in self.decisions}]
        return Outcome.FINISHED


def whole(space, seed):
    return SteppedStrategy(Backwards(space, seed))


def refuses(space, seed):
    raise ValueError("it likes no space")


def fails(space, seed):
    raise KeyError("oh")


def makes_nothing(space, seed):
    return 7


def flat_strategy(space, seed):
    return whole(space, seed)


flat_strategy.needs_flat = True
'''


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    install(folder, "sums", "sums", PLAIN, sum="sums:make")
    names = ("whole", "refuses", "fails", "makes_nothing", "flat_strategy")
    points = {name: f"backwards:{name}" for name in names}
    install(folder, "backwards", "backwards", WORKS, GROUP, backwards="backwards:Backwards", **points)
    install(folder, "broken", "broken", "import nothing_there\n", GROUP, broken="broken:x", local="broken:x")
    install(folder, "again", "again", WORKS, GROUP, twin="again:whole", number="again:__name__")
    install(folder, "more", "more", WORKS, GROUP, twin="more:whole")
    return folder


UNUSABLE = {
    "broken": "The plug-in 'broken' of broken 0.1 (broken:x) cannot be loaded: ModuleNotFoundError: No module named",
    "twin": "Several packages bring a strategy 'twin': again 0.1 (again:whole), more 0.1 (more:whole)",
    "number": "expected a class or function that makes a strategy of a space and a seed, found str",
}
UNFIT = {
    "refuses": "The plug-in 'refuses' of backwards 0.1 (backwards:refuses): it likes no space",
    "fails": "makes no strategy: KeyError: 'oh'",
    "makes-nothing": "expected a strategy (kilotune.Strategy) or a search with bound and steps(), found int without outcome",
    "flat-strategy": "expected a search with steps(), for what it proves in a flat view is not proved of the space",
}


def test_the_list_and_the_doctor_say_what_works_and_why_the_rest_does_not(place: Path) -> None:
    listed = {
        row["name"]: row
        for row in json.loads(tune(place, "list", "strategies", "--json").stdout)
        if row["from"] != "kilotune"
    }
    assert listed["backwards"]["what"] == "Every candidate, the last first."
    assert listed["backwards"]["from"] == "backwards 0.1"
    assert "kilotune has a strategy of that name" in listed["local"]["what"]
    said = tune(place, "doctor").stdout
    assert "plug-in    backwards: the strategy of backwards 0.1 (backwards:Backwards)" in said
    for name, reason in UNUSABLE.items():
        assert listed[name]["what"].startswith("not usable: ")
        assert reason in listed[name]["what"]
        assert reason in said


@pytest.mark.parametrize("name", ["backwards", "whole"])
def test_one_is_used_by_its_name(place: Path, name: str) -> None:
    done = tune(place, "--space", "sum", "--strategy", name, "--quiet", "--no-output", "--json", "-")
    result = json.loads(done.stdout)
    assert result["strategy"] == name
    assert result["outcome"] == "finished"
    assert result["best"]["assignment"] == {"digit0": 4, "digit1": 4, "digit2": 4}


def test_our_own_name_stays_ours(place: Path) -> None:
    done = tune(place, "--space", "sum", "--strategy", "local", "--quiet", "--no-output", "--json", "-")
    assert json.loads(done.stdout)["best"]["metrics"]["total"] == 7


@pytest.mark.parametrize("name", [*UNUSABLE, *UNFIT])
def test_asking_for_one_that_does_not_work_says_why_and_leaves_no_study(place: Path, name: str) -> None:
    done = tune(place, "--space", "sum", "--strategy", name, "--study", "none")
    assert done.returncode == 4
    assert {**UNUSABLE, **UNFIT}[name] in done.stderr
    assert "Traceback" not in done.stderr


def test_a_mistyped_name_lists_them_too(place: Path) -> None:
    done = tune(place, "--space", "sum", "--strategy", "backward")
    assert done.returncode == 4
    assert "did you mean 'backwards'" in done.stderr


def test_a_stored_study_of_a_strategy_that_is_gone_says_so(place: Path, tmp_path: Path) -> None:
    made = tune(place, "--space", "sum", "--strategy", "backwards", "--study", "kept", "--quiet", "--no-output")
    assert made.returncode == 0
    install(tmp_path, "sums", "sums", PLAIN, sum="sums:make")
    gone = tune(tmp_path, "resume", "kept", "--storage", str(place / "studies.db"))
    assert gone.returncode == 4
    assert "There is no strategy 'backwards'" in gone.stderr


def test_the_results_of_a_strategy_that_is_gone_are_still_to_be_had(place: Path, tmp_path: Path) -> None:
    made = tune(place, "--space", "sum", "--strategy", "backwards", "--study", "kept", "--quiet", "--no-output")
    assert made.returncode == 0
    install(tmp_path, "sums", "sums", PLAIN, sum="sums:make")
    storage = ("--storage", str(place / "studies.db"))
    assert tune(tmp_path, "export", "kept", "--output", "kept", *storage).returncode == 0
    reported = tune(tmp_path, "report", "kept", "--output", "page.html", *storage)
    assert reported.returncode == 0
    assert "cannot be built" not in (tmp_path / "page.html").read_text()
