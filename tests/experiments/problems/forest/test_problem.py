"""Trees of scikit-learn at the command line and in Python: searched, exported, on devices, and refused in a sentence."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from skl2onnx import to_onnx
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from kilotune import tune as tuned
from kilotune.codegen.forest.emission import emit_forest
from kilotune.codegen.forest.importing import read_forest
from kilotune.codegen.forest.integers import counted, feature_formats, integer_forest, leaf_formats
from kilotune.codegen.forest.plan import CODE, STORED, plan_forest
from kilotune.evaluators.devices import find_device
from kilotune.evaluators.on_device import measure_artefact, missing_tools
from kilotune.evaluators.simulated import of_emitted
from tests.codegen.forest.random_forests import random_ensemble, written
from tests.commands import tune

pytestmark = pytest.mark.slow

FOREST = ("--space", "forest", "--input", "forest.onnx", "--data", "data.npz")
X, Y = load_digits(return_X_y=True)


@pytest.fixture(scope="module")
def forest() -> RandomForestClassifier:
    return RandomForestClassifier(6, max_depth=6, random_state=0).fit(X[:900], Y[:900])


@pytest.fixture
def folder(tmp_path: Path, forest: RandomForestClassifier) -> Path:
    (tmp_path / "forest.onnx").write_bytes(to_onnx(forest, X[:1].astype(np.float32)).SerializeToString())
    np.savez(tmp_path / "data.npz", X=X[:900], y=Y[:900], Xt=X[900:], yt=Y[900:])
    return tmp_path


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    done = tune(folder, {"KILOTUNE_STORAGE": str(folder / "studies.db"), "PATH": "/usr/bin:/bin"}, *arguments)
    return done.returncode, done.stderr


@pytest.mark.skipif(missing_tools(find_device("uno")) is not None, reason="the tools of uno are missing")
def test_programs_decide_as_scikit_learn_and_fit(folder: Path, forest: RandomForestClassifier) -> None:
    search = (*FOREST, "--device", "uno", "--objective", "latency")
    status, error = run(
        folder, *search, "--budget", "40trials", "--limit", "flash=4KiB", "--output", "out", "--json", "s.json"
    )
    assert status == 0, error
    found = json.loads((folder / "s.json").read_text())["best"]
    assert found["metrics"]["flash_bytes"] <= 4096
    assert found["test_metrics"]["disagreements"] == 0
    assert found["test_metrics"]["accuracy_percent"] == pytest.approx(100 * forest.score(X[900:], Y[900:]))
    # outputs were compared, too, or the status were another
    assert found["on_device"]["measured"]["flash_bytes"] == found["metrics"]["flash_bytes"]


@pytest.mark.parametrize("device", ["uno", "mkr1000", "nano33", "mps3"])
def test_devices_return_what_the_integers_say(device: str, folder: Path) -> None:
    board = find_device(device)
    if missing_tools(board) is not None:
        pytest.skip(f"the tools of {device} are missing")
    trees = read_forest(folder / "forest.onnx")
    made = integer_forest(trees, feature_formats(trees, X)[0], leaf_formats(trees)["int16"])
    integers = made.quantise(X[:50])
    made = counted(made, made.quantise(X))
    artefact = of_emitted(emit_forest(plan_forest(made, [STORED, STORED, STORED, 400, 60, CODE])))
    found = measure_artefact(board, artefact, integers.astype(artefact.input_type))
    np.testing.assert_array_equal(found.run.outputs, made.outputs(integers))


def test_a_bundled_forest_needs_its_name_only_and_brings_its_samples(folder: Path) -> None:
    listed = json.loads(tune(folder, {}, "list", "forests", "--json").stdout)
    assert [(row["name"], row["trees"], row["float_test_accuracy_percent"]) for row in listed] == [
        ("forest-digits", 10, 93.47)
    ]
    search = ("--space", "forest", "--input", "forest-digits", "--budget", "5trials", "--no-output", "--json", "s.json")
    status, error = run(folder, *search)
    assert status == 0, error
    found = json.loads((folder / "s.json").read_text())["best"]["test_metrics"]
    assert (found["disagreements"], round(found["accuracy_percent"], 2)) == (0, 93.47)
    status, error = run(folder, "--space", "forest", "--input", "forest-digit", "--budget", "5trials")
    assert status == 4
    assert "forest-digits" in error


def test_what_makes_ranks_of_features_is_told_in_bytes(folder: Path) -> None:
    """As many as the header's arrays have."""
    environment = {"KILOTUNE_STORAGE": str(folder / "studies.db"), "PATH": "/usr/bin:/bin"}
    done = tune(folder, environment, *FOREST, "--budget", "5trials", "--output", "out")
    assert done.returncode == 0
    assert "Features are ranks" not in done.stdout + done.stderr, "digits are on a grid"
    samples = X[:900] + np.random.default_rng(0).normal(0.0, 0.3, (900, X.shape[1]))
    network = RandomForestClassifier(3, max_depth=4, random_state=0).fit(samples, Y[:900])
    (folder / "forest.onnx").write_bytes(to_onnx(network, samples[:1].astype(np.float32)).SerializeToString())
    np.savez(folder / "data.npz", X=samples, y=Y[:900])
    done = tune(folder, environment, *FOREST, "--budget", "5trials", "--output", "ranks")
    assert done.returncode == 0
    thresholds = sum(len(tree.tree_.threshold[tree.tree_.children_left >= 0]) for tree in network.estimators_)
    told = int((done.stdout + done.stderr).split("keeps thresholds of ")[1].split()[0])
    header = (folder / "ranks" / "model.h").read_text()
    floats = header.split("const float ")[1].split("{")[1].split("}")[0].split(",")
    assert told == 2 * (X.shape[1] + 1) + 4 * len(floats)
    assert len(floats) <= thresholds


def test_the_exported_folder_checks_itself(folder: Path) -> None:
    search = (*FOREST, "--budget", "10trials", "--output", "out")
    told = tune(folder, {"KILOTUNE_STORAGE": str(folder / "studies.db"), "PATH": "/usr/bin:/bin"}, *search)
    assert told.returncode == 0
    assert "first plan" in told.stdout
    assert "paper" not in told.stdout + told.stderr
    done = subprocess.run(["make", "-C", str(folder / "out"), "check"], capture_output=True, text=True, check=False)
    assert "100 of 100 outputs equal" in done.stdout
    assert done.returncode == 0


def test_an_estimator_is_handed_over_in_python(
    forest: RandomForestClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    study = tuned(
        "forest", model=forest, X=X[:900], y=Y[:900], test=(X[900:], Y[900:]), budget="20trials", progress=False
    )
    assert study.best is not None
    assert study.test_metrics is not None
    assert study.test_metrics["disagreements"] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--space", "forest", "--input", "forest.onnx"), "expected --data FILE with samples for it"),
        (
            ("--space", "shiftry", "--input", "forest.onnx", "--data", "data.npz"),
            "decision trees are for the space forest",
        ),
        (("--space", "forest", "--input", "trees.onnx", "--data", "data.npz"), "expected 6 features a sample"),
        (
            ("--space", "forest", "--input", "forest.onnx", "--data", "data.npz", "--limit", "latency=1ms"),
            "expected --device too",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(arguments: tuple[str, ...], said: str, folder: Path) -> None:
    written(random_ensemble(1), folder)
    status, error = run(folder, *arguments)
    assert status in (2, 4)
    assert said in " ".join(error.split())
