"""The bundled models are what their READMEs say: written out once more in plain NumPy, straight from the files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from kilotune.experiments.models.catalogue import (
    DEFAULT_MODEL,
    forest_names,
    forest_path,
    forest_samples,
    model_names,
    model_origin,
    model_path,
)

Array = npt.NDArray[np.float64]
Model = dict[str, Array]

DIGITS = (
    "bonsai-digits",
    "fastgrnn16-digits",
    "fastgrnn32-digits",
    "gru16-digits",
    "lenet-digits",
    "mlp-digits",
    "protonn-digits",
)
CLASSIFIERS = (
    *DIGITS,
    "cnn-exercises",
    "gru16-activities",
    "gru16-spoken",
    "gru16-vowels",
    "lenet-mnist",
    "protonn-cancer",
)
WITH_DATA = (*CLASSIFIERS, "mlp-diabetes")
LEAST_TEST_ACCURACY = {
    "bonsai-digits": 94.0,
    "cnn-exercises": 80.0,
    "fastgrnn16-digits": 97.0,
    "fastgrnn32-digits": 97.0,
    "gru16-activities": 90.0,
    "gru16-digits": 97.0,
    "gru16-spoken": 95.0,
    "gru16-vowels": 97.0,
    "lenet-digits": 97.5,
    "lenet-mnist": 97.5,
    "mlp-digits": 97.0,
    "protonn-cancer": 95.0,
    "protonn-digits": 95.0,
}


def parameters(name: str) -> Model:
    return {path.stem: np.load(path).astype(np.float64) for path in model_path(name).glob("*.npy")}


def rows(name: str, part: str) -> Array:
    with np.load(model_path(name) / f"{part}.npz") as archive:
        assert archive.files == ["data"]
        return np.asarray(archive["data"], dtype=np.float64)


def program(name: str) -> str:
    return (model_path(name) / "model.sd").read_text(encoding="utf-8")


def literal(name: str, scalar: str) -> float:
    found = re.search(rf"let {scalar} = (-?[0-9.]+) in", program(name))
    assert found is not None
    return float(found[1])


def declared(name: str) -> dict[str, tuple[tuple[int, ...], float, float]]:
    """Shape, low and high of every declaration."""
    found = re.findall(r"let (\w+) = \(([\d, ]+)\) in \[(.+?), (.+?)\] in", program(name))
    return {
        variable: (tuple(int(extent) for extent in shape.split(",")), float(low), float(high))
        for variable, shape, low, high in found
    }


def sigmoid(values: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-values)))


def protonn(name: str, features: Array) -> Array:
    model = parameters(name)
    scores = np.zeros((len(features), model["Z"].shape[1]))
    for prototype, score in zip(model["B"][:, :, 0], model["Z"][:, :, 0], strict=True):
        distance = features @ model["W"].T - prototype
        scores += np.exp(-literal(name, "gammaSq") * (distance**2).sum(axis=1))[:, None] * score
    return scores


def bonsai(name: str, features: Array) -> Array:
    """One sample at a time, down the tree."""
    model = parameters(name)
    nodes = [slice(10 * k, 10 * k + 10) for k in range(7)]
    scores = np.zeros((len(features), 10))
    for sample, pixels in enumerate(features):
        z = model["Z"] @ pixels
        node = 0
        while node < 7:
            scores[sample] += (model["W"][nodes[node]] @ z) * np.tanh(model["V"][nodes[node]] @ z)
            node = 2 * node + (1 if node > 2 or model["T"][node] @ z >= 0 else 2)
    return scores


def fastgrnn(name: str, features: Array) -> Array:
    model, zeta, nu = parameters(name), literal(name, "zeta"), literal(name, "nu")
    hidden = np.zeros((len(features), model["U"].shape[0]))
    for step in range(8):
        before = features[:, 8 * step : 8 * step + 8] @ model["W"] + hidden @ model["U"]
        gate = sigmoid(before + model["Bg"])
        hidden = gate * hidden + (zeta * (1.0 - gate) + nu) * np.tanh(before + model["Bh"])
    return np.asarray(hidden @ model["FC"] + model["FCbias"])


def convolve(image: Array, filters: Array) -> Array:
    """3 x 3, one pixel of zeros around; image [N, H, W, C], filters [1, 3, 3, C, C']."""
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1), (0, 0)))
    height, width = image.shape[1:3]
    shifted = [padded[:, y : y + height, x : x + width] @ filters[0, y, x] for y in range(3) for x in range(3)]
    return np.asarray(sum(shifted))


