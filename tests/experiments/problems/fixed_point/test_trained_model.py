"""An ONNX file and samples at the command line: searched, exported, resumed, and refused where one of the two is missing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from sklearn.datasets import load_digits

from tests.codegen.trained.onnx_files import Case, reference
from tests.commands import tune


def write_model(folder: Path) -> Path:
    """A classifier of digits by least squares on random features, and its data."""
    digits = load_digits()
    features = digits.data.astype(np.float32)
    random = np.random.default_rng(3)
    hidden = random.normal(0, 0.06, (64, 24)).astype(np.float32)
    units = np.maximum(features @ hidden, 0)
    scores, *_ = np.linalg.lstsq(np.c_[units, np.ones(len(units))], np.eye(10)[digits.target], rcond=None)
    nodes = [("MatMul", ["x", "h"], ["u"], {}), ("Relu", ["u"], ["r"], {}), ("Gemm", ["r", "w", "b"], ["s"], {}),
             ("Softmax", ["s"], ["y"], {"axis": 1})]  # fmt: skip
    constants = {"h": hidden, "w": scores[:-1].astype(np.float32), "b": scores[-1].astype(np.float32)}
    np.savez(
        folder / "data.npz", X=features[:600], y=digits.target[:600], Xt=features[600:800], yt=digits.target[600:800]
    )
    return Case("dense", ("n", 64), nodes, constants).write(folder)


def run(folder: Path, *arguments: str) -> tuple[int, str, str]:
    place = folder.parent if folder.name == "elsewhere" else folder
    done = tune(folder, {"KILOTUNE_STORAGE": str(place / "studies.db"), "PATH": "/usr/bin:/bin"}, *arguments)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_an_onnx_file_is_searched_and_its_float_program_is_onnxruntimes(tmp_path: Path) -> None:
    path = write_model(tmp_path)
    search = ("--space", "shiftry", "--input", "dense.onnx", "--data", "data.npz", "--study", "s", "--json", "s.json")
    status, _, error = run(tmp_path, *search, "--budget", "40trials")
    assert status == 0, error
    found = json.loads((tmp_path / "s.json").read_text())
    arrays = np.load(tmp_path / "data.npz")
    classes = reference(path, arrays["Xt"]).argmax(axis=1)
    assert found["float"]["test"]["accuracy_percent"] == pytest.approx(100 * (classes == arrays["yt"]).mean())
    assert found["best"]["metrics"]["accuracy_percent"] >= found["float"]["train"]["accuracy_percent"] - 2
    (tmp_path / "elsewhere").mkdir()
    status, _, error = run(tmp_path / "elsewhere", "resume", "s", "--budget", "60trials", "--json", "s.json")
    assert status == 0, error
    resumed = json.loads((tmp_path / "elsewhere" / "s.json").read_text())
    assert resumed["best"]["metrics"]["memory_bytes"] <= found["best"]["metrics"]["memory_bytes"]


def test_a_file_without_samples_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = Case("net", (1, 6), [("Relu", ["x"], ["y"], {})]).write(tmp_path)
    status, _, error = run(tmp_path, "--space", "shiftry", "--input", "net.onnx")
    assert status == 4
    assert f"{path}: expected --data FILE with samples for it" in " ".join(error.split())
    assert {file.name for file in tmp_path.iterdir()} <= {"net.onnx", "studies.db"}


def test_samples_without_labels_train_nothing(tmp_path: Path) -> None:
    """Of them the model's own classes are the target, of which it has no more to learn."""
    write_model(tmp_path)
    np.savez(tmp_path / "bare.npz", X=np.load(tmp_path / "data.npz")["X"])
    asked = ("--space", "shiftry", "--input", "dense.onnx", "--trained", "--returns", "class", "--budget", "1trials")
    status, _, error = run(tmp_path, *asked, "--data", "bare.npz")
    assert status == 4
    assert "--trained: expected samples with labels, found none in" in " ".join(error.split())


def test_samples_do_not_go_with_a_model_folder(tmp_path: Path) -> None:
    status, _, error = run(tmp_path, "--space", "seedot", "--input", "protonn-cancer", "--data", "x.npz")
    assert status == 4
    assert "expected an ONNX or TFLite model, to which --data belongs, found a model folder" in " ".join(error.split())


