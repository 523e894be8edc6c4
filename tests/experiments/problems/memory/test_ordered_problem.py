"""`tune --space memory --order search`: from a network to an order of its operators and the addresses of its tensors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kilotune.codegen.tflite.model_file import read_model
from kilotune.experiments.cli import main
from kilotune.experiments.commands.exit_status import ExitStatus
from tests.codegen.tflite.models import MadeTensor, write_model
from tests.codegen.tflite.test_arena import branching
from tests.codegen.tflite.test_offline_plan import plans


@pytest.fixture
def gapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """x -> a (40) -> c (30), x -> b (10), both -> y; in the file b is computed before a shrinks to c."""
    monkeypatch.setenv("KILOTUNE_STORAGE", str(tmp_path / "studies.db"))
    monkeypatch.chdir(tmp_path)
    tensors = [MadeTensor(name, (16 * size,)) for name, size in (("x", 1), ("a", 40), ("b", 10), ("c", 30), ("y", 1))]
    operators = [((0,), (1,)), ((0,), (2,)), ((1,), (3,)), ((2, 3), (4,))]
    return write_model(tmp_path / "gapped.tflite", tensors, operators, (0,), (4,))


def tune(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    return int(end.value.code or 0)


def test_a_search_its_report_and_its_files(gapped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--space", "memory", "--input", str(gapped), "--order", "search", "--budget", "50trials", "--study", "s")
    assert tune(*asked, "--json", "r.json", "--output", "placed") == ExitStatus.FEASIBLE
    found = json.loads(Path("r.json").read_text())
    assert found["best"]["metrics"]["peak_bytes"] == found["bound"] == 16 * 71
    assert found["best"]["details"]["file_order_least_bytes"] == 16 * 80
    said = capsys.readouterr().out
    assert (
        "2 of 4 operators run at another step than in the file, in whose order no placement takes less than 1280"
        in said
    )
    assert Path("placed/order.csv").read_text().splitlines() == [
        "point,operator", "0,ADD 0", "1,ADD 2", "2,ADD 1", "3,ADD 3",
    ]  # fmt: skip
    lives = [line.split(",")[:4] for line in Path("placed/placement.csv").read_text().splitlines()[1:]]
    assert ["c", "1", "4", "480"] in lives
    assert ["x", "0", "3", "16"] in lives
    assert tune("report", "s", "--output", "report.html") == ExitStatus.FEASIBLE
    assert "in any order ADD 2 alone holds 1120 bytes in 2 tensors" in Path("report.html").read_text().replace(
        "In any", "in any"
    )
    assert tune("export", "s", "--output", "again") == ExitStatus.FEASIBLE
    assert Path("again/order.csv").read_text() == Path("placed/order.csv").read_text()


@pytest.mark.parametrize("strategy", ["random", "greedy", "local"])
def test_strategies_that_walk(gapped: Path, strategy: str) -> None:
    asked = ("--space", "memory", "--input", str(gapped), "--order", "search", "--strategy", strategy, "--quiet")
    assert tune(*asked, "--budget", "60trials", "--no-output", "--json", "r.json") == ExitStatus.FEASIBLE
    assert 16 * 71 <= json.loads(Path("r.json").read_text())["best"]["metrics"]["peak_bytes"] <= 16 * 81


def test_a_capacity_that_only_another_order_keeps(gapped: Path) -> None:
    asked = (
        "--space",
        "memory",
        "--input",
        str(gapped),
        "--capacity",
        str(16 * 71),
        "--budget",
        "50trials",
        "--no-output",
    )
    assert tune(*asked, "--order", "search", "--quiet") == ExitStatus.FEASIBLE
    assert tune(*asked, "--quiet") != ExitStatus.FEASIBLE


def test_what_has_no_operators_is_refused(gapped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("b.csv").write_text("id,lower,upper,size\na,0,1,4\n")
    for arguments, words in (
        (("--input", "b.csv"), "--order search needs the operators of a network"),
        (("--input", str(gapped), "--bank", "ram"), "--order search does not go with --bank"),
    ):
        assert tune("--space", "memory", *arguments, "--order", "search", "--no-output") == ExitStatus.BAD_INPUT
        said = capsys.readouterr().err.strip()
        assert words in said
        assert len(said.splitlines()) == 1


def test_the_exported_model_keeps_to_order_and_addresses(gapped: Path) -> None:
    """Read back: operators in the order of order.csv, and a plan with the offsets of placement.csv by the tensors' numbers."""
    asked = ("--space", "memory", "--input", str(gapped), "--order", "search", "--budget", "50trials", "--quiet")
    assert tune(*asked, "--output", "placed") == ExitStatus.FEASIBLE
    planned = read_model(Path("placed/planned.tflite"))
    assert [operator.writes for operator in planned.operators] == [(1,), (3,), (2,), (4,)]
    rows = [line.split(",") for line in Path("placed/placement.csv").read_text().splitlines()[1:]]
    offsets = {row[0]: int(row[5]) for row in rows}
    assert plans(Path("placed/planned.tflite").read_bytes()) == [[1, 1, 5, *(offsets[name] for name in "xabcy")]]
    assert "#define GAPPED_ARENA_BYTES 1136u" in Path("placed/placement.h").read_text()
    assert f"#define GAPPED_OFFSET_C {offsets['c']}u" in Path("placed/placement.h").read_text()


def test_no_plan_that_tflm_would_not_align(gapped: Path) -> None:
    odd = branching(gapped.parent / "odd.tflite")
    asked = ("--space", "memory", "--input", str(odd), "--alignment", "1", "--budget", "50trials", "--quiet")
    assert tune(*asked, "--output", "placed") == ExitStatus.FEASIBLE
    offsets = [int(line.split(",")[5]) for line in Path("placed/placement.csv").read_text().splitlines()[1:]]
    assert any(offset % 16 for offset in offsets)
    assert not Path("placed/planned.tflite").exists()
    assert Path("placed/placement.h").exists()
