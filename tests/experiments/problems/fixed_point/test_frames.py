"""--streaming and --hop at the command line: convolutions along time, taken frame by frame."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from kilotune.codegen import ir
from kilotune.codegen.bundle import Bundle, load_bundle
from kilotune.codegen.dataset import Dataset
from kilotune.codegen.feature_order import FeatureOrder
from kilotune.codegen.feature_scaling import FeatureScaling
from kilotune.evaluators.device import Device
from kilotune.evaluators.devices import find_device
from kilotune.evaluators.on_device import missing_tools
from kilotune.experiments.models.catalogue import resolve_model
from kilotune.experiments.problems.family import CommandOptions
from kilotune.experiments.problems.fixed_point.frames import in_frames
from kilotune.experiments.problems.fixed_point.problem import ModelProblem, build_problem, read_options, resolve_input
from kilotune.experiments.requests.request import TuneRequest
from kilotune.search.candidates import random_candidate
from kilotune.search.space import Trial
from tests.codegen.trained.onnx_files import Case, reference
from tests.commands import tune

CHANNELS, TIMES = 3, 16


def write_model(folder: Path) -> Path:
    """A 1-D CNN of two layers, channels before time as torch has them, and random samples labelled by the model itself."""
    random = np.random.default_rng(6)
    constants = {
        "f": random.normal(0, 0.5, (6, CHANNELS, 3)).astype(np.float32),
        "b": random.normal(0, 0.2, 6).astype(np.float32),
        "g": random.normal(0, 0.4, (5, 6, 3)).astype(np.float32),
        "w": random.normal(0, 0.3, (25, 4)).astype(np.float32),
        "d": random.normal(0, 0.1, 4).astype(np.float32),
    }
    nodes = [
        ("Conv", ["x", "f", "b"], ["c"], {"kernel_shape": [3]}),
        ("Relu", ["c"], ["r"], {}),
        ("MaxPool", ["r"], ["p"], {"kernel_shape": [2], "strides": [2]}),
        ("Conv", ["p", "g"], ["e"], {"kernel_shape": [3]}),
        ("Relu", ["e"], ["q"], {}),
        ("Flatten", ["q"], ["h"], {}),
        ("Gemm", ["h", "w", "d"], ["s"], {}),
        ("Softmax", ["s"], ["y"], {"axis": 1}),
    ]
    path = Case("waves", ("n", CHANNELS, TIMES), nodes, constants).write(folder)
    samples = random.normal(0, 1, (90, CHANNELS, TIMES)).astype(np.float32)
    classes = reference(path, samples).argmax(axis=1)
    np.savez(folder / "data.npz", X=samples[:60], y=classes[:60], Xt=samples[60:], yt=classes[60:])
    return path


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    done = tune(folder, {"KILOTUNE_STORAGE": str(folder / "studies.db"), "PATH": "/usr/bin:/bin"}, *arguments)
    return done.returncode, " ".join(done.stderr.split())


IMPORTED = ("--space", "shiftry", "--input", "waves.onnx", "--data", "data.npz", "--streaming")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("make") is None, reason="needs make and a C compiler")
def test_channels_of_a_moment_are_a_frame_and_the_program_holds_windows_only(tmp_path: Path) -> None:
    write_model(tmp_path)
    status, error = run(
        tmp_path, *IMPORTED, "--hop", "2", "--budget", "30trials", "--json", "s.json", "--output", "made"
    )
    assert status == 0, error
    found = json.loads((tmp_path / "s.json").read_text())
    assert found["float"]["test"]["accuracy_percent"] == 100
    header = (tmp_path / "made" / "model.h").read_text()
    assert f"call it with {CHANNELS} features, MODEL_FRAMES times" in header
    assert f"#define MODEL_FRAMES {TIMES}\n#define MODEL_HOP 2\n" in header
    done = subprocess.run(["make", "-s", "-C", tmp_path / "made", "check"], capture_output=True, text=True, check=False)
    assert "30 of 30 outputs equal" in done.stdout, done.stderr
    first = re.search(r"inputs\[\d+\][^{]*\{\s*([^}]*)\}", (tmp_path / "made" / "main.c").read_text())
    assert first is not None
    recorded = np.array([int(text) for text in first[1].split(",")]).reshape(30, TIMES, CHANNELS)
    given = np.load(tmp_path / "data.npz")["Xt"].transpose(0, 2, 1)
    assert np.corrcoef(recorded.reshape(-1), given.reshape(-1))[0, 1] > 0.99


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("--hop", "3"), "--hop: expected a multiple of 2 frames (the strides of its layers), at most 16, found 3."),
        (("--hop", "18"), "at most 16, found 18."),
        (("--no-streaming", "--hop", "2"), "--hop 2: expected --streaming, to which it belongs."),
    ],
)
def test_hops_that_cannot_be_are_refused(asked: tuple[str, ...], said: str, tmp_path: Path) -> None:
    write_model(tmp_path)
    status, error = run(tmp_path, *IMPORTED, *asked)
    assert status == 4
    assert said in error


@pytest.mark.parametrize(
    ("model", "asked", "said"),
    [
        ("cnn-exercises", ("--hop", "4"), "expected a model without padding along time"),
        ("gru16-digits", ("--hop", "1"), "expected a model of convolutions along time, found a loop"),
        ("mlp-digits", (), "is no loop over frames of its input: MatMul reads the input outside any loop"),
    ],
)
def test_other_models_are_refused(model: str, asked: tuple[str, ...], said: str, tmp_path: Path) -> None:
    status, error = run(tmp_path, "--space", "shiftry", "--input", model, "--streaming", *asked)
    assert status == 4
    assert said in error


def walking_bundle() -> Bundle:
    """Eight moments of two channels, channels first, under a convolution without padding and a product with everything; features have
    scales of their own."""
    here = ir.Location("walk.sd", 1, 1)
    given, made, out = (
        ir.Variable("X", (2, 8), ir.Role.INPUT, here),
        ir.Variable("t", (1, 6, 1, 3), ir.Role.TEMPORARY, here),
        ir.Variable("o", (1, 2), ir.Role.TEMPORARY, here),
    )
    filters, weights = (
        ir.Variable("F", (1, 3, 1, 2, 3), ir.Role.PARAMETER, here),
        ir.Variable("W", (18, 2), ir.Role.PARAMETER, here),
    )
    image = ir.View("X", (1, 8, 1, 2), (16, 1, 1, 8))
    body = (
        ir.Conv2D(ir.whole(made), here, image, ir.whole(filters)),
        ir.MatMul(ir.whole(out), here, ir.View("t", (1, 18), (18, 1)), ir.whole(weights)),
    )
    program = ir.Program("walk", (given, filters, weights, made, out), body, ir.whole(out), ir.ResultKind.REAL)
    random = np.random.default_rng(2)
    parameters = {"F": random.normal(0, 1, filters.shape), "W": random.normal(0, 1, weights.shape)}
    train = Dataset(np.arange(32.0).reshape(2, 16), np.zeros(2))
    scaling = FeatureScaling(tuple(range(16)), tuple(float(n) for n in range(16)))
    return Bundle("walk", program, parameters, train, None, None, scaling)


def test_samples_and_their_scales_come_in_the_order_of_frames() -> None:
    framed = in_frames(walking_bundle(), 0)
    order = [channel * 8 + moment for moment in range(8) for channel in range(2)]
    assert framed.train is not None
    assert framed.train.features.tolist() == [order, [16 + n for n in order]]
    assert framed.scaling == FeatureScaling(tuple(order), tuple(map(float, order)))
    assert framed.order == FeatureOrder(tuple(order))


@pytest.mark.parametrize("hop", [0, 1, 3])
def test_what_outlasts_a_sample_is_kept_only_for_overlapping_ones(hop: int) -> None:
    program = in_frames(walking_bundle(), hop).program
    behind = [statement for statement in program.body if not isinstance(statement, ir.Loop)]
    assert bool(behind) == (hop == 0)


def test_a_loop_over_frames_stays_as_it_is() -> None:
    bundle = load_bundle(resolve_model("gru16-digits"))
    assert in_frames(bundle, 0) is bundle


SHORT = ("--space", "shiftry", "--input", "cnn-exercises", "--overwrite-input", "--budget", "3trials", "--quiet")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("make") is None, reason="needs make and a C compiler")
def test_the_sample_is_among_the_bytes_of_a_program_that_overwrites_it(tmp_path: Path) -> None:
    """RAM with input is RAM, and that of the exported array; the array and the sample of a program that does not are more."""
    found = {}
    for name, asked in (("over", SHORT), ("beside", (*SHORT, "--no-overwrite-input"))):
        status, error = run(tmp_path, *asked, "--limit", "total-ram=2KB", "--json", f"{name}.json", "--output", name)
        assert status == 0, error
        metrics = json.loads((tmp_path / f"{name}.json").read_text())["best"]["metrics"]
        found[name] = metrics["total_ram_bytes"]
        assert (metrics["ram_bytes"] == metrics["total_ram_bytes"]) == (name == "over")
    assert found["over"] < 0.7 * found["beside"]
    source = (tmp_path / "over" / "model.c").read_text()
    assert f"bytes[{found['over']:.0f}];" in source
    assert "kt_next(x);" in source
    done = subprocess.run(["make", "-s", "-C", tmp_path / "over", "check"], capture_output=True, text=True, check=False)
    assert "100 of 100 outputs equal" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("--streaming",), "--overwrite-input: expected no --streaming"),
        (("--input", "fastgrnn16-digits"), "reads its sample as a whole, found a loop over its frames"),
    ],
)
def test_what_cannot_be_overwritten_is_said(asked: tuple[str, ...], said: str, tmp_path: Path) -> None:
    status, error = run(tmp_path, *SHORT, *asked, "--no-output")
    assert status != 0
    assert said in error


def any_trial(
    asked: Mapping[str, object], model: str = "lenet-digits", device: Device | None = None
) -> tuple[ModelProblem, Trial]:
    options = read_options("shiftry", CommandOptions(asked, device=None if device is None else device.as_json()))
    problem = build_problem(TuneRequest("shiftry", str(resolve_input(model)), "random", options=options))
    candidate = random_candidate(problem.space, np.random.default_rng(0))
    return problem, Trial(0, candidate, problem.space.evaluate([candidate])[0])


def test_targets_whose_programs_are_handed_the_sample_are_refused(tmp_path: Path) -> None:
    """The search counted its room once; beside the array it would be there twice, and a chip's RAM too small."""
    problem, trial = any_trial({"overwrite_input": True})
    with pytest.raises(ValueError, match=r"^--target arduino: expected c-frames for a study with --overwrite-input"):
        problem.export_for(trial, tmp_path / "sketch", "arduino", None)
    assert not (tmp_path / "sketch").exists()


@pytest.mark.slow
@pytest.mark.skipif(missing_tools(find_device("uno")) is not None, reason="the tools of uno are missing")
@pytest.mark.parametrize("streaming", [False, True])
def test_an_exported_readme_has_the_figures_of_its_own_program(streaming: bool, tmp_path: Path) -> None:
    """Whatever way the study's programs get their input: one that is handed its sample holds it all, one called with frames holds one."""
    problem, trial = any_trial({"streaming": streaming}, "gru16-digits", find_device("uno"))
    static, text = dict[str, int | None](), ""
    for target in ("c", "c-steps", "c-frames"):
        problem.export_for(trial, tmp_path / target, target, None)
        text = (tmp_path / target / "README.md").read_text()
        found = re.search(r"(\d+) of static RAM", text)
        static[target] = None if found is None else int(found.group(1))
        assert ("asks for its input in 8 frames" in text) == (target == "c-frames")
    frame = 8 * (2 if "int16_t" in text else 1)
    assert static["c-frames"] is None, "no simulated device hands over frames that are asked for"
    assert static["c"] is not None
    assert static["c-steps"] is not None
    assert 7 * frame - 8 <= static["c"] - static["c-steps"] <= 7 * frame, "its own state is a few bytes"
