"""Files for results: whole or not at all, and nothing in their place that is no file."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from kilotune.experiments.output_file import check_output_file, write_output


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


def test_a_link_stays_a_link_and_what_it_points_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "result.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("real/result.csv")
    check_output_file("--csv", str(tmp_path / "link.csv"))
    write_output(str(tmp_path / "link.csv"), "new \u03b1")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real" / "result.csv").read_text(encoding="utf-8") == "new \u03b1"
    assert sorted(path.name for path in (tmp_path / "real").iterdir()) == ["result.csv"]


def test_dev_stdout_goes_on_where_the_shell_has_redirected_it(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w", encoding="utf-8") as out:
        out.write("before\n")
        out.flush()
        write_output(f"/dev/fd/{out.fileno()}", "result\n")
        out.seek(0, os.SEEK_END)
        out.write("after\n")
    assert (tmp_path / "out").read_text() == "before\nresult\nafter\n"


def test_a_link_into_no_folder_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to("gone/result.csv")
    with pytest.raises(ValueError, match="expected a file in a folder that exists"):
        check_output_file("--csv", str(tmp_path / "link.csv"))