def pool(image: Array) -> Array:
    return np.asarray(np.max([image[:, y::2, x::2] for y in (0, 1) for x in (0, 1)], axis=0))


def lenet(name: str, features: Array) -> Array:
    model = parameters(name)
    size = round(features.shape[1] ** 0.5)
    image = features.reshape(-1, size, size, 1)
    for layer in "12":
        image = pool(np.maximum(convolve(image, model[f"F{layer}"]) + model[f"B{layer}"], 0.0))
    return np.asarray(image.reshape(len(image), -1) @ model["FC"] + model["FCbias"])


def mlp(name: str, features: Array) -> Array:
    model, values = parameters(name), features.T
    for layer in "12":
        values = np.maximum(model[f"W{layer}"] @ values + model[f"B{layer}"], 0.0)
    return np.asarray((model["W3"] @ values + model["B3"]).T)


def gru(name: str, features: Array) -> Array:
    """As PyTorch's documentation writes it, where z is how much of the old state stays."""
    m = parameters(name)
    hidden, channels = np.zeros((len(features), 16)), len(m["Wz"])
    for begin in range(0, features.shape[1], channels):
        x = features[:, begin : begin + channels]
        z = sigmoid(x @ m["Wz"] + m["Bz"] + hidden @ m["Uz"])
        r = sigmoid(x @ m["Wr"] + m["Br"] + hidden @ m["Ur"])
        new = np.tanh(x @ m["Wn"] + m["Bn"] + r * (hidden @ m["Un"] + m["Cn"]))
        hidden = new + z * (hidden - new)
    return np.asarray(hidden @ m["FC"] + m["FCbias"])


def over_time(name: str, features: Array) -> Array:
    """5 steps at a time, 2 of zeros before and after; values [samples, steps, channels], filters [1, 5, 1, C, C']."""
    model, values = parameters(name), features.reshape(-1, 32, 6)
    for layer in "12":
        padded, steps = np.pad(values, ((0, 0), (2, 2), (0, 0))), values.shape[1]
        found = sum(padded[:, k : k + steps] @ model[f"F{layer}"][0, k, 0] for k in range(5)) + model[f"B{layer}"]
        values = np.maximum(np.maximum(found[:, 0::2], found[:, 1::2]), 0.0)
    return np.asarray(values.reshape(len(values), -1) @ model["FC"] + model["FCbias"])


FORWARD: dict[str, Callable[[str, Array], Array]] = {
    "bonsai-digits": bonsai,
    "cnn-exercises": over_time,
    "fastgrnn16-digits": fastgrnn,
    "fastgrnn32-digits": fastgrnn,
    "gru16-activities": gru,
    "gru16-digits": gru,
    "gru16-spoken": gru,
    "gru16-vowels": gru,
    "lenet-digits": lenet,
    "lenet-mnist": lenet,
    "mlp-digits": mlp,
    "protonn-cancer": protonn,
    "protonn-digits": protonn,
}


def labels(scores: Array) -> Array:
    """The class of largest score; of a single score, whether it is positive (sgn)."""
    return np.asarray(scores[:, 0] > 0 if scores.shape[1] == 1 else scores.argmax(axis=1), dtype=np.float64)


def test_catalogue_names_every_model() -> None:
    assert model_names() == tuple(sorted((*WITH_DATA, "worked-example")))
    assert DEFAULT_MODEL in model_names()


def test_unknown_model_is_a_sentence_with_the_names() -> None:
    with pytest.raises(
        ValueError, match=r"no bundled model 'lenet' .did you mean 'lenet-mnist'.*; there are .*lenet-digits"
    ):
        model_path("lenet")


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_readme_states_the_accuracy_that_numpy_finds(name: str) -> None:
    readme = (model_path(name) / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) == 3
    for part in ("train", "test"):
        found = re.search(rf"{part} ([\d.]+) % \((\d+) of (\d+)\)", readme)
        assert found is not None
        data = rows(name, part)
        right = int((labels(FORWARD[name](name, data[:, 1:])) == data[:, 0]).sum())
        assert (right, len(data)) == (int(found[2]), int(found[3]))
        assert float(found[1]) == pytest.approx(100 * right / len(data), abs=0.005)
        if part == "test":
            assert float(found[1]) >= LEAST_TEST_ACCURACY[name]