def test_a_file_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    path = write_model(tmp_path)
    path.write_bytes(path.read_bytes()[:300])
    status, _, error = run(tmp_path, "--space", "shiftry", "--input", "dense.onnx", "--data", "data.npz")
    assert status == 4
    assert "expected an ONNX file, found bytes that are none, or are cut short" in " ".join(error.split())


@pytest.mark.slow
def test_raw_features_of_mixed_size_lose_nothing_and_the_exported_program_says_how_to_give_them(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    sizes = 10.0 ** np.linspace(-3, 3, 8)
    rows = random.normal(0, 1, (400, 8))
    weights = random.normal(0, 1, (8, 3))
    classes = (rows @ weights).argmax(axis=1)
    nodes = [("MatMul", ["x", "w"], ["s"], {}), ("Softmax", ["s"], ["y"], {"axis": 1})]
    Case("raw", ("n", 8), nodes, {"w": (weights / sizes[:, None]).astype(np.float32)}).write(tmp_path)
    given = rows * sizes
    np.savez(tmp_path / "data.npz", X=given[:250], y=classes[:250], Xt=given[250:], yt=classes[250:])
    search = ("--space", "shiftry", "--input", "raw.onnx", "--data", "data.npz", "--drop", "0.5", "--json", "s.json")
    status, _, error = run(tmp_path, *search, "--budget", "60trials", "--output", "out")
    assert status == 0, error
    found = json.loads((tmp_path / "s.json").read_text())
    assert found["float"]["test"]["accuracy_percent"] == 100.0
    assert found["best"]["metrics"]["accuracy_percent"] >= 99.5
    assert "model_feature(uint16_t i, float value)" in (tmp_path / "out" / "model.h").read_text()
    assert len(json.loads((tmp_path / "out" / "decisions.json").read_text())["features"]["exponents"]) == 8


@pytest.mark.parametrize(
    ("name", "options", "least", "expected"),
    [
        ("large.onnx", ("--device", "uno", "--no-narrow"), 26214400, "the 32256 bytes of uno"),
        ("large.onnx", ("--device", "uno", "--narrow"), 3276800, "the 32256 bytes of uno"),
        ("large.onnx", (), 26214400, "the 983040 bytes of nano33, the largest device known by name (--device"),
        ("large.tflite", (), 26214400, "the 983040 bytes of nano33, the largest device known by name (--device"),
    ],
)
def test_a_model_of_100_megabytes_is_refused_by_its_size(
    name: str, options: tuple[str, ...], least: int, expected: str, tmp_path: Path
) -> None:
    """The file is a hole: reading it would say that it is no model."""
    with (tmp_path / name).open("wb") as stream:
        stream.truncate(100 << 20)
    np.savez(tmp_path / "data.npz", X=np.zeros((2, 3)))
    status, _, error = run(tmp_path, "--space", "shiftry", "--input", name, "--data", "data.npz", *options)
    assert status == 4
    said = " ".join(error.split())
    assert f"expected weights for {expected}" in said
    assert f"found a file of 104857600 bytes, whose weights take about {least} or more" in said


def test_a_model_that_the_largest_device_may_hold_is_read_without_one(tmp_path: Path) -> None:
    """3.7 MiB of floats are a byte each in less than its flash; the file is a hole, and no model."""
    with (tmp_path / "small.onnx").open("wb") as stream:
        stream.truncate(4 * 983040)
    np.savez(tmp_path / "data.npz", X=np.zeros((2, 3)))
    status, _, error = run(tmp_path, "--space", "shiftry", "--input", "small.onnx", "--data", "data.npz")
    assert status == 4
    assert "expected an ONNX file" in error


def test_weights_beside_a_file_count_as_its_own(tmp_path: Path) -> None:
    """They are not there, nor need they be: what the file says of their shapes is enough."""
    path = Case("beside", (1, 4), [("MatMul", ["x", "w"], ["y"], {})], {"w": np.zeros((4, 2), np.float32)}).write(
        tmp_path
    )
    model = onnx.load(path)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.dims[1] = 6_500_000
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="beside.bin")
    onnx.save(model, path)
    np.savez(tmp_path / "data.npz", X=np.zeros((2, 4)))
    status, _, error = run(
        tmp_path, "--space", "shiftry", "--input", "beside.onnx", "--data", "data.npz", "--device", "uno"
    )
    assert status == 4
    assert "and 104000000 bytes of weights beside it, whose weights take about 260000" in " ".join(error.split())
