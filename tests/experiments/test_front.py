"""A front as a user asks for it: `--front`, its table, any point of it exported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kilotune.experiments.cli import main
from kilotune.experiments.commands.exit_status import ExitStatus
from kilotune.experiments.problems.fixed_point.problem import command_options
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.search.hypervolume import hypervolume

ASKED = (
    "--space",
    "shiftry",
    "--input",
    "protonn-cancer",
    "--narrow",
    "--budget",
    "700trials",
    "--study",
    "s",
    "--no-output",
)


def tune(storage: Path, *arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main([*arguments, "--storage", str(storage)])
    return int(stopped.value.code or 0)


def test_a_front_is_shown_stored_and_exported_point_by_point(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage, result = tmp_path / "s.db", tmp_path / "r.json"
    assert tune(storage, *ASKED, "--front", "--json", str(result)) == 0
    shown, held = capsys.readouterr().out, json.loads(result.read_text())
    assert held["strategy"] == "front"
    assert [objective["metric"] for objective in held["objectives"]] == ["flash_bytes", "expected_flips"]
    points = [(p["metrics"]["flash_bytes"], p["metrics"]["expected_flips"]) for p in held["front"]]
    assert points == sorted(points)
    assert points == sorted(points, key=lambda point: -point[1])
    assert len(points) > 5
    covered = 100 * hypervolume(points, (870.0, 0.02 * 380))
    assert f"front: {len(points)} points, hypervolume {covered:.2f} % of what is better than flash bytes 870" in shown

    out = tmp_path / "out"
    assert tune(storage, "export", "s", "--point", "3", "--output", str(out)) == 0
    exported = json.loads((out / "decisions.json").read_text())
    assert held["front"][2]["assignment"] in exported.values()
    assert held["front"][2]["assignment"] != held["best"]["assignment"]
    assert (
        tune(storage, "export", "s", "--point", str(len(points) + 1), "--output", str(tmp_path / "no"))
        == ExitStatus.BAD_INPUT
    )
    assert f"The front of study 's' has {len(points)} points" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--space", "shiftry", "--front", "speed"),
            "against memory, flash, linked, ram, total-ram, cycles, latency, bops, each at most once; found speed",
        ),
        (("--space", "shiftry", "--front", "cycles"), "needs --device"),
        (("--space", "shiftry", "--front", "--objective", "bops"), "no objective besides"),
        (("--space", "seedot", "--front"), "expected the space shiftry, found seedot"),
        (("--space", "shiftry", "--strategy", "front"), "as shiftry does with --front"),
    ],
)
def test_what_cannot_be_had_is_said(
    arguments: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = (*arguments, "--input", "protonn-cancer", "--budget", "5trials", "--no-output")
    assert tune(tmp_path / "s.db", *asked) == ExitStatus.BAD_INPUT
    assert said in capsys.readouterr().err


def test_a_request_keeps_what_was_asked() -> None:
    request = request_from("shiftry", input="protonn-cancer", options={"front": "flash,ram"})
    assert request.options["front"] == ["flash", "ram"]
    assert request.strategy == "front"
    assert command_options(request.options).given["front"] == "flash,ram"
    assert command_options({**request.options, "front": []}).given["front"] is None


def test_a_front_of_hardware_is_shown_point_by_point(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no reference point: how much of what it covers is not said."""
    result = tmp_path / "r.json"
    asked = ("--space", "fpga", "--input", "worked-example", "--budget", "12trials", "--place", "0", "--no-output")
    assert tune(tmp_path / "s.db", *asked, "--objective", "front", "--json", str(result)) == 0
    shown, points = capsys.readouterr().out, json.loads(result.read_text())["front"]
    assert len(points) > 2
    assert f"front: {len(points)} points" in shown
    assert "hypervolume" not in shown
    rows = [line.replace("│", " ").split() for line in shown.splitlines()]
    for number, point in enumerate(points, 1):
        metrics = point["metrics"]
        assert [str(number), f"{metrics['latency_us']:.4g}", f"{metrics['luts']:.0f}"] in rows
    assert tune(tmp_path / "s.db", *asked) == 0
    assert "front:" not in capsys.readouterr().out
