"""FastGRNN (Kusupati et al., NeurIPS 2018) on windows of a sensor or of speech, trained in NumPy, as a bundle.

    python -m kilotune.experiments.models.train.sequence_models WINDOWS.npz FOLDER [--hidden 16] [--epochs 200]

The file has windows [samples, steps, channels] and labels from 0 on: `Xtr`, `ytr`, `Xte`, `yte`, or `X`, `y` and either `test`, which marks
the test samples, or `subject`, the number of the person of each: three tenths of the people, those of the largest numbers, are tested.
Channels are standardised by the training windows, and 4 deviations become 1. Data sets that fit: UEA's JapaneseVowels
(www.timeseriesclassification.com, terms of the archive), the Free Spoken Digit Dataset (CC BY-SA 4.0), UCI's activity recognition
(CC BY 4.0). Nothing of them is in the project.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.experiments.models.train.bundle import TrainedModel, declarations, parameter_count, write_bundle

DEVIATIONS = 4.0
"""Features beyond so many standard deviations are clipped."""

LEARNING_RATE, BATCH, NOISE, DECAY = 0.01, 64, 0.05, 1e-4
FIRST, SECOND, TINY = 0.9, 0.999, 1e-8
"""Adam's (Kingma and Ba, ICLR 2015)."""

OPEN_GATE = 2.0
"""Where biases of gates begin: a state that is half forgotten at every step is gone after some, and nothing is learnt of long windows."""

BOUND = 1.95
"""WeightArrays stay within it, a little below a power of two."""

WeightArrays = dict[str, FloatArray]

PROGRAM = """\
// FastGRNN, {hidden} hidden units over {steps} steps of {channels} channels
let X = ({features}, 1) in [-1.0, 1.0] in
{declarations}let zeta = {zeta:.8f} in
let nu = {nu:.8f} in
let steps = reshape(X, ({steps}, 1, {channels}), (1, 2)) in
let H = init([1, {hidden}], 0.0) in
let last = loop(t = [0:{steps}], H) (
	let pre = (steps[t] * W) + (H * U) in
	let gate = sigmoid(pre + Bg) in
	let update = tanh(pre + Bh) in
	let H = (gate <*> H) + (zeta * (1.0 - gate) + nu) <*> update in
	H
) in
argmax((last * FC) + FCbias)
"""


@dataclass(frozen=True)
class Windows:
    """`values` [samples, steps, channels], `labels` [samples]."""

    values: FloatArray
    labels: IntArray


def read_windows(path: Path) -> tuple[Windows, Windows]:
    """Training and test windows, standardised. KeyError for a file without them."""
    with np.load(path, allow_pickle=False) as file:
        if "Xtr" in file:
            parts = [(file["Xtr"], file["ytr"]), (file["Xte"], file["yte"])]
        else:
            test = (
                file["test"].astype(bool) if "test" in file else np.isin(file["subject"], _last_people(file["subject"]))
            )
            parts = [(file["X"][~test], file["y"][~test]), (file["X"][test], file["y"][test])]
    train, other = (Windows(x.astype(np.float64), y.astype(np.int64)) for x, y in parts)
    mean, deviation = train.values.mean(axis=(0, 1)), train.values.std(axis=(0, 1))

    def scaled(windows: Windows) -> Windows:
        standard = (windows.values - mean) / np.maximum(deviation, TINY) / DEVIATIONS
        return replace(windows, values=np.clip(standard, -1.0, 1.0))

    return scaled(train), scaled(other)


