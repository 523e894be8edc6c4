"""`tune --space reverse-split` as a user drives it: results, files, and one sentence for every mistake."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from kilotune.codegen.scamp.kernel import Kernel, KernelSet
from kilotune.codegen.scamp.text import parse_program
from kilotune.evaluators.scamp5.macro_check import check_macros
from kilotune.evaluators.scamp5.symbolic import prove
from kilotune.experiments.cli import main
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.papers.bar_chart import bar_chart_svg
from kilotune.experiments.problems.reverse_split.filters import FILTERS

pytestmark = pytest.mark.slow

SOBEL = [[1, 0, -1], [2, 0, -2], [1, 0, -1]]


def tune(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["--space", "reverse-split", "--budget", "3s", *arguments])
    return int(end.value.code or 0)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KILOTUNE_STORAGE", str(tmp_path / "studies.db"))
    return tmp_path


def write(place: Path, **content: object) -> None:
    (place / "kernel.json").write_text(json.dumps(content))


def test_a_run_writes_the_program_and_proves_it(place: Path) -> None:
    write(place, kernels=[SOBEL], target="auke", registers=4)
    status = tune("--input", "kernel.json", "--budget", "3s", "--json", "result.json", "--output", "made")
    assert status == ExitStatus.FEASIBLE
    result = json.loads((place / "result.json").read_text())
    assert set(result["best"]["artifacts"]) == {"program", "macros"}
    text = (place / "made" / "program.txt").read_text()
    program = prove(text, KernelSet((Kernel.of_rows(SOBEL),)).approximate(0).sums, 0)
    assert program.target == "auke"
    assert program.instructions == result["best"]["metrics"]["instructions"] >= 7
    assert len(program.registers) <= 4
    assert result["best"]["details"]["program"] == text.splitlines()
    assert result["best"]["details"]["microseconds"] == pytest.approx(0.2 * program.instructions)
    assert "scamp5_kernel_begin();" in (place / "made" / "program.cpp").read_text()
    assert not list(place.glob("made/*.partial"))


def test_eight_kernels_are_consumed_as_they_finish(place: Path) -> None:
    kernels = [[[1, 0, -1], [n % 2, n, 1]] for n in range(8)]
    write(place, kernels=kernels)
    assert tune("--input", "kernel.json", "--output", "made", "--quiet") == ExitStatus.FEASIBLE
    wanted = KernelSet(tuple(Kernel.of_rows(rows) for rows in kernels)).approximate(0).sums
    text = (place / "made" / "program.txt").read_text()
    program = prove(text, wanted, 0)
    assert len(program.read_after) == 8
    assert len(program.registers) <= 6
    source = (place / "made" / "program.cpp").read_text()
    assert check_macros(source, wanted, 0) == program.bus_transfers - sum("2x" in o.op for o in program.operations)
    assert source.count("consume(") == 8


def test_a_stored_program_is_exported_as_it_was_found(place: Path) -> None:
    write(place, kernels=[[[1, 1, 1]] * 4], registers=4)
    assert tune("--input", "kernel.json", "--study", "kept", "--output", "first", "--quiet") == ExitStatus.FEASIBLE
    with pytest.raises(SystemExit) as end:
        main(["export", "kept", "--output", "again"])
    assert not end.value.code
    assert (place / "again" / "program.txt").read_text() == (place / "first" / "program.txt").read_text()


@pytest.mark.parametrize(
    ("rows", "program"),
    [([[1]], []), ([[0, 0]], ["A = res()"]), ([[0, 0, 0]] * 3, ["A = res()"]), ([[-1]], ["B = neg(A)"])],
)
def test_trivial_kernels_have_trivial_programs(place: Path, rows: list[list[int]], program: list[str]) -> None:
    write(place, kernels=[rows])
    assert tune("--input", "kernel.json", "--json", "result.json", "--no-output", "--quiet") == ExitStatus.FEASIBLE
    best = json.loads((place / "result.json").read_text())["best"]
    assert best["details"]["program"][1:] == program


def test_a_weight_that_needs_more_depth_is_said(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(place, kernels=[[[0.3, 700]]], depth=2)
    assert tune("--input", "kernel.json", "--budget", "2s", "--no-output") == ExitStatus.FEASIBLE
    shown = " ".join(capsys.readouterr().out.split())
    assert (
        "approximated to multiples of 1/4: the largest error is 0.05 (0.3 at cell (0, 0) of kernel 1 becomes 0.25)"
        in shown
    )


@pytest.mark.parametrize(
    ("content", "options", "sentence"),
    [
        ({"kernels": [[]]}, (), "kernel 1: expected a list of rows with at least one weight, found []"),
        ({"kernels": [[[1], [2, 3]]]}, (), "kernel 1, row 2: expected 1 weight as in row 1, found 2"),
        ({"kernels": [[["north"]]]}, (), "found 'north'"),
        ({"kernels": [[[float("nan")]]]}, (), "found NaN"),
        ({"kernels": [[[0.01, 0.02]]]}, ("--depth", "3"), "kernel 1 vanishes at depth 3: its largest weight, 0.02,"),
        ({"kernels": [[[1]]], "registers": 0}, (), "registers: expected an integer from 1 to 6, found 0"),
        ({"kernels": [[[1]]]}, ("--registers", "0"), "'--registers': 0 is not in the range"),
        ({"kernels": [[[1, 1]]]}, ("--registers", "1"), "a kernel of 2 weights needs at least 2 registers, 1 given"),
        ({"kernels": [[[1]]]}, ("--limit", "ram=1KiB"), "do not go with the space reverse-split"),
        ({"kernels": [[[1]]]}, ("--capacity", "1KiB"), "--capacity does not go with the space reverse-split"),
    ],
)
def test_mistakes(
    place: Path,
    capsys: pytest.CaptureFixture[str],
    content: dict[str, object],
    options: tuple[str, ...],
    sentence: str,
) -> None:
    write(place, **content)
    assert tune("--input", "kernel.json", *options) == ExitStatus.BAD_INPUT
    errors = capsys.readouterr().err.strip()
    assert sentence in errors
    assert len(errors.splitlines()) == 1
    assert not (place / "out").exists()


def test_no_such_filter(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune("--input", "sobol") == ExitStatus.BAD_INPUT
    assert "a JSON file with kernels, kernels such as [[1, 0], [0, -1]], or one of sobel, " in capsys.readouterr().err


def test_well_known_filters_are_what_they_are_called() -> None:
    assert {f.kernels.exact_depth() for name, f in FILTERS.items() if name.startswith("box")} == {0}
    for name in ("gauss3", "gauss5-binomial", "binomial4", "identity", "sharpen"):
        assert sum(weight for _, weight in FILTERS[name].kernels.kernels[0].weights) == 1, name
    for name in ("sobel-pair", "prewitt-pair", "roberts-pair", "laplacian", "laplacian8"):
        for kernel in FILTERS[name].kernels.kernels:
            assert sum((weight for _, weight in kernel.weights), Fraction(0)) == 0, name
    assert len(FILTERS["box12"].kernels.kernels[0].weights) == 144
    across, down = FILTERS["sobel-pair"].kernels.kernels
    assert {(y, x): weight for (x, y), weight in across.weights} == {
        (-x, -y): weight for (x, y), weight in down.weights
    }
    assert [len(f.kernels.kernels) for f in (FILTERS["analognet2"], FILTERS["sobel"])] == [3, 1]


def test_bars_are_as_high_as_their_values() -> None:
    document = bar_chart_svg("t", "uJ", ["a", "b"], {"one": [1.0, 2.0], "two": [None, 4.0]})
    heights = [
        float(part.split('"')[1]) for part in document.split("height=")[1:] if "<title>" in part.partition("</rect>")[0]
    ]
    assert heights == [75.0, 150.0, 300.0]
    assert parse_program("# auke; image in A; results in A").instructions == 0
