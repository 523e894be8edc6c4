"""The command that a report prints asks for the same study again."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from kilotune.evaluators.devices import find_device
from kilotune.experiments.cli import cli
from kilotune.experiments.report.command import command_line, described_device
from kilotune.experiments.requests.request import TuneRequest
from kilotune.experiments.studies.request_parsing import given_options, request_from

COMMANDS = (
    "--space memory",
    "--space memory --capacity 4096 --seed 7 --strategy cp",
    "--space memory --bank sram=2KiB:0.5 --bank flash:2:read-only --migration-price 1.5 --moves 2",
    "--space memory --input fastgrnn16-digits",
    "--space shiftry --input protonn-digits --device uno --limit flash=4KiB --limit latency=20ms --objective latency",
    "--space shiftry --device uno",
    "--space shiftry --drop 0 --rounding floor --accumulator-bits 32 --no-in-place --limit ram=300",
    "--space seedot --device uno --level O2 --limit cycles=100000 --loss 0.5",
    "--space reverse-split --input sobel --target auke --registers 4 --depth 6 --objective transfers",
    "--space cm --hardware ring-64 --strict",
    "--space cm --input lenet5 --image 1x28x28",
)


def asked(command: str) -> TuneRequest:
    given = cli.make_context("tune", shlex.split(command)).params
    return request_from(
        given["space"],
        input=given["input_"],
        strategy=given["strategy"],
        seed=given["seed"],
        limits=given["limits"],
        device=given["device"],
        objective=given["objective"],
        options=given_options(given),
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_asks_the_same_again(command: str) -> None:
    request = asked(command)
    written = command_line(request, "90s,500trials")
    assert written.startswith("tune --space ")
    assert "--budget 90s,500trials" in written
    assert asked(written.removeprefix("tune ")) == request


def test_bundled_inputs_go_by_their_names_and_defaults_stay_out() -> None:
    assert command_line(asked("--space memory"), "unlimited") == (
        "tune --space memory --input fastgrnn-digits --strategy exhaustive"
    )
    written = command_line(asked("--space shiftry --device uno --drop 2.0"), "60s")
    assert "--limit" not in written
    assert "--drop" not in written
    assert "/" not in written


def test_a_device_of_ones_own_is_written_out(tmp_path: Path) -> None:
    """A study keeps what the file said, not where it was: with what the report shows the command works anywhere."""
    described = find_device("uno").as_json() | {"name": "my board", "flash_bytes": 9000}
    path = tmp_path / "elsewhere.json"
    path.write_text(json.dumps(described))
    request = asked(f"--space shiftry --device {path}")
    written, shown = command_line(request, "60s"), described_device(request)
    assert shown is not None
    assert shown[0] == "my-board.json"
    assert "--device my-board.json" in written
    (tmp_path / shown[0]).write_text(shown[1])
    assert asked(written.removeprefix("tune ").replace(shown[0], str(tmp_path / shown[0]))) == request
    assert described_device(asked("--space shiftry --device uno")) is None


def test_a_file_goes_by_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is read in other folders than the one where it was written."""
    (tmp_path / "mine.csv").write_text("id,lower,upper,size\na,0,4,10\n")
    monkeypatch.chdir(tmp_path)
    written = command_line(asked("--space memory --input mine.csv"), "60s")
    assert f"--input {tmp_path / 'mine.csv'}" in written
