"""--keep-quantisation at the command line: what comes of a quantised file, and what is refused with it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from kilotune.experiments.problems.building import build_problem
from kilotune.experiments.studies.request_parsing import request_from
from kilotune.testing import check_space
from tests.codegen.trained.onnx_files import Case
from tests.codegen.trained.quantised_files import QuantisedNetwork, QuantisedTensor, executed_integers
from tests.codegen.trained.tflite_files import OneOperator
from tests.commands import tune

STEP, ZERO = 0.02, -9
"""Of the input."""


def write_model(folder: Path) -> Path:
    """A perceptron of 12 features and three scores with random weights, and random samples labelled by chance."""
    random = np.random.default_rng(2)
    network = QuantisedNetwork()
    last = network.tensor(QuantisedTensor((1, 12), scales=(STEP,), zeros=(ZERO,)))
    for inputs, outputs, scale in ((12, 8, 0.03), (8, 3, 0.05)):
        data = random.integers(-127, 128, (outputs, inputs))
        weights = network.tensor(QuantisedTensor((outputs, inputs), data=data, scales=(0.008,)))
        bias = network.tensor(QuantisedTensor((outputs,), "int32", random.integers(-900, 900, outputs)))
        made = QuantisedTensor((1, outputs), scales=(scale,), zeros=(-20,))
        options = {"FusedActivationFunction": int(outputs == 8)}
        last = network.operator("FULLY_CONNECTED", (last, weights, bias), made, "FullyConnectedOptions", **options)
    reals = random.normal(0.2, 1.2, (60, 12)).astype(np.float32)
    np.savez(
        folder / "data.npz", X=reals[:40], y=random.integers(0, 3, 40), Xt=reals[40:], yt=random.integers(0, 3, 20)
    )
    return network.write(folder / "model.tflite")


def run(folder: Path, *arguments: str) -> tuple[int, str, str]:
    done = tune(folder, {"KILOTUNE_STORAGE": str(folder / "studies.db"), "PATH": "/usr/bin:/bin"}, *arguments)
    return done.returncode, done.stdout, " ".join(done.stderr.split())


KEPT = ("--space", "shiftry", "--input", "model.tflite", "--data", "data.npz", "--keep-quantisation")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("make") is None, reason="needs make and a C compiler")
def test_the_exported_program_returns_what_the_reference_kernels_do(tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    path = write_model(tmp_path)
    status, out, error = run(
        tmp_path, *KEPT, "--returns", "value", "--study", "s", "--json", "s.json", "--output", "made"
    )
    assert status == 0, error
    assert "Proved: every candidate was measured" in out
    assert "Errors are counted in steps of the file's results; a step is 0.05." in out
    found = json.loads((tmp_path / "s.json").read_text())
    assert found["best"]["assignment"] == {"integers": "the file's own"}
    header = (tmp_path / "made" / "model.h").read_text()
    assert f"#define MODEL_INPUT_ZERO ({ZERO})" in header
    assert "real value = (result[i] - MODEL_RESULT_ZERO) * MODEL_RESULT_STEP" in header
    subprocess.run(["make", "-s", "-C", tmp_path / "made", "check"], check=True, capture_output=True)
    recorded = (tmp_path / "made" / "main.c").read_text()
    samples = np.load(tmp_path / "data.npz")["Xt"]
    integers = np.clip(np.trunc(samples / np.float32(STEP) + np.copysign(0.5, samples)) + ZERO, -128, 127)
    wanted = executed_integers(path, integers.astype(np.int64)).reshape(-1).tolist()
    outputs = recorded[recorded.index("outputs[") :]
    assert [int(text) for text in outputs[outputs.index("{") + 1 : outputs.index("}")].split(",")] == wanted


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("make") is None, reason="needs make and a C compiler")
@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
def test_a_quantised_onnx_file_returns_what_onnx_runtime_does(form: QuantFormat, tmp_path: Path) -> None:
    """As its own tool quantises it, without signs and with a scale for each output."""
    random = np.random.default_rng(5)
    weights = {
        "w": random.normal(0, 0.5, (6, 12)),
        "b": random.normal(0, 1, 6),
        "v": random.normal(0, 0.6, (3, 6)),
        "c": np.ones(3),
    }
    nodes = [
        ("Gemm", ["x", "w", "b"], ["h"], {"transB": 1}),
        ("Relu", ["h"], ["a"], {}),
        ("Gemm", ["a", "v", "c"], ["y"], {"transB": 1}),
    ]
    Case("net", (1, 12), nodes, {name: values.astype(np.float32) for name, values in weights.items()}).write(tmp_path)
    reals = random.normal(0.2, 1.2, (60, 12)).astype(np.float32)
    np.savez(tmp_path / "data.npz", X=reals[:40], Xt=reals[40:])
    quantize_static(
        tmp_path / "net.onnx", tmp_path / "model.onnx", Rows(reals[:40]), quant_format=form, activation_type=QuantType.QUInt8,
        per_channel=True, reduce_range=True,  # or ONNX Runtime's sums saturate on x86 processors without VNNI
    )  # fmt: skip
    arguments = [text.replace(".tflite", ".onnx") for text in KEPT]
    status, _, error = run(tmp_path, *arguments, "--returns", "value", "--study", "s", "--output", "made")
    assert status == 0, error
    subprocess.run(["make", "-s", "-C", tmp_path / "made", "check"], check=True, capture_output=True)
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    header = (tmp_path / "made" / "model.h").read_text()
    step, zero = (float(header.split(f"MODEL_RESULT_{name} ")[1].split()[0].strip("()f")) for name in ("STEP", "ZERO"))
    wanted = [session.run(None, {"x": row[None]})[0].reshape(-1) / step + zero for row in reals[40:]]
    recorded = (tmp_path / "made" / "main.c").read_text()
    outputs = recorded[recorded.index("outputs[") :]
    found = [int(text) for text in outputs[outputs.index("{") + 1 : outputs.index("}")].split(",")]
    assert found == np.rint(wanted).astype(int).reshape(-1).tolist()


class Rows(CalibrationDataReader):
    """Samples one by one."""

    def __init__(self, reals: np.ndarray) -> None:
        self.rest = iter(reals)

    def get_next(self) -> dict[str, np.ndarray] | None:
        row = next(self.rest, None)
        return None if row is None else {"x": row[None]}


def test_its_space_conforms_and_measures_what_it_returns(tmp_path: Path) -> None:
    write_model(tmp_path)
    options = {"data": str(tmp_path / "data.npz"), "keep_quantisation": True, "returns": "class"}
    problem = build_problem(request_from("shiftry", input=str(tmp_path / "model.tflite"), options=options))
    check_space(problem.space, samples=4, most=10)
    tested = problem.test_metrics({"integers": "the file's own"})
    assert tested is not None
    assert 0 <= tested["accuracy_percent"] <= 100


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            ("--narrow",),
            "--keep-quantisation leaves no formats to decide: expected none of what is about them, found --narrow.",
        ),
        (("--rounding", "nearest"), "found --rounding."),
        (("--front",), "found --front."),
    ],
)
def test_options_about_formats_are_refused(asked: tuple[str, ...], said: str, tmp_path: Path) -> None:
    write_model(tmp_path)
    status, _, error = run(tmp_path, *KEPT, *asked)
    assert status == 4
    assert said in error


def test_seedot_is_refused(tmp_path: Path) -> None:
    write_model(tmp_path)
    status, _, error = run(tmp_path, "--space", "seedot", *KEPT[2:])
    assert (status, "--keep-quantisation: expected the space shiftry, found seedot." in error) == (4, True)


def test_other_files_are_refused(tmp_path: Path) -> None:
    write_model(tmp_path)
    Case("net", (1, 12), [("Relu", ["x"], ["y"], {})]).write(tmp_path)
    OneOperator("TANH", (1, 12), [(1, 12)]).write(tmp_path / "floats.tflite")
    for name, said in (
        ("net.onnx", "expected a DequantizeLinear before Relu, found real numbers"),
        ("floats.tflite", "expected 't0' of INT8 with one scale, found FLOAT32"),
    ):
        status, _, error = run(tmp_path, *KEPT[:3], name, *KEPT[4:])
        assert status == 4
        assert said in error
    status, _, error = run(tmp_path, "--space", "shiftry", "--input", "protonn-cancer", "--keep-quantisation")
    assert status == 4
    assert "to which --keep-quantisation belongs, found a model folder" in error
