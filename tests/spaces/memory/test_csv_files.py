"""Reading MiniMalloc's CSV: what it takes, what it refuses and how it says so; writing placements."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from kilotune.codegen.diagnostics import InputError
from kilotune.experiments.cli import main
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.spaces.memory.bounds import largest_live_sum
from kilotune.spaces.memory.csv_files import read_instance
from kilotune.spaces.memory.instance import Buffer, Instance

MISTAKES = {
    "id twice": ("id,lower,upper,size\na,0,1,4\na,1,2,4\n", ("in.csv:3:1:", "'a' of line 2")),
    "upper below lower": ("id,lower,upper,size\na,3,1,4\n", ("in.csv:2:3:", "upper above lower = 3", "found 1")),
    "empty range": ("id,lower,upper,size\na,1,1,4\n", ("in.csv:2:3:", "found 1")),
    "negative size": ("id,lower,upper,size\na,0,1,-4\n", ("in.csv:2:4:", "found -4")),
    "missing column": ("id,lower,size\na,0,4\n", ("in.csv:1:1:", "id,lower,upper,size")),
    "optional column twice": (
        "id,lower,upper,size,alignment,alignment\na,0,1,4,1,8\n",
        ("in.csv:1:1:", "one column 'alignment'", "found 2"),
    ),
    "no integer": ("id,lower,upper,size\na,0,1,4.5\n", ("in.csv:2:4:", "an integer", "'4.5'")),
    "missing value": ("id,lower,upper,size\na,0,1\n", ("in.csv:2:1:", "4 values", "found 3")),
    "alignment of nothing": ("id,lower,upper,size,alignment\na,0,1,4,0\n", ("in.csv:2:5:", "found 0")),
    "size beyond any machine": (f"id,lower,upper,size\na,0,1,{1 << 62}\n", ("in.csv:2:4:",)),
    "after an id of two lines": ('id,lower,upper,size\n"a\nb",0,1,4\nc,0,1,x\n', ("in.csv:4:4:", "an integer", "'x'")),
    "an id of two lines twice": ('id,lower,upper,size\n"a\nb",0,1,4\n"a\nb",0,1,4\n', ("in.csv:4:1:", "of line 2")),
    "empty file": ("", ("in.csv:1:1:", "found nothing")),
}


@pytest.fixture
def tune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("KILOTUNE_STORAGE", str(tmp_path / "studies.db"))
    monkeypatch.chdir(tmp_path)

    def run(text: str, *arguments: str) -> tuple[int, str, str]:
        Path("in.csv").write_text(text, encoding="utf-8", newline="")
        with pytest.raises(SystemExit) as end:
            main(["--space", "memory", "--input", "in.csv", "--output", "there", *arguments])
        captured = capsys.readouterr()
        return int(end.value.code or 0), captured.out, captured.err.strip()

    return run


@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_mistake_at_a_time(mistake: str, tune) -> None:  # type: ignore[no-untyped-def]
    text, said = MISTAKES[mistake]
    status, out, message = tune(text)
    assert status == ExitStatus.BAD_INPUT
    assert out == ""
    assert len(message.splitlines()) == 1, message
    for words in said:
        assert words in message
    assert not Path("there").exists()


def test_a_capacity_below_the_bound_names_the_point_and_the_buffers(tune) -> None:  # type: ignore[no-untyped-def]
    status, message, _ = tune("id,lower,upper,size\na,0,5,4\nb,3,9,6\nc,8,9,1\n", "--capacity", "9")
    assert status == ExitStatus.INFEASIBLE
    assert "at program point 3 the 2 buffers b (6), a (4) are live together and take 10 bytes" in message


def test_a_capacity_that_is_proved_to_do_at_once_blames_no_budget(tune) -> None:  # type: ignore[no-untyped-def]
    """The proof comes before the procedure's turn."""
    status, said, _ = tune("id,lower,upper,size\na,0,5,4\n", "--capacity", "100000GiB", "--budget", "30s")
    assert status == ExitStatus.FEASIBLE
    assert "did not end within the budget" not in said


