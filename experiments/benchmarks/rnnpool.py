"""A program of RNNPool's shape (Saha et al., NeurIPS 2020) with random weights, as a bundle: what a face detector runs.

An image of SIDE x SIDE pixels and CHANNELS is read row by row and column by column by one FastGRNN; a second one reads
the states of the rows, and of the columns, in both directions. The four last states are classified.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kilotune.codegen.bundle import load_bundle
from kilotune.codegen.float_evaluator import run_float

SIDE, CHANNELS, FIRST, SECOND, CLASSES = 8, 4, 8, 8, 2


def _cell(step: str, state: str, number: int) -> str:
    """One FastGRNN step from `step` and `state`; the expression that the state is rebound to."""
    return f"""
            let pre = ({step} * W{number}) + ({state} * U{number}) in
            let gate = sigmoid(pre + Bg{number}) in
            let update = tanh(pre + Bh{number}) in
            let {state} = (gate <*> {state}) + (0.85 * (1.0 - gate) + 0.27) <*> update in
            {state}"""


def _sweep(name: str, along: str) -> str:
    """States of the first cell after each row (or column)."""
    place = "[i:+1][j:+1]" if along == "rows" else "[j:+1][i:+1]"
    pixel = f"image{place}[0:+{CHANNELS}]"
    return f"""
let {name} = init([{SIDE}, {FIRST}], 0.0) in
let {name}Done = loop(i = [0:{SIDE}], {name})
(
    let h = init([1, {FIRST}], 0.0) in
    let last = loop(j = [0:{SIDE}], h)
    (
        let pixel = reshape({pixel}, (1, {CHANNELS}), (1, 2, 3)) in{_cell("pixel", "h", 1)}
    ) in
    let {name}[i:+1][0:+{FIRST}] = last in
    {name}
) in"""


def _summary(name: str, states: str) -> str:
    """The second cell over the states, forwards and backwards."""
    text = ""
    for suffix, source in (("Fwd", states), ("Bwd", f"reverse({states}, 0)")):
        result = f"{name}{suffix}"
        text += f"""
let s{result} = {source} in
let h{result} = init([1, {SECOND}], 0.0) in
let {result} = loop(k = [0:{SIDE}], h{result})
(
            let step = s{result}[k:+1][0:+{FIRST}] in{_cell("step", f"h{result}", 2)}
) in"""
    return text


def source() -> str:
    """model.sd."""
    shapes = _shapes()
    lines = [f"let X = ({SIDE * SIDE * CHANNELS}, 1) in [-1.0, 1.0] in"]
    lines += [f"let {name} = ({rows}, {columns}) in [-1.0, 1.0] in" for name, (rows, columns) in shapes.items()]
    lines += [f"let image = reshape(X, ({SIDE}, {SIDE}, {CHANNELS}), (1, 2)) in"]
    text = "\n".join(lines)
    text += (
        _sweep("rows", "rows") + _summary("r", "rowsDone") + _sweep("columns", "columns") + _summary("c", "columnsDone")
    )
    text += f"\nlet all = init([1, {4 * SECOND}], 0.0) in"
    for number, part in enumerate(("rFwd", "rBwd", "cFwd", "cBwd")):
        text += f"\nlet all[0:+1][{number * SECOND}:+{SECOND}] = {part} in"
    return text + "\nargmax((all * FC) + FCbias)\n"


def _shapes() -> dict[str, tuple[int, int]]:
    shapes: dict[str, tuple[int, int]] = {}
    for number, (given, state) in enumerate(((CHANNELS, FIRST), (FIRST, SECOND)), start=1):
        shapes |= {
            f"W{number}": (given, state),
            f"U{number}": (state, state),
            f"Bg{number}": (1, state),
            f"Bh{number}": (1, state),
        }
    return shapes | {"FC": (4 * SECOND, CLASSES), "FCbias": (1, CLASSES)}


def write_bundle(folder: Path, seed: int = 0) -> Path:
    """The bundle in `folder`: 200 random images, labelled as the float program labels them, so that its accuracy is 100 %."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.sd").write_text(source())
    for name, shape in _shapes().items():
        np.save(folder / f"{name}.npy", rng.uniform(-1, 1, shape))
    rows = rng.uniform(-1, 1, (200, 1 + SIDE * SIDE * CHANNELS))
    rows[:, 0] = rng.integers(0, CLASSES, len(rows))
    np.save(folder / "train.npy", rows)
    bundle = load_bundle(folder)
    rows[:, 0] = run_float(bundle.program, bundle.parameters, rows[:, 1:]).labels
    np.save(folder / "train.npy", rows)
    return folder
