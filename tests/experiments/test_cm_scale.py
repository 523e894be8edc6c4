"""What is asked of the benchmark of `cm` is refused in a sentence, before anything is searched."""

from __future__ import annotations

import pytest

from kilotune.experiments.benchmarks import cm_scale
from kilotune.experiments.commands.exit_status import ExitStatus


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("UNKNOWN", "UNKNOWN: expected an ONNX file, or one of googlenet"),
        ("resnet20@hexagon-8x8", "hexagon-8x8: expected mesh-ROWSxCOLUMNS or torus"),
        ("resnet20@mesh-2x2", "resnet20: expected an accelerator that it fits"),
    ],
)
def test_what_it_does_not_know(
    asked: str, named: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["cm_scale", asked])
    with pytest.raises(SystemExit) as ended:
        cm_scale.main()
    assert ended.value.code == ExitStatus.BAD_INPUT
    assert capsys.readouterr().err.startswith(f"cm_scale: {named}")
