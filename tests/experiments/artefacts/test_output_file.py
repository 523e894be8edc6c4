"""Files for results: whole or not at all, and nothing in their place that is no file."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from kilotune.experiments.artefacts import whole_file
from kilotune.experiments.artefacts.output_file import check_output_file, write_output, write_whole


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    """The same rule keeps /dev/null from becoming a file for whoever may rename in /dev."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    write_output(str(pipe), "result\n")
    assert pipe.is_fifo()
    reader.join(10)
    assert read == ["result\n"]


def test_a_link_is_refused_before_the_work_and_after_it(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "result.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("real/result.csv")
    with pytest.raises(ValueError, match=r"--csv .*link\.csv is a symbolic link to real/result\.csv"):
        check_output_file("--csv", str(tmp_path / "link.csv"))
    with pytest.raises(ValueError, match="neither followed nor replaced"):
        write_output(str(tmp_path / "link.csv"), "new")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real" / "result.csv").read_text() == "old"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["link.csv", "real", "result.csv"]


def test_dev_stdout_goes_on_where_the_shell_has_redirected_it(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w", encoding="utf-8") as out:
        out.write("before\n")
        out.flush()
        write_output(f"/dev/fd/{out.fileno()}", "result\n")
        out.seek(0, os.SEEK_END)
        out.write("after\n")
    assert (tmp_path / "out").read_text() == "before\nresult\nafter\n"


def test_no_folder_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to("gone/result.csv")
    with pytest.raises(ValueError, match="is a symbolic link to gone"):
        check_output_file("--csv", str(tmp_path / "link.csv"))
    with pytest.raises(ValueError, match="expected a file in a folder that exists"):
        check_output_file("--csv", str(tmp_path / "gone" / "result.csv"))


def test_what_was_there_is_kept_and_what_kilotune_wrote_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KILOTUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "notes.json"
    path.write_text("years of work")
    path.chmod(0o600)
    write_whole(path, "first")
    assert "kept as notes.json.orig" in capsys.readouterr().err
    assert (path.read_text(), (tmp_path / "notes.json.orig").read_text()) == ("first", "years of work")
    assert path.stat().st_mode & 0o777 == 0o600
    write_whole(Path("notes.json"), "second")  # ours, by another spelling
    assert (path.read_text(), capsys.readouterr().err) == ("second", "")
    path.write_text("second, with remarks")
    write_whole(path, "third")
    assert (tmp_path / "notes.json.orig.2").read_text() == "second, with remarks"
    assert sorted(found.name for found in tmp_path.glob("*")) == [
        *("cache", "notes.json", "notes.json.orig", "notes.json.orig.2")
    ]


def test_an_empty_file_has_nothing_to_lose(tmp_path: Path) -> None:
    """As mktemp makes them."""
    path = tmp_path / "made-by-mktemp"
    path.touch()
    write_whole(path, "result")
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_lost_receipts_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KILOTUNE_CACHE", "/dev/null/no-folder")
    for text in ("first", "second"):
        write_whole(tmp_path / "r.json", text)
    assert (tmp_path / "r.json.orig").read_text() == "first"
    assert (tmp_path / "r.json").read_text() == "second"


def test_nothing_planted_is_written_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither under the name of old, nor under one that was somehow guessed."""
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "r.html.partial").symlink_to("victim")
    write_whole(tmp_path / "r.html", "page")
    monkeypatch.setattr(whole_file, "new_token", lambda: "0" * 32)
    whole_file.partial_file(tmp_path, "0" * 32).symlink_to("victim")
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "s.html", "page")
    assert (tmp_path / "victim").read_text() == "precious"
    assert whole_file.partial_file(tmp_path, "0" * 32).is_symlink()


@pytest.mark.parametrize("spelling", ["in.csv", "./in.csv", "sub/../in.csv", "hard.csv"])
def test_an_input_is_refused_by_every_name(spelling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "in.csv").write_text("id,lower,upper,size\n")
    (tmp_path / "hard.csv").hardlink_to("in.csv")
    with pytest.raises(ValueError, match="would be overwritten"):
        check_output_file("--json", spelling, (tmp_path / "in.csv",))


def test_a_file_that_comes_while_this_one_is_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, link = tmp_path / "r.json", os.link

    def slow(*names: object, **options: object) -> None:
        path.write_text("a user's")
        link(*names, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(whole_file.os, "link", slow)
    with pytest.raises(FileExistsError):
        whole_file.write_new(path, b"ours")
    assert path.read_text() == "a user's"
    assert [found.name for found in tmp_path.iterdir()] == ["r.json"]
