"""What a command cannot do is known before it makes anything: no study, no folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from kilotune import tune
from kilotune.experiments.cli import main
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.search.comparison_store import comparisons
from kilotune.search.store import Store


@pytest.mark.parametrize(
    "arguments",
    [
        ("--json", "nowhere/result.json"),
        ("--json", "."),
        ("--output", "file"),
        ("--output", "file/below"),
        ("--time-limit", "soon"),
        ("--time-limit", "-1s"),
        ("--stop", "sometimes"),
    ],
)
@pytest.mark.parametrize("resumed", [False, True])
def test_no_study_is_left_behind(
    resumed: bool,
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KILOTUNE_STORAGE", "studies.db")
    Path("file").write_text("mine")
    if resumed:
        with pytest.raises(SystemExit):
            main(["--space", "memory", "--study", "first", "--budget", "1trials", "--no-output", "--quiet"])
    before = Store("studies.db").studies() if resumed else []
    command = ["resume", "first"] if resumed else ["--space", "memory"]
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main([*command, "--budget", "1trials", *arguments])
    assert end.value.code == ExitStatus.BAD_INPUT
    said = capsys.readouterr().err
    assert arguments[1] in said
    assert arguments[0] in said or arguments[0] == "--output"
    assert Store("studies.db").studies() == before
    assert Path("file").read_text() == "mine"
    assert not Path("out").exists()


def test_a_folder_for_artefacts_that_cannot_be_made_leaves_no_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out").write_text("mine")
    with pytest.raises(SystemExit) as end:
        main(["--space", "memory", "--budget", "1trials", "--storage", "studies.db"])
    assert end.value.code == ExitStatus.BAD_INPUT
    assert Store("studies.db").studies() == []


def test_the_result_may_not_be_the_database_that_is_made_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["--space", "memory", "--budget", "1trials", "--storage", "studies.db", "--json", "./studies.db"])
    assert end.value.code == ExitStatus.BAD_INPUT
    assert Store("studies.db").studies() == []


@pytest.mark.parametrize(
    "command",
    [
        ("--space", "memory", "--no-output"),
        ("--space", "cm", "--input", "lenet5", "--no-output"),
        ("resume", "first", "--no-output"),
        ("compare", "--space", "memory", "--strategies", "greedy,random", "--repeats", "1", "--name", "compared"),
    ],
)
def test_a_compiler_that_is_none_leaves_no_study(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even where the search would have come to compiled code only after its first trials."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KILOTUNE_STORAGE", "studies.db")
    with pytest.raises(SystemExit):
        main(["--space", "memory", "--study", "first", "--budget", "1trials", "--no-output", "--quiet"])
    before = Store("studies.db").studies()
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(SystemExit) as end:
        main([*command, "--budget", "3trials"])
    assert end.value.code == ExitStatus.BAD_INPUT
    assert "CC=no-such-compiler: expected a C compiler" in capsys.readouterr().err
    assert Store("studies.db").studies() == before
    assert comparisons(Store("studies.db")) == []


def test_a_compiler_that_is_none_leaves_no_study_of_the_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    database = tmp_path / "studies.db"
    with pytest.raises(ValueError, match="CC=no-such-compiler: expected a C compiler"):
        tune("memory", budget="3trials", study="badcc", storage=database)
    assert Store(str(database)).studies() == []