def test_other_bad_usage(tune) -> None:  # type: ignore[no-untyped-def]
    assert "is no size" in tune("id,lower,upper,size\n", "--capacity", "much")[2]
    assert "There is no strategy" in tune("id,lower,upper,size\n", "--strategy", "magic")[2]


@pytest.mark.parametrize("strategy", ["exhaustive", "cp", "greedy", "random", "tpe"])
def test_no_buffers_need_no_bytes(strategy: str, tune) -> None:  # type: ignore[no-untyped-def]
    status, _, message = tune("id,lower,upper,size\n", "--strategy", strategy, "--budget", "2s")
    assert status == ExitStatus.FEASIBLE, message
    assert Path("there/placement.csv").read_text() == "id,lower,upper,size,alignment,offset\n"


def test_the_bound_is_a_sentence_for_any_number_of_buffers() -> None:
    one = Instance("one", (Buffer("a", 2, 4, 3),))
    assert largest_live_sum(Instance("none", ())).sentence() == "no buffer takes any byte"
    assert largest_live_sum(one).sentence() == "at program point 2 the buffer a (3) is live and takes 3 bytes"


def test_moves_are_written_and_do_not_outlive_their_placement(tune) -> None:  # type: ignore[no-untyped-def]
    rows = [(2, 4, 1), (0, 2, 2), (4, 6, 2), (0, 5, 1), (3, 5, 2), (0, 1, 2), (1, 4, 1), (1, 3, 1)]
    text = "id,lower,upper,size\n" + "".join(f"b{i},{a},{b},{size}\n" for i, (a, b, size) in enumerate(rows))
    assert tune(text, "--capacity", "5", "--migration-price", "1")[0] == ExitStatus.FEASIBLE
    header, move = Path("there/migrations.csv").read_text().splitlines()
    assert header == "point,id,bank,source,target,size"
    assert move.endswith(",1")
    assert tune(text)[0] == ExitStatus.FEASIBLE
    assert sorted(path.name for path in Path("there").iterdir()) == [
        *("kilotune-manifest.json", "placement.csv", "placement.h", "placement.svg")
    ]


def test_the_bound_over_banks_is_said_in_full(tune) -> None:  # type: ignore[no-untyped-def]
    out = tune("id,lower,upper,size\na,0,3,1234567\n", "--bank", "ram", "--bank", "far:2")[1]
    assert "costs less than 1234567." in out


def test_brackets_in_names_are_no_markup(tune) -> None:  # type: ignore[no-untyped-def]
    status, out, message = tune("id,lower,upper,size\n[/b],0,3,10\n[red]x,1,2,5\n")
    assert status == ExitStatus.FEASIBLE, message
    assert "[/b] (10), [red]x (5)" in out


def test_spaces_aliases_and_further_columns(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("\ufeffid, start ,end,size,alignment,note\n a ,0, 2,3,4,hello\n\n")
    assert read_instance(file).buffers == (Buffer("a", 0, 2, 3, 4),)


def test_no_csv_at_all(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_bytes(b"id,\xff")
    with pytest.raises(InputError, match="UTF-8"):
        read_instance(file)


@pytest.mark.slow
def test_many_rows(tmp_path: Path) -> None:
    """What compares every row with every other one does not end."""
    file = tmp_path / "x.csv"
    file.write_text("id,lower,upper,size\n" + "".join(f"{i},{i},{i + 3},8\n" for i in range(200_000)))
    assert largest_live_sum(read_instance(file)).peak_bytes == 24


@pytest.mark.parametrize("name", ["two\nlines", "two\r\nlines", "a, b", 'say "a"', "page\x0cbreak", "next\x85line"])
def test_placements_name_buffers_as_the_input_does(name: str, tune) -> None:  # type: ignore[no-untyped-def]
    quoted = name.replace('"', '""')
    status, _, message = tune(f'id,lower,upper,size\n"{quoted}",0,1,4\nother,0,1,4\n', "--budget", "2s")
    assert (status, message) == (ExitStatus.FEASIBLE, "")
    with Path("there/placement.csv").open(newline="", encoding="utf-8") as stream:
        assert {row["id"] for row in csv.DictReader(stream)} == {name, "other"}
