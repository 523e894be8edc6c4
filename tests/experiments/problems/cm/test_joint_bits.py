"""`tune --space cm --joint bits` as a user meets it: decided, told, exported and executed; one sentence for what cannot be asked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from kilotune.experiments.cli import main
from kilotune.experiments.problems.cm.problem import build_problem, command_options, read_options
from kilotune.experiments.problems.family import CommandOptions
from kilotune.experiments.requests.request import TuneRequest
from kilotune.spaces.cm.bits import BitsSpace
from tests.codegen.cm.digits import digits_images, digits_network
from tests.codegen.cm.test_front_door import executed_alone, tune

pytestmark = pytest.mark.slow


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    """The options of a network with its images."""
    images, labels = digits_images(16)
    onnx.save(digits_network(16), str(tmp_path / "digits.onnx"))
    np.savez(tmp_path / "images.npz", images=images, labels=labels)
    return ("--input", str(tmp_path / "digits.onnx"), "--data", str(tmp_path / "images.npz"))


def test_bits_are_decided_told_exported_and_executed(tmp_path: Path, files: tuple[str, ...]) -> None:
    out, told = tmp_path / "out", tmp_path / "r.json"
    asked = ("--hardware", "mesh-8x8-sliced", "--joint", "bits", "--drop", "8", "--budget", "60s,14trials")
    assert tune(tmp_path, *files, *asked, "--json", str(told), "--output", str(out)) == 0
    result = json.loads(told.read_text())
    best, bits = result["best"]["assignment"], result["best"]["details"]["bits"]
    assert bits["activations"] == {
        n.removeprefix("activation bits "): b for n, b in best.items() if n.startswith("activation")
    }
    assert set(bits["weights"]) == set(bits["converters"]) == {"conv1", "conv2", "y"}
    assert any(count < 8 for kind in bits.values() for count in kind.values())
    assert result["best"]["metrics"]["lost_points"] <= 8
    assert result["best"]["details"]["approximation"]["images"] == 597 - 64
    program = json.loads((out / "program.json").read_text())
    assert program["image"]["high"] == 2 ** bits["activations"]["x"] - 1
    steps = [step for stage in program["stages"] for step in stage["steps"]]
    heads = [step for step in steps if step["operation"] == "products"]
    read = {head["converter"]["largest"] for head in heads}
    assert read == {2 ** (count - 1) - 1 for count in bits["converters"].values()}
    arrays = np.load(out / "program.npz")
    most = max(int(np.abs(arrays[head["matrix"]]).max()) for head in heads)
    assert most < 2 ** (max(bits["weights"].values()) - 1)
    assert executed_alone(out, "--onnxruntime") == "2 images, 20 elements, 0 different"
    assert executed_alone(out, "--schedule") == "2 images, 20 elements, 0 different"
    report = tmp_path / "report.html"
    with pytest.raises(SystemExit) as ended:
        main(["report", result["study"], "--storage", str(tmp_path / "studies.db"), "--output", str(report)])
    assert ended.value.code == 0
    assert "conversions conv1" in report.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--joint", "bits"),
            "--joint bits needs to know what may be lost: expected --drop or --limit accuracy, found neither.",
        ),
        (("--joint", "bits", "--drop", "1"), "found mesh-8x8, which charges no bits."),
        (
            ("--limit", "accuracy=0.9"),
            "--limit accuracy is for bits on noisy cells: expected --joint bits and --noise with it.",
        ),
        (("--objective", "accuracy"), "--objective accuracy is for bits on noisy cells"),
        (
            ("--joint", "bits", "--limit", "flash=1KiB"),
            "--device and --limit do not go with the space cm, but for accuracy",
        ),
    ],
)
def test_what_cannot_be_asked(
    arguments: tuple[str, ...], message: str, tmp_path: Path, files: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune(tmp_path, *files, *arguments, "--budget", "1s") == 4
    assert message in capsys.readouterr().err


def test_joint_bits_needs_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune(tmp_path, "--input", "lenet5", "--joint", "bits", "--drop", "1") == 4
    assert "--joint bits is judged on images of --data" in capsys.readouterr().err


def test_options_of_a_request_are_those_of_the_command(files: tuple[str, ...]) -> None:
    given = {"data": files[3], "hardware": "mesh-8x8-sliced", "joint": "bits", "noise": 3600.0}
    asked = CommandOptions(given, {"accuracy": 0.9}, "accuracy", stated=frozenset({"accuracy"}))
    options = read_options("cm", asked)
    again = command_options(options)
    assert (
        read_options("cm", CommandOptions({k: v for k, v in again.given.items() if v}, again.limits, again.objective))
        == options
    )
    space = build_problem(TuneRequest("cm", files[1], "anneal", options=options)).space
    assert isinstance(space, BitsSpace)
    assert (space.question.accuracy, space.question.objective, space.question.points) == (0.9, "accuracy", None)
