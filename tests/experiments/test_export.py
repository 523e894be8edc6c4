"""`tune export` for every target, and the properties of a program that a study sets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kilotune.experiments.cli import main
from tests.evaluators.devices.toolchains import needs_avr

STUDY = (
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
)


def tune(storage: Path, *arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main([*arguments, "--storage", str(storage)])
    return int(stopped.value.code or 0)


@pytest.mark.parametrize(
    ("target", "holds"),
    [
        ("c", ["Makefile", "main.c", "model.c"]),
        ("arduino", ["out.ino", "samples.h", "model.c"]),
        ("platformio", ["platformio.ini", "src/main.cpp", "lib/model/model.c"]),
        ("zephyr", ["CMakeLists.txt", "prj.conf", "src/main.c", "src/model.c"]),
        ("cmsis-pack", ["kilotune.model.pdsc", "model/model.c"]),
        ("cortex-m0plus", ["Makefile", "startup.c", "link.ld"]),
        ("cortex-m4", ["Makefile", "startup.c", "link.ld"]),
    ],
)
def test_every_target(target: str, holds: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    storage, out = tmp_path / "s.db", tmp_path / "out"
    assert (
        tune(storage, *STUDY, "--accumulator-bits", "16", "--level", "O2", "--rounding", "floor", "--loss", "1000") == 0
    )
    assert tune(storage, "export", "s", "--target", target, "--output", str(out)) == 0
    assert all((out / name).exists() for name in holds)
    assert "model.c" not in capsys.readouterr().out
    held = json.loads((out / "decisions.json").read_text())
    wanted = {"target": target, "optimisation": "O2", "accumulator": "narrow", "rounding": "floor"}
    assert {name: held[name] for name in wanted} == wanted


def test_the_level_of_an_export_wins(tmp_path: Path) -> None:
    storage, out = tmp_path / "s.db", tmp_path / "out"
    assert tune(storage, *STUDY) == 0
    assert tune(storage, "export", "s", "--target", "arduino", "--level", "O3", "--output", str(out)) == 0
    assert '#pragma GCC optimize("O3")' in (out / "model.c").read_text()
    assert tune(storage, "export", "s", "--target", "arduino", "--output", str(out)) == 0
    assert '#pragma GCC optimize("O' not in (out / "model.c").read_text()


def test_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    storage, out = tmp_path / "s.db", tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    assert tune(storage, *STUDY) == 0
    assert tune(storage, "export", "s", "--target", "platformio", "--output", str(out)) == 4
    assert [path.name for path in out.iterdir()] == ["thesis.tex"]


@needs_avr
def test_what_each_layer_takes_is_in_the_folder_and_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage, out = tmp_path / "s.db", tmp_path / "out"
    assert tune(storage, *STUDY, "--device", "uno") == 0
    assert tune(storage, "export", "s", "--level", "O2", "--output", str(out)) == 0
    capsys.readouterr()
    assert tune(storage, "profile", "s", "--level", "O2", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    held = json.loads((out / "decisions.json").read_text())
    assert held["profile"] == {name: value for name, value in shown.items() if name not in ("study", "trial")}
    measured = shown["on_device"]["measured"]
    assert measured["level"] == "-O2"
    parts = [*shown["layers"], shown["outside"]]
    assert sum(part["measured_cycles"] for part in parts) == pytest.approx(shown["measured_cycles"])
    assert round(sum(part["predicted_cycles"] for part in parts)) == held["metrics"]["cycles"]
    text = (out / "README.md").read_text()
    assert f"{measured['flash_bytes']:.0f} bytes of flash, {measured['static_ram_bytes']:.0f} of static RAM" in text
    assert all(f"| {layer['name']} |" in text for layer in shown["layers"])
