"""A trained model that is handed over in Python: searched as its file would be, kept under its content, refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kilotune.experiments.notebook.tuning import tune
from tests.codegen.trained.cases import draw
from tests.codegen.trained.onnx_files import Case

FEATURES = np.random.default_rng(2).normal(0, 1, (60, 6)).astype(np.float32)
WEIGHTS = draw(6, 3)
CLASSES = (FEATURES @ WEIGHTS).argmax(axis=1)
MODEL = Case("net", (1, 6), [("Gemm", ["x", "w"], ["y"], {})], {"w": WEIGHTS}).model()


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path / "kilotune" / "models"


def search(**given: Any) -> Any:
    return tune("seedot", budget="6trials", progress=False, **given)


def test_a_model_and_its_samples_are_a_study_that_another_session_goes_on_with(
    data_folder: Path, tmp_path: Path
) -> None:
    given = {"model": MODEL, "X": FEATURES[:40], "y": CLASSES[:40], "test": (FEATURES[40:], CLASSES[40:])}
    study = search(**given, study="mine", storage=tmp_path / "studies.db")
    assert study.problem.float_metrics()["test"]["accuracy_percent"] == 100
    assert len(list(data_folder.glob("*/*"))) == 2
    again = search(**given, study="mine", storage=tmp_path / "studies.db")
    assert len(again.trials) == 12
    assert len(list(data_folder.glob("*/*"))) == 2
    search(**{**given, "y": (CLASSES[:40] + 1) % 3})
    assert len(list(data_folder.glob("*/*"))) == 4


def test_without_labels_the_models_own_outputs_are_the_target() -> None:
    assert search(model=MODEL, X=FEATURES, returns="class").problem.float_metrics()["train"]["accuracy_percent"] == 100


@pytest.mark.parametrize("classes", [[2, 4, 7], ["b", "a", "c"]], ids=["numbers", "texts"])
def test_a_pipeline_of_scikit_learn_is_its_own_predictions(classes: list[Any], tmp_path: Path) -> None:
    pytest.importorskip("skl2onnx")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    features, named = FEATURES * [1, 10, 100, 1, 1, 1] + 3, np.array(classes)[CLASSES]
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(features, named)
    study = search(model=pipeline, X=features, y=named)
    accuracy = 100 * (pipeline.predict(features) == named).mean()
    assert study.problem.float_metrics()["train"]["accuracy_percent"] == pytest.approx(accuracy)
    study.export(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "decisions.json").read_text())["classes"] == sorted(classes)
    quoted = ", ".join(f'"{name}"' if isinstance(name, str) else str(name) for name in sorted(classes))
    assert f"#define MODEL_CLASS_NAMES {{{quoted}}}\n" in (tmp_path / "out" / "model.h").read_text()
    assert f"2: {sorted(classes)[2]}." in (tmp_path / "out" / "README.md").read_text()
    if isinstance(classes[0], str):
        with pytest.raises(ValueError, match="y: expected the model's classes a, b, c, found 'd'"):
            search(model=pipeline, X=features, y=["d"] * len(features))


def test_a_pipeline_may_end_in_a_classifier_without_probabilities() -> None:
    """skl2onnx by itself refuses a LinearSVC there, though it converts one alone."""
    pytest.importorskip("skl2onnx")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    pipeline = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), LinearSVC())).fit(FEATURES, CLASSES)
    accuracy = 100 * (pipeline.predict(FEATURES) == CLASSES).mean()
    assert (
        search(model=pipeline, X=FEATURES, y=CLASSES).problem.float_metrics()["train"]["accuracy_percent"] == accuracy
    )


def test_features_of_very_different_size_are_searched() -> None:
    """Some weights have no scale of 8 bits that Algorithm 13 would try: they are not demoted."""
    datasets = pytest.importorskip("sklearn.datasets")
    pytest.importorskip("skl2onnx")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    features, classes = datasets.load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(features, classes)
    study = tune("shiftry", model=model, X=features, y=classes, budget="30trials")
    assert study.best.metrics["accuracy_percent"] > 80


def test_a_pytorch_module_is_taken_as_it_is_after_training() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(6, 3), torch.nn.Dropout(0.9))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor(WEIGHTS.T))
        model[0].bias.zero_()
    study = search(model=model, X=FEATURES, y=CLASSES)
    assert study.problem.float_metrics()["train"]["accuracy_percent"] == 100
    assert model.training


def test_a_module_that_cannot_be_written_is_refused_in_a_sentence() -> None:
    torch = pytest.importorskip("torch")

    class Strange(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x + 1 if x.sum() > 0 else x

    with pytest.raises(
        ValueError, match=r"expected a module that torch.onnx.export writes for samples 1x6, found Strange"
    ) as error:
        search(model=Strange(), X=FEATURES, y=CLASSES)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"model": object(), "X": FEATURES},
            "expected a fitted scikit-learn estimator, a PyTorch module or an ONNX ModelProto, found object",
        ),
        ({"model": MODEL}, "model: expected X, and y where there are labels"),
        ({"model": MODEL, "X": FEATURES, "input": "a.onnx"}, "and neither input nor data"),
        ({"X": FEATURES}, "X, y and test go with model"),
        ({"model": MODEL, "X": FEATURES, "y": CLASSES, "test": (FEATURES,)}, "test: expected a pair (Xt, yt)"),
        ({"model": MODEL, "X": FEATURES, "y": ["a"] * 60}, "y: expected classes as whole numbers, or real values"),
        ({"model": MODEL, "X": FEATURES, "y": WEIGHTS}, "y: expected one class or value a sample, found 3"),
        ({"model": MODEL, "X": FEATURES[:, :5], "y": CLASSES}, "array X: expected 6 features a sample"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(given: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=r"expected|go with") as error:
        search(**given)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)