def test_diabetes_readme_states_the_r_squared_that_numpy_finds() -> None:
    name = "mlp-diabetes"
    model = parameters(name)
    readme = (model_path(name) / "README.md").read_text(encoding="utf-8")
    for part in ("train", "test"):
        data = rows(name, part)
        hidden = np.tanh(model["W1"] @ data[:, 1:].T + model["B1"])
        errors = (model["W2"] @ hidden + model["B2"])[0] - data[:, 0]
        found = re.search(rf"{part} ([\d.]+\d)", readme)
        assert found is not None
        assert float(found[1]) == pytest.approx(1.0 - (errors**2).mean() / data[:, 0].var(), abs=1e-4)


def test_worked_example_gives_the_printed_result() -> None:
    """Shiftry Section 3: "the result of the floating-point code is -5.11167404"."""
    model = parameters("worked-example")
    result = model["W2"] @ (model["W1"] @ model["X"] + model["B1"]) + model["B2"]
    assert result.item() == pytest.approx(-5.11167404, abs=5e-9)


def test_the_forest_decides_in_onnxruntime_as_its_readme_says() -> None:
    runtime = pytest.importorskip("onnxruntime")
    assert forest_names() == ("forest-digits",)
    path = forest_path("forest-digits")
    session = runtime.InferenceSession(str(path))
    readme = path.with_name("README.md").read_text(encoding="utf-8")
    samples = forest_samples(path)
    assert samples is not None
    with np.load(samples) as data:
        for part, names in (("train", ("X", "y")), ("test", ("Xt", "yt"))):
            features, classes = (data[name] for name in names)
            right = int((session.run(["label"], {"X": features.astype(np.float32)})[0] == classes).sum())
            assert f"{part} {100 * right / len(classes):.2f} % ({right} of {len(classes)})" in readme


def test_samples_of_a_forest_are_only_those_of_a_bundled_one(tmp_path: Path) -> None:
    assert forest_samples(tmp_path / "forest-digits" / "forest-digits.onnx") is None
    assert forest_samples(forest_path("forest-digits").with_name("other.onnx")) is None


@pytest.mark.parametrize("name", [*model_names(), *forest_names()])
def test_every_model_says_where_its_data_come_from_and_under_which_licence(name: str) -> None:
    origin = model_origin(name)
    assert 10 < len(origin.source) < 80
    assert origin.licence in ("CC BY 4.0", "CC BY-SA 3.0", "CC BY-SA 4.0", "BSD-3-Clause")


@pytest.mark.parametrize("name", model_names())
def test_declarations_fit_the_files(name: str) -> None:
    declarations, arrays = declared(name), parameters(name)
    assert set(declarations) - {"X"} == set(arrays) - {"X"}
    if name in WITH_DATA:
        data = np.concatenate([rows(name, part)[:, 1:] for part in ("train", "test")])
        arrays["X"] = data[..., None]
    for variable, (shape, low, high) in declarations.items():
        values = arrays[variable]
        assert (values.shape[1:] if variable == "X" and name in WITH_DATA else values.shape) == shape
        assert low <= values.min() <= values.max() <= high
        assert np.isfinite(values).all()
        if variable != "X":
            assert low + 1.1e-6 >= values.min()
            assert high - 1.1e-6 <= values.max()


@pytest.mark.parametrize("name", model_names())
def test_program_begins_with_a_comment(name: str) -> None:
    assert program(name).startswith("// ")


@pytest.mark.parametrize("name", WITH_DATA)
def test_no_sample_is_in_both_train_and_test(name: str) -> None:
    train, test = ({row.tobytes() for row in rows(name, part)} for part in ("train", "test"))
    assert not train & test
    assert len(train) == len(rows(name, "train"))


@pytest.mark.slow
@pytest.mark.parametrize("name", DIGITS)
def test_digits_are_scikit_learns(name: str) -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    digits = datasets.load_digits()
    real = np.column_stack([digits.target, digits.data / 8.0 - 1.0])
    shipped = np.concatenate([rows(name, "train"), rows(name, "test")])
    assert {row.tobytes() for row in shipped} == {row.tobytes() for row in real}
    assert len(rows(name, "train")) == 1200
