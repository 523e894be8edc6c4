"""The working example of Shiftry Section 3 (Pseudocode 1): a linear model with constants, no data and a real result."""

from __future__ import annotations

import numpy as np

from kilotune.experiments.models.train.bundle import TrainedArray, TrainedModel, declarations, parameter_count

PROGRAM = """\
// The working example of Shiftry, Section 3 (Pseudocode 1): W2 * (W1 * X + B1) + B2, a real number
{declarations}
let t1 = W1 * X in
let t2 = t1 + B1 in
let t3 = W2 * t2 in
let t4 = t3 + B2 in
t4
"""

README = """\
Working example: a linear model, W2 * (W1 * X + B1) + B2, whose X is a constant too; {count}.
Source: Aayan Kumar, Vivek Seshadri, Rahul Sharma, "Shiftry: RNN Inference in 2KB of RAM", OOPSLA 2020, \
Section 3, Pseudocode 1. CC BY 4.0; no data.
Float result: {result:.8f}.
"""


def constants() -> dict[str, TrainedArray]:
    """The values of Pseudocode 1, in float64: the printed result, -5.11167404, needs the decimals as they are."""
    values: dict[str, list[list[float]]] = {
        "W1": [[0.0421, 0.1948], [1.021, -0.827]],
        "B1": [[-0.032], [0.619]],
        "W2": [[-0.402, -1.013]],
        "B2": [[0.737]],
        "X": [[2.391], [-3.583]],
    }
    return {name: np.array(rows, dtype=np.float64) for name, rows in values.items()}


def train() -> TrainedModel:
    """The bundle; nothing is trained."""
    shipped = constants()
    result = shipped["W2"] @ (shipped["W1"] @ shipped["X"] + shipped["B1"]) + shipped["B2"]
    readme = README.format(count=parameter_count(shipped), result=float(result[0, 0]))
    return TrainedModel("worked-example", PROGRAM.format(declarations=declarations(shipped)), shipped, readme)