def _last_people(subjects: IntArray) -> IntArray:
    """The numbers of those who are tested."""
    people = np.unique(subjects)
    return np.asarray(people[-(3 * len(people) // 10) :])


def run(weights: WeightArrays, values: FloatArray) -> tuple[FloatArray, list[tuple[FloatArray, ...]]]:
    """Scores [samples, classes], and of every step the states before it, the gates and the updates."""
    zeta, nu = weights["gates"]
    state = np.zeros((len(values), weights["U"].shape[0]))
    kept = []
    for step in range(values.shape[1]):
        before = values[:, step] @ weights["W"] + state @ weights["U"]
        gate, update = _sigmoid(before + weights["Bg"]), np.tanh(before + weights["Bh"])
        kept.append((state, gate, update))
        state = gate * state + (zeta * (1.0 - gate) + nu) * update
    return state @ weights["FC"] + weights["FCbias"], [*kept, (state,)]


def gradients(weights: WeightArrays, values: FloatArray, labels: IntArray) -> WeightArrays:
    """The gradients of the mean cross-entropy, through all steps."""
    scores, kept = run(weights, values)
    (last,) = kept.pop()
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    errors = shares / shares.sum(axis=1, keepdims=True)
    errors[np.arange(len(labels)), labels] -= 1.0
    errors /= len(labels)
    found = {name: np.zeros_like(value) for name, value in weights.items()}
    found["FC"], found["FCbias"] = last.T @ errors, errors.sum(axis=0, keepdims=True)
    (zeta, nu), back = weights["gates"], errors @ weights["FC"].T
    for step in range(values.shape[1] - 1, -1, -1):
        state, gate, update = kept[step]
        found["gates"] += [(back * (1.0 - gate) * update).sum(), (back * update).sum()]
        to_gate = back * (state - zeta * update) * gate * (1.0 - gate)
        to_update = back * (zeta * (1.0 - gate) + nu) * (1.0 - update * update)
        found["Bg"] += to_gate.sum(axis=0, keepdims=True)
        found["Bh"] += to_update.sum(axis=0, keepdims=True)
        both = to_gate + to_update
        found["W"] += values[:, step].T @ both
        found["U"] += state.T @ both
        back = back * gate + both @ weights["U"].T
    return found


def start(channels: int, hidden: int, classes: int, random: np.random.Generator) -> WeightArrays:
    """Random weights; zeta near 1 and nu near 0."""

    def normal(rows: int, columns: int) -> FloatArray:
        return random.normal(0.0, 1.0 / np.sqrt(rows), (rows, columns))

    return {
        "W": normal(channels, hidden),
        "U": 0.5 * normal(hidden, hidden),
        "Bg": np.full((1, hidden), OPEN_GATE),
        "Bh": np.zeros((1, hidden)),
        "FC": normal(hidden, classes),
        "FCbias": np.zeros((1, classes)),
        "gates": np.array([0.75, 0.1]),
    }


def fit(train: Windows, hidden: int, epochs: int, seed: int = 0) -> WeightArrays:
    """WeightArrays by Adam with a cosine learning rate, and noise on the features."""
    random = np.random.default_rng(seed)
    weights = start(train.values.shape[2], hidden, int(train.labels.max()) + 1, random)
    means = {name: np.zeros_like(value) for name, value in weights.items()}
    squares = {name: np.zeros_like(value) for name, value in weights.items()}
    batches = -(-len(train.labels) // BATCH)
    for number in range(epochs * batches):
        if number % batches == 0:
            order = random.permutation(len(train.labels))
        chosen = order[number % batches * BATCH :][:BATCH]
        values = train.values[chosen] + random.normal(0.0, NOISE, train.values[chosen].shape)
        rate = LEARNING_RATE * 0.5 * (1.0 + np.cos(np.pi * number / (epochs * batches)))
        for name, gradient in gradients(weights, values, train.labels[chosen]).items():
            means[name] = FIRST * means[name] + (1.0 - FIRST) * gradient
            squares[name] = SECOND * squares[name] + (1.0 - SECOND) * gradient**2
            mean, square = means[name] / (1.0 - FIRST ** (number + 1)), squares[name] / (1.0 - SECOND ** (number + 1))
            moved = weights[name] - rate * (mean / (np.sqrt(square) + TINY) + DECAY * weights[name])
            weights[name] = np.clip(moved, 0.01, 1.0) if name == "gates" else np.clip(moved, -BOUND, BOUND)
    return weights


def accuracy(weights: WeightArrays, windows: Windows) -> float:
    """The share of windows that get their label, in per cent."""
    return 100.0 * float((run(weights, windows.values)[0].argmax(axis=1) == windows.labels).mean())


def trained(name: str, parts: tuple[Windows, Windows], hidden: int, epochs: int) -> TrainedModel:
    """The bundle of a FastGRNN trained on the first part."""
    weights = fit(parts[0], hidden, epochs)
    shipped = {key: value.astype(np.float32) for key, value in weights.items() if key != "gates"}
    _, steps, channels = parts[0].values.shape
    zeta, nu = weights["gates"]
    text = PROGRAM.format(
        **{
            "hidden": hidden,
            "steps": steps,
            "channels": channels,
            "features": steps * channels,
            "zeta": zeta,
            "nu": nu,
        },
        declarations=declarations(shipped),
    )
    reached = [f"{part} {accuracy(weights, some):.2f} %" for part, some in zip(("train", "test"), parts, strict=True)]
    readme = f"FastGRNN on {name}: {hidden} hidden units, {parameter_count(shipped)}. Float accuracy: {', '.join(reached)}.\n"
    rows = [np.column_stack([some.labels, some.values.reshape(len(some.labels), -1)]) for some in parts]
    return TrainedModel(name, text, shipped, readme, *(part.astype(np.float32) for part in rows))


def _sigmoid(x: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("windows", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=200)
    options = parser.parse_args()
    model = trained(options.windows.stem, read_windows(options.windows), options.hidden, options.epochs)
    write_bundle(model, options.folder)
    print(model.readme, end="")


if __name__ == "__main__":
    main()
