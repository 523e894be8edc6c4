"""A processor architecture is one folder: with `another_architecture/native` among them, everything knows it and nothing else changes."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from kilotune.codegen import ir
from kilotune.codegen.diagnostics import InputError
from kilotune.codegen.emit.c import emit_c
from kilotune.codegen.fixed.table import Column
from kilotune.evaluators import architectures
from kilotune.evaluators.architectures.registry import architecture_of, project_target
from kilotune.evaluators.devices import cost_table, find_device
from kilotune.evaluators.divergence import DivergenceError, count_events
from kilotune.evaluators.on_device import measure_checked, missing_tools
from kilotune.experiments.cli import cli
from tests.evaluators.devices.candidates import bundled

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.fixture(autouse=True)
def among_the_architectures(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(__file__).parent / "another_architecture"
    monkeypatch.setattr(architectures, "__path__", [*architectures.__path__, str(folder)])


def test_its_board_is_known_and_priced() -> None:
    device = find_device("bench")
    assert architecture_of(device.processor).name == "native"
    table = cost_table(device)
    assert table is not None
    assert table.cycles == {"program": 7.0}
    assert missing_tools(device) is None


def test_a_description_may_name_its_processor(tmp_path: Path) -> None:
    mine = {"name": "mine", "flash_bytes": 1, "ram_bytes": 1, "clock_hz": 1, "processor": "native"}
    (tmp_path / "mine.json").write_text(json.dumps(mine))
    assert find_device(str(tmp_path / "mine.json")).processor == "native"
    (tmp_path / "mine.json").write_text(json.dumps({**mine, "processor": "z80"}))
    with pytest.raises(InputError, match=r"native, .*or an AVR such as atmega328p, found 'z80'"):
        find_device(str(tmp_path / "mine.json"))


@pytest.mark.parametrize("name", ["fastgrnn16-digits", "mlp-diabetes"])
def test_programs_are_run_and_compared_there(name: str) -> None:
    candidate = bundled(name, seed=5)
    arguments = (candidate.source, candidate.batch, candidate.parameters, candidate.features, candidate.expected)
    measured = measure_checked(find_device("bench"), *arguments)
    assert measured.cycles == count_events(candidate.batch.program, candidate.source.unstored)
    assert measured.fits


def test_the_first_operation_that_differs_is_named() -> None:
    candidate = bundled("fastgrnn16-digits")
    operations = list(ir.operations(candidate.batch.program.body))
    stored = [i for i in range(len(operations)) if i not in candidate.source.unstored]
    row = next(i for i in stored if isinstance(operations[i], ir.Add))
    rows = candidate.batch.rows.copy()
    rows[0, row, Column.SHIFT_OUT] += 3
    source = emit_c(dataclasses.replace(candidate.batch, rows=rows), candidate.parameters)
    arguments = (source, candidate.batch, candidate.parameters, candidate.features, candidate.expected)
    with pytest.raises(DivergenceError, match=r"Add wrote .* \(sample \d+, native, -O2\)\.$"):
        measure_checked(find_device("bench"), *arguments, "-O2")


def test_the_command_line_knows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (line,) = [line for line in told("doctor").splitlines() if line.startswith("cc ")]
    assert line.endswith("programs for this machine are built")
    boards = json.loads(told("list", "devices", "--json"))
    assert [board["cost_table"] for board in boards if board["name"] == "bench"] == ["native"]
    assert "for this machine" in told("export", "--help")
    asked = ["--space", "seedot", "--input", "mlp-diabetes", "--budget", "3trials", "--device", "bench"]
    told(*asked, "--study", "s", "--storage", "s.db", "--no-output", "--json", "found.json", "--quiet")
    best = json.loads((tmp_path / "found.json").read_text())["best"]
    assert best["on_device"]["device"] == "bench"
    assert best["on_device"]["measured"]["cycles"] > 0
    told("export", "s", "--storage", "s.db", "--target", "native", "--output", "out")
    assert {path.name for path in Path("out").iterdir()} >= set(project_target("native").names)


def told(*arguments: str) -> str:
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code in (0, 1), done.output
    return done.output
