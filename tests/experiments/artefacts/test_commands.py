"""The commands leave what is the user's: exports of every space and target, results, reports, studies whose input moved."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Collection
from pathlib import Path

import pytest

from kilotune.experiments.artefacts.folder import ArtefactFolder
from kilotune.experiments.artefacts.manifest import MANIFEST
from kilotune.experiments.cli import main
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.models.catalogue import model_path
from kilotune.experiments.models.onnx_networks import MADE

pytestmark = pytest.mark.slow

BUFFERS = "id,lower,upper,size\n" + "".join(f"b{n},{n},{n + 3},{4 + n % 3}\n" for n in range(8))
SOBEL = '{"kernels": [[[1, 0, -1], [2, 0, -2], [1, 0, -1]]]}'
MINE = {"thesis.tex": "years", "mycode.cpp": "int mine;", ".git/HEAD": "ref: refs/heads/main"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KILOTUNE_STORAGE", str(tmp_path / "studies.db"))
    (tmp_path / "in.csv").write_text(BUFFERS)
    (tmp_path / "kernel.json").write_text(SOBEL)
    return tmp_path


def tune(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    return int(end.value.code or 0)


ASKED = {
    "shiftry": ("--input", "worked-example", "--budget", "20trials"),
    "seedot": ("--input", "worked-example", "--budget", "20trials"),
    "memory": ("--input", "in.csv", "--strategy", "random", "--budget", "5trials"),
    "reverse-split": ("--input", "kernel.json", "--strategy", "random", "--budget", "5trials"),
    "cm": ("--strategy", "random", "--budget", "2trials"),
}
TARGETS = {
    "shiftry": (
        "c",
        "arduino",
        "platformio",
        "zephyr",
        "cmsis-pack",
        "cortex-m0plus",
        "cortex-m4",
        "cortex-m55",
        "verilog",
    )
}
NAMES = {"memory": "placement.csv", "reverse-split": "program.txt", "cm": "mapping.json"}


def search(space: str, *more: str) -> int:
    return tune("--space", space, *ASKED[space], "--study", "s", "--quiet", *more)


@pytest.mark.parametrize("space", ASKED)
def test_a_folder_is_exported_into_again_and_nothing_of_the_users_is_lost(
    space: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert search(space, "--no-output") == ExitStatus.FEASIBLE
    for number, target in enumerate((None, None, *TARGETS.get(space, ()))):
        asked = ("--target", target) if target else ()
        assert tune("export", "s", "--output", "sketch", *asked) == ExitStatus.FEASIBLE, capsys.readouterr().err
        if number == 0:
            for name, text in MINE.items():
                (here / "sketch" / name).parent.mkdir(exist_ok=True)
                (here / "sketch" / name).write_text(text)
        assert {name: (here / "sketch" / name).read_text() for name in MINE} == MINE
        held = json.loads((here / "sketch" / MANIFEST).read_text())
        found = {str(p.relative_to("sketch")) for p in Path("sketch").rglob("*") if p.is_file()}
        assert {*held["files"], *MINE, MANIFEST} == found
        assert held["complete"]


@pytest.mark.parametrize("space", ASKED)
def test_a_file_in_the_way_is_said_before_the_search(
    space: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = NAMES.get(space, "model.c")
    (here / "out").mkdir()
    (here / "out" / name).write_text("mine")
    assert search(space, "--output", "out") == ExitStatus.BAD_INPUT
    message = capsys.readouterr().err.strip()
    assert name in message
    assert "no kilotune-manifest.json says that kilotune wrote it" in message
    assert len(message.splitlines()) == 1
    assert [(p.name, p.read_text()) for p in (here / "out").iterdir()] == [(name, "mine")]
    assert tune("list", "studies", "--json") == ExitStatus.FEASIBLE
    assert json.loads(capsys.readouterr().out) == []  # no study has begun


def test_what_comes_into_the_way_during_the_search_loses_no_search(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def check_and_wait(folder: ArtefactFolder, names: Collection[str]) -> None:
        monkeypatch.undo()
        monkeypatch.chdir(here)
        folder.path.mkdir()
        (folder.path / "placement.csv").write_text("mine")

    monkeypatch.setattr(ArtefactFolder, "check", check_and_wait)
    assert search("memory", "--output", "out", "--storage", "studies.db") == ExitStatus.BAD_INPUT
    message = capsys.readouterr().err.strip()
    assert "out/placement.csv is in the way" in message
    assert "The search is kept: `tune export s --output DIR` writes what it found." in message
    assert [path.name for path in (here / "out").iterdir()] == ["placement.csv"]
    assert tune("export", "s", "--output", "other", "--storage", "studies.db") == ExitStatus.FEASIBLE


def test_an_edited_program_is_kept(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert search("shiftry", "--output", "p") == ExitStatus.FEASIBLE
    (here / "p" / "model.c").write_text("int mine;\n")
    assert tune("export", "s", "--output", "p") == ExitStatus.FEASIBLE
    assert "p/model.c has been edited: what was there is kept as model.c.orig" in capsys.readouterr().err
    assert (here / "p" / "model.c.orig").read_text() == "int mine;\n"
    assert "predict" in (here / "p" / "model.c").read_text()


@pytest.mark.parametrize("spelling", [".", "../here", "link", "hard"])
def test_an_output_folder_beside_the_input(
    spelling: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "here").mkdir()
    monkeypatch.chdir(here / "here")
    Path("placement.csv").write_text(BUFFERS)
    Path("link").symlink_to(".")
    Path("hard").mkdir()
    Path("hard/placement.csv").hardlink_to("placement.csv")
    asked = ("--space", "memory", "--input", "placement.csv", "--budget", "5trials", "--quiet")
    assert tune(*asked, "--output", spelling) == ExitStatus.BAD_INPUT
    assert "is read by this search, and would be overwritten" in capsys.readouterr().err
    assert Path("placement.csv").read_text() == Path("hard/placement.csv").read_text() == BUFFERS


@pytest.mark.parametrize(("command", "option"), [("tune", "--json"), ("compare", "--csv"), ("report", "--output")])
def test_a_result_never_replaces_what_was_read(
    command: str, option: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert search("memory", "--no-output") == ExitStatus.FEASIBLE
    compared = (
        "compare",
        "--space",
        "memory",
        "--strategies",
        "random",
        "--repeats",
        "1",
        "--budget",
        "2trials",
        "--quiet",
    )
    with sqlite3.connect("studies.db") as database:
        stored = list(database.iterdump())
    for place in ("in.csv", "studies.db"):
        run = {
            "tune": lambda place=place: search("memory", "--no-output", option, place),
            "compare": lambda place=place: tune(*compared, "--input", "in.csv", option, place),
            "report": lambda place=place: tune("report", "s", option, place),
        }[command]
        assert run() == ExitStatus.BAD_INPUT
        assert f"{option} {place}: {place} is read by this search, and would be overwritten" in (
            capsys.readouterr().err.replace(f", which is the same file as {here / place},", "")
        )
    assert (here / "in.csv").read_text() == BUFFERS
    with sqlite3.connect("studies.db") as database:
        assert list(database.iterdump()) == stored


def test_a_report_is_written_through_no_link(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert search("memory", "--no-output") == ExitStatus.FEASIBLE
    (here / "victim").write_text("precious")
    (here / "r.html.partial").symlink_to("victim")
    assert tune("report", "s", "--output", "r.html") == ExitStatus.FEASIBLE
    (here / "link.html").symlink_to("victim")
    assert tune("report", "s", "--output", "link.html") == ExitStatus.BAD_INPUT
    assert "link.html is a symbolic link to victim" in capsys.readouterr().err
    assert (here / "victim").read_text() == "precious"
    assert "<html" in (here / "r.html").read_text()
    assert not (here / "r.html").is_symlink()


def test_all_trials_go_into_a_new_file_only(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert search("memory", "--no-output") == ExitStatus.FEASIBLE
    (here / "victim").write_text("precious")
    (here / "t.log.partial").symlink_to("victim")
    (here / "dangling.log").symlink_to("nowhere")
    before = sorted(path.name for path in here.iterdir())
    assert tune("export", "s", "--to", "optuna", "--output", "t.log") == ExitStatus.FEASIBLE
    for name in ("t.log", "dangling.log", "in.csv"):
        assert tune("export", "s", "--to", "optuna", "--output", name) == ExitStatus.BAD_INPUT
        assert "exists already" in capsys.readouterr().err
    assert (here / "victim").read_text() == "precious"
    assert sorted(path.name for path in here.iterdir()) == sorted([*before, "t.log"])


def test_two_results_in_one_file_are_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("compare", "--space", "memory", "--strategies", "random", "--repeats", "1", "--budget", "2trials")
    assert tune(*asked, "--json", "r", "--csv", "./r") == ExitStatus.BAD_INPUT
    assert "would both go to" in capsys.readouterr().err


def own_input(space: str, here: Path) -> str:
    """A file or a folder of the user's, which can be moved."""
    if space in ("seedot", "shiftry"):
        shutil.copytree(model_path("protonn-digits"), here / "mine")
        return "mine"
    if space == "cm":
        import onnx

        onnx.save(MADE["lenet5"](), here / "net.onnx")
        return "net.onnx"
    return ASKED[space][1]


