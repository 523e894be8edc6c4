"""`tune --space memory --input` for the files of other tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kilotune.experiments.cli import main
from kilotune.experiments.commands.exit_status import ExitStatus
from tests.codegen.tflite.models import DATA
from tests.codegen.tflite.test_arena import branching


@pytest.fixture
def tune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("KILOTUNE_STORAGE", str(tmp_path / "studies.db"))
    monkeypatch.chdir(tmp_path)

    def run(space: str, path: Path, *arguments: str) -> tuple[int, dict, str]:  # type: ignore[type-arg]
        wanted = ("--space", space, "--input", str(path), "--budget", "50trials", "--no-output", "--quiet")
        with pytest.raises(SystemExit) as end:
            main([*wanted, *arguments, "--json", "result.json"])
        found = json.loads(Path("result.json").read_text()) if Path("result.json").exists() else {}
        return int(end.value.code or 0), found, capsys.readouterr().err.strip()

    return run


def test_an_arena_is_aligned_as_tflm_does(tune, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """in (10), left (30), right (20) are live together: at multiples of 16 16 + 32 + 20 bytes, 60 at any address."""
    path = branching(tmp_path / "b.tflite")
    _, found, _ = tune("memory", path)
    assert (
        found["best"]["metrics"]["peak_bytes"] == found["bound"] == 68
    )  # 32 + 20 below 10 on top: 32 + 32 + 10 is more
    _, found, _ = tune("memory", path, "--alignment", "1")
    assert found["best"]["metrics"]["peak_bytes"] == found["bound"] == 60


def test_public_models(tune) -> None:  # type: ignore[no-untyped-def]
    for name, peak in (("kws_int8", 16000), ("ic_int8", 49152)):
        _, found, _ = tune("memory", DATA / f"{name}.tflite")
        assert found["best"]["metrics"]["peak_bytes"] == found["bound"] == peak


def test_lifetimes_that_end_inclusively(tune, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "iree.csv"
    path.write_text("id,lower,upper,size\na,0,1,4\nb,1,1,8\n")
    _, found, _ = tune("memory", path, "--inclusive")
    assert found["best"]["metrics"]["peak_bytes"] == 12
    status, _, said = tune("memory", path)
    assert status == ExitStatus.BAD_INPUT
    assert "iree.csv:3:3: buffer 'b': expected upper above lower = 1, found 1" in said


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ("fpga", "expected a model, as for seedot"),
        ("reverse-split", "expected JSON, a filter of `tune list filters`, or analognet2-digits, ternary8-digits"),
        ("cm", "expected ONNX, or a network of `tune list networks`"),
    ],
)
def test_a_model_of_another_tool_is_named(tune, space: str, words: str) -> None:  # type: ignore[no-untyped-def]
    status, _, said = tune(space, DATA / "kws_int8.tflite")
    assert status == ExitStatus.BAD_INPUT
    assert len(said.splitlines()) == 1
    assert f"{words}, found a TFLite model (which is for --space seedot or --space shiftry or --space memory)" in said


@pytest.mark.parametrize("option", [("--inclusive",), ("--heap", "1")])
def test_options_of_other_formats(tune, option: tuple[str, ...]) -> None:  # type: ignore[no-untyped-def]
    status, _, said = tune("memory", DATA / "kws_int8.tflite", *option)
    assert status == ExitStatus.BAD_INPUT
    assert said.startswith(f"tune: {option[0]} ")
    assert len(said.splitlines()) == 1
