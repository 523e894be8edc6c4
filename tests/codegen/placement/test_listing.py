"""`tune list buffers`."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kilotune.codegen.buffers import buffers
from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.live_ranges import peak_bytes
from kilotune.experiments.cli import cli
from kilotune.experiments.models.catalogue import model_path
from kilotune.experiments.problems.fixed_point.buffers import as_instance


def listed(*options: str) -> str:
    result = CliRunner().invoke(cli, ["list", "buffers", *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("model", ["fastgrnn16-digits", "lenet-digits", "worked-example"])
def test_csv_is_minimallocs(model: str, bits: int) -> None:
    rows = list(csv.DictReader(io.StringIO(listed("--input", model, "--bits", str(bits)))))
    assert list(rows[0]) == ["id", "lower", "upper", "size"]
    program = load_bundle(model_path(model)).program
    live = [sum(int(r["size"]) for r in rows if int(r["lower"]) <= point < int(r["upper"])) for point in range(1, 100)]
    sizes = {
        v.name: v.size * (2 if v.shape == () and model != "worked-example" else bits // 8) for v in program.variables
    }
    assert max(live) == peak_bytes(program, sizes)


def test_json_says_what_may_be_overwritten() -> None:
    rows = json.loads(listed("--input", "fastgrnn16-digits", "--bits", "8", "--json"))
    by_id = {row["id"]: row for row in rows}
    assert by_id["H"] == {"id": "H", "lower": 1, "upper": 16, "size": 16, "alignment": 1, "may_take": ["t5", "t9"]}
    assert by_id["update"]["may_take"] == ["t4"]
    assert by_id["t12"]["size"] == 2  # the label


def test_the_widths_of_a_study(tmp_path: Path) -> None:
    storage = ["--storage", str(tmp_path / "studies.db")]
    run = [
        "--space",
        "shiftry",
        "--input",
        "worked-example",
        "--budget",
        "40trials",
        "--study",
        "s",
        "--no-output",
        "--quiet",
    ]
    assert CliRunner().invoke(cli, [*run, *storage], catch_exceptions=False).exit_code == 0
    rows = json.loads(listed("--study", "s", *storage, "--json"))
    program = load_bundle(model_path("worked-example")).program
    assert [row["id"] for row in rows] == [b.id for b in buffers(program, {v.name: 8 for v in program.variables})]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["list", "models", "--bits", "8"], "go with `tune list buffers` only"),
        (["list", "buffers", "--study", "s", "--bits", "8"], "no --bits"),
        (["list", "buffers", "--bits", "12"], "12"),
    ],
)
def test_bad_usage_is_a_sentence(options: list[str], what: str) -> None:
    result = CliRunner().invoke(cli, options)
    assert result.exit_code != 0
    assert what in result.output


def test_buffers_are_an_instance_of_the_memory_space() -> None:
    program = load_bundle(model_path("fastgrnn16-digits")).program
    made = as_instance("fastgrnn", buffers(program, {v.name: 16 for v in program.variables}))
    assert {b.alignment for b in made.buffers} == {2}
    assert sum(b.size for b in made.buffers if b.lower <= 9 < b.upper) == 128
