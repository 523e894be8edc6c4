"""Adding a space of the project is adding a folder to `experiments/problems/`: seen in a copy of the package that has one more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.linked_package import linked_package

pytestmark = pytest.mark.slow

FAMILY = """
import click

from kilotune.experiments.problems.family import SpaceEntry, SpaceFamily, SpaceListing

FAMILY = SpaceFamily(
    "Sums of dice (dice)",
    (SpaceEntry("dice", "the faces of dice", "random", ("total",), drawing="kilotune.experiments.problems.dice.figures"),),
    (click.Option(["--faces"], type=click.IntRange(1), help="Of one die"),),
    "kilotune.experiments.problems.dice.problem",
    inputs="a number of dice",
    metrics=(("total", "points on the table"),),
    listings=(SpaceListing("dice-sets", "kilotune.experiments.problems.dice.problem:sets"),),
)
"""

PROBLEM = """
from dataclasses import dataclass

from kilotune.experiments.problems.plain_problem import PlainProblem
from kilotune.search.flat_state import FlatState
from kilotune.search.space import Decision, Measurement, Objective


@dataclass(frozen=True)
class Dice:
    number: int
    faces: int
    name = "dice"
    objectives = (Objective("total"),)
    constraints = ()

    @property
    def fingerprint(self):
        return f"{self.number} dice of {self.faces}"

    @property
    def decisions(self):
        return tuple(Decision(f"die{i}", tuple(range(1, self.faces + 1))) for i in range(self.number))

    def start(self):
        return FlatState(self.decisions, self.number)

    def evaluate(self, batch):
        return [Measurement({"total": sum(candidate.values())}) for candidate in batch]


def resolve_input(text):
    return text or "3"


def read_options(space, asked):
    return {"faces": 6, **asked.given}


def build_problem(request):
    return PlainProblem(request, Dice(int(request.input), request.options["faces"]))


def sets(asked):
    return [{"name": "three of six", "dice": 3}]
"""

FIGURES = """
from kilotune.experiments.presentation.section import Paragraph, Section


def draw(problem, study):
    return (Section("How the dice fell", (Paragraph("They fell well."),)),)
"""

EVERYWHERE = """
import os, sys
from kilotune.experiments.cli import main

def run(line):
    print("==", line, flush=True)
    try:
        main(line.split())
    except SystemExit as status:
        assert status.code == 0, (line, status.code)

if __name__ == "__main__":
    for line in sys.stdin.read().splitlines():
        run(line)
    from kilotune import tune
    from kilotune.experiments.dashboard.application import Dashboard
    from kilotune.search.store import Store
    print("== notebook")
    study = tune("dice", faces=2, strategy="exhaustive", storage="studies.db", study="python", budget="20trials")
    print(study.best.assignment, study.summary())
    print("== conformance")
    from kilotune.experiments.problems.building import build_problem
    from kilotune.experiments.studies.request_parsing import request_from
    from kilotune.testing import check_space
    check_space(build_problem(request_from(space="dice")).space)
    print("== dashboard")
    pages = Dashboard(Store("studies.db"), local=True)
    for path, query in (("/", ""), ("/data/study", "name=command")):
        asked = {"PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": "GET", "HTTP_HOST": "localhost"}
        print(b"".join(pages(asked, lambda status, headers: print(status))).decode())
"""


def scratch_package(folder: Path) -> None:
    """The package in `folder`, with one more folder of a problem."""
    dice = linked_package(folder, "experiments/problems") / "dice"
    dice.mkdir()
    for name, text in (("__init__", ""), ("family", FAMILY), ("problem", PROBLEM), ("figures", FIGURES)):
        (dice / f"{name}.py").write_text(text)


def test_a_folder_is_in_help_lists_studies_comparisons_reports_dashboard_and_notebook(tmp_path: Path) -> None:
    scratch_package(tmp_path / "package")
    script = tmp_path / "everywhere.py"
    script.write_text(EVERYWHERE)
    lines = (
        "--help",
        "list spaces",
        "list dice-sets",
        "--space dice --faces 4 --budget 100trials --strategy exhaustive --study command --storage studies.db --no-output",
        "report command --storage studies.db --output command.html",
        "compare --space dice --strategies random,exhaustive --repeats 2 --budget 5trials --name both --storage studies.db",
        "list studies --storage studies.db",
        "export command --output exported --storage studies.db",
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        input="\n".join(lines),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "package")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = dict(part.split("\n", 1) for part in done.stdout.split("== ")[1:])
    assert "Sums of dice (dice):" in said["--help"]
    assert "--faces" in said["--help"]
    assert " ".join(said["--help"].split()).count("a number of dice (dice)") == 1
    assert "the faces of dice" in said["list spaces"]
    assert "three of six" in said["list dice-sets"]
    assert "points on the table" in said[lines[3]]
    assert "Proved" in said[lines[3]]
    report = (tmp_path / "command.html").read_text()
    assert "How the dice fell" in report
    assert "tune --space dice --input 3 --strategy exhaustive --budget 100trials --faces 4" in report
    assert "random" in said[lines[5]]
    assert "dice on 3, total" in said[lines[5]]
    assert "command" in said[lines[6]]
    assert '"die2": 1' in (tmp_path / "exported" / "decisions.json").read_text()
    assert "{'die0': 1, 'die1': 1, 'die2': 1}" in said["notebook"]
    assert "conformance" in said
    assert said["dashboard"].count("200 OK") == 2
    assert "dice" in said["dashboard"]
    assert "How the dice fell" in said["dashboard"]


def test_a_folder_without_a_family_is_none(tmp_path: Path) -> None:
    """What is broken is said at once: a folder that nobody can ask for would be forgotten."""
    scratch_package(tmp_path / "package")
    (tmp_path / "package/kilotune/experiments/problems/dice/family.py").unlink()
    done = subprocess.run(
        [sys.executable, "-m", "kilotune.experiments", "list", "spaces"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "package")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "problems.dice.family" in done.stderr
