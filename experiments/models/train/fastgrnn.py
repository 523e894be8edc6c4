"""FastGRNN (Kusupati et al., NeurIPS 2018; Shiftry Appendix A, Pseudocode 18): a gated recurrence with shared weights.

An 8 x 8 digit is read as 8 time steps of 8 pixels.
"""

from __future__ import annotations

import math

import torch

from kilotune.experiments.models.train import digits
from kilotune.experiments.models.train.bundle import TrainedModel, declarations, parameter_count
from kilotune.experiments.models.train.fitting import Parameters, TrainingSettings, accuracy_line, fit, to_arrays

STEPS = 8
PIXELS = 8
RECIPE = TrainingSettings(epochs=200, noise=0.25, bound=1.95)

PROGRAM = """\
// FastGRNN, {hidden} hidden units; an 8x8 digit is read as 8 time steps of 8 pixels
let X = (64, 1) in [-1.0, 1.0] in
{declarations}let zeta = {zeta} in
let nu = {nu} in

let steps = reshape(X, (8, 1, 8), (1, 2)) in
let H = init([1, {hidden}], 0.0) in
let last = loop(t = [0:8], H)
(
	let pre = (steps[t] * W) + (H * U) in
	let gate = sigmoid(pre + Bg) in
	let update = tanh(pre + Bh) in
	let H = (gate <*> H) + (zeta * (1.0 - gate) + nu) <*> update in
	H
) in
argmax((last * FC) + FCbias)
"""


def scores(parameters: Parameters, features: torch.Tensor, progress: float) -> torch.Tensor:
    """Class scores of the last hidden state. zeta and nu are sigmoids of `gates`, so they stay in (0, 1)."""
    zeta, nu = torch.sigmoid(parameters["gates"])
    hidden = features.new_zeros((len(features), parameters["U"].shape[0]))
    for pixels in features.reshape(-1, STEPS, PIXELS).unbind(dim=1):
        before = pixels @ parameters["W"] + hidden @ parameters["U"]
        gate = torch.sigmoid(before + parameters["Bg"])
        hidden = gate * hidden + (zeta * (1.0 - gate) + nu) * torch.tanh(before + parameters["Bh"])
    return hidden @ parameters["FC"] + parameters["FCbias"]


def start(hidden: int, seed: int) -> Parameters:
    """Random weights; zeta near 1 and nu near 0."""
    random = torch.Generator().manual_seed(seed)

    def normal(rows: int, columns: int) -> torch.Tensor:
        return torch.randn((rows, columns), generator=random) / math.sqrt(rows)

    return {
        "W": normal(PIXELS, hidden),
        "U": 0.5 * normal(hidden, hidden),
        "Bg": torch.zeros((1, hidden)),
        "Bh": torch.zeros((1, hidden)),
        "FC": normal(hidden, digits.CLASSES),
        "FCbias": torch.zeros((1, digits.CLASSES)),
        "gates": torch.tensor([1.0, -2.0]),
    }


def train(hidden: int) -> TrainedModel:
    """FastGRNN with that many hidden units on digits."""
    split = digits.load_split()
    fitted = fit(start(hidden, RECIPE.seed), scores, split.train, RECIPE)
    shipped = to_arrays({name: value for name, value in fitted.items() if name != "gates"})
    zeta, nu = (f"{value:.8f}" for value in torch.sigmoid(fitted["gates"]).tolist())
    readme = (
        f"FastGRNN: {hidden} hidden units, 8 time steps of 8 pixels, 10 classes; {parameter_count(shipped)}.\n"
        f"{digits.ATTRIBUTION}\n{accuracy_line(fitted, scores, split.train, split.test)}\n"
    )
    program = PROGRAM.format(hidden=hidden, declarations=declarations(shipped), zeta=zeta, nu=nu)
    return TrainedModel(f"fastgrnn{hidden}-digits", program, shipped, readme, split.train, split.test)
