"""What a shell offers behind `tune`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from kilotune.codegen.cm.hardware import shipped_hardware
from kilotune.experiments.cli import cli
from kilotune.experiments.models.catalogue import model_names
from kilotune.experiments.problems.registry import entries
from kilotune.search.comparison_store import save_comparison
from kilotune.search.store import Store
from kilotune.search.stored_rows import StudyRow
from kilotune.search.strategy import strategy_names


def offered(*words: str) -> list[str]:
    """What is offered for the last word, which is not complete."""
    found = ShellComplete(cli, {}, "tune", "_TUNE_COMPLETE").get_completions(list(words[:-1]), words[-1])
    return [item.value for item in found if item.type == "plain"]


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with two studies of a user's, a comparison, and a run of it."""
    path = tmp_path / "studies.db"
    store = Store(str(path))
    for name, request in (("older", {}), ("newer", {}), ("run-of-it", {"comparison": "tables"})):
        store.create(StudyRow(name, "memory", "f", "local", 0, request=request))
    save_comparison(store, "tables", {})
    store.close()
    monkeypatch.setenv("KILOTUNE_STORAGE", str(path))
    return path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("re",), ["report", "resume"]),
        (("--space", ""), [entry.space for entry in entries()]),
        (("compare", "--space", "s"), ["seedot", "shiftry"]),
        (("--space=memory", "--strategy", ""), list(strategy_names())),
        (("compare", "--strategies", "tpe,cp,count"), ["tpe,cp,count_tpe"]),
        (("--input", ""), list(model_names())),
        (("--space", "shiftry", "--input", "bon"), ["bonsai-digits"]),
        (("--space", "cm", "--input", "resnet2"), ["resnet20", "resnet20-projected"]),
        (("--space", "reverse-split", "--input", "sob"), ["sobel", "sobel-pair"]),
        (("--space", "memory", "--input", "mini"), ["minimalloc-a"]),
        (("--device", "m"), ["mega", "mkr1000", "mps3"]),
        (("--space", "cm", "--hardware", "mesh"), [name for name in shipped_hardware() if name.startswith("mesh")]),
        (("compare", "--suite", "f"), ["five-spaces"]),
        (("list", "st"), ["strategies", "studies"]),
    ],
)
def test_names_that_are_bundled(words: tuple[str, ...], expected: list[str]) -> None:
    assert offered(*words) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("resume", ""), ["newer", "older"]),
        (("export", "o"), ["older"]),
        (("--study", "n"), ["newer"]),
        (("report", ""), ["newer", "older", "tables"]),
        (("compare", "--name", ""), ["tables"]),
    ],
)
def test_names_that_are_stored(storage: Path, words: tuple[str, ...], expected: list[str]) -> None:
    assert offered(*words) == expected
    elsewhere = storage.with_name("none.db")
    assert offered(words[0], "--storage", str(elsewhere), *words[1:]) == []
    assert not elsewhere.exists(), "a completion makes no database"


def test_files_where_no_name_begins_so() -> None:
    found = ShellComplete(cli, {}, "tune", "_TUNE_COMPLETE").get_completions(["--space", "shiftry", "--input"], "./my")
    assert [(item.type, item.value) for item in found] == [("file", "./my")]


def test_a_damaged_store_offers_nothing_and_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "studies.db").write_text("no database")
    monkeypatch.setenv("KILOTUNE_STORAGE", str(tmp_path / "studies.db"))
    assert offered("resume", "") == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_in_bash_as_documented() -> None:
    script = (
        'eval "$(_TUNE_COMPLETE=bash_source tune)"; COMP_WORDS=(tune --space shi); COMP_CWORD=2; _tune_completion tune; '
        'echo "${COMPREPLY[@]}"'
    )
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )
    assert done.stdout == "shiftry\n", done.stderr


@pytest.mark.parametrize(("shell", "said"), [("zsh", "#compdef tune"), ("fish", "complete --no-files --command tune")])
def test_scripts_of_other_shells(shell: str, said: str) -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "tune")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "_TUNE_COMPLETE": f"{shell}_source"},
    )
    assert said in done.stdout