@pytest.mark.parametrize("space", ASKED)
def test_a_study_goes_on_where_its_input_was_moved_to(
    space: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = own_input(space, here)
    asked = (
        "--space",
        space,
        "--input",
        name,
        "--strategy",
        "random",
        "--budget",
        "5trials",
        "--study",
        "s",
        "--quiet",
    )
    assert tune(*asked, "--no-output") == ExitStatus.FEASIBLE
    (here / "moved").mkdir()
    shutil.move(name, f"moved/{name}")
    again = ("resume", "s", "--budget", "5trials", "--no-output", "--json", "r.json")
    assert tune(*again) == ExitStatus.BAD_INPUT
    assert "if it was moved, `tune resume s --input PLACE` goes on" in capsys.readouterr().err
    assert tune(*again, "--input", f"moved/{name}") == ExitStatus.FEASIBLE
    assert json.loads((here / "r.json").read_text())["evaluations"] > 5
    assert tune(*again) == ExitStatus.FEASIBLE, "the study knows the new place"
    assert json.loads((here / "r.json").read_text())["input"] == str(here / "moved" / name)


def test_another_input_is_refused_and_both_are_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert search("memory", "--no-output") == ExitStatus.FEASIBLE
    (here / "other.csv").write_text(BUFFERS.replace(",4\n", ",5\n"))
    assert tune("resume", "s", "--input", "other.csv", "--no-output") == ExitStatus.BAD_INPUT
    message = capsys.readouterr().err
    assert str(here / "in.csv") in message
    assert f"{here / 'other.csv'} has another fingerprint" in message
    assert tune("resume", "s", "--input", "nowhere.csv", "--no-output") == ExitStatus.BAD_INPUT
    assert tune("resume", "s", "--budget", "2trials", "--no-output", "--quiet") == ExitStatus.FEASIBLE


def test_a_model_folder_is_no_place_for_its_program(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(model_path("worked-example"), here / "mine")
    before = {path.name: path.read_bytes() for path in (here / "mine").iterdir()}
    asked = ("--space", "shiftry", "--input", "mine", "--budget", "5trials", "--output", "mine")
    assert tune(*asked) == ExitStatus.BAD_INPUT
    assert "mine already holds" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in (here / "mine").iterdir()} == before
