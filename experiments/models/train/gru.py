"""A gated recurrent unit (Cho et al., EMNLP 2014; the variant that resets after the product, as PyTorch and cuDNN compute it).

An 8 x 8 digit is read as 8 time steps of 8 pixels, like FastGRNN's.
"""

from __future__ import annotations

import math

import torch

from kilotune.experiments.models.train import digits
from kilotune.experiments.models.train.bundle import TrainedModel
from kilotune.experiments.models.train.fitting import Parameters, TrainingSettings, trained_classifier

STEPS = 8
PIXELS = 8
HIDDEN = 16
RECIPE = TrainingSettings(epochs=150, noise=0.25, bound=1.95)

PROGRAM = """\
// GRU, 16 hidden units; an 8x8 digit is read as 8 time steps of 8 pixels
// Gates: z keeps the state, r resets what the new state takes of it, n is the new state
let X = (64, 1) in [-1.0, 1.0] in
{declarations}
let steps = reshape(X, (8, 1, 8), (1, 2)) in
let H = init([1, 16], 0.0) in
let last = loop(t = [0:8], H)
(
	let z = sigmoid(((steps[t] * Wz) + (H * Uz)) + Bz) in
	let r = sigmoid(((steps[t] * Wr) + (H * Ur)) + Br) in
	let n = tanh(((steps[t] * Wn) + Bn) + (r <*> ((H * Un) + Cn))) in
	let H = (z <*> H) + ((1.0 - z) <*> n) in
	H
) in
argmax((last * FC) + FCbias)
"""


def scores(parameters: Parameters, features: torch.Tensor, progress: float) -> torch.Tensor:
    """Class scores of the last hidden state."""
    p = parameters
    hidden = features.new_zeros((len(features), HIDDEN))
    for pixels in features.reshape(-1, STEPS, PIXELS).unbind(dim=1):
        keep = torch.sigmoid(pixels @ p["Wz"] + hidden @ p["Uz"] + p["Bz"])
        reset = torch.sigmoid(pixels @ p["Wr"] + hidden @ p["Ur"] + p["Br"])
        new = torch.tanh(pixels @ p["Wn"] + p["Bn"] + reset * (hidden @ p["Un"] + p["Cn"]))
        hidden = keep * hidden + (1.0 - keep) * new
    return hidden @ p["FC"] + p["FCbias"]


def start(seed: int) -> Parameters:
    """Random weights; biases of zero."""
    random = torch.Generator().manual_seed(seed)

    def normal(rows: int, columns: int) -> torch.Tensor:
        return torch.randn((rows, columns), generator=random) / math.sqrt(rows)

    gates = ("z", "r", "n")
    return {
        **{f"W{gate}": normal(PIXELS, HIDDEN) for gate in gates},
        **{f"U{gate}": 0.5 * normal(HIDDEN, HIDDEN) for gate in gates},
        **{f"B{gate}": torch.zeros((1, HIDDEN)) for gate in gates},
        "Cn": torch.zeros((1, HIDDEN)),
        "FC": normal(HIDDEN, digits.CLASSES),
        "FCbias": torch.zeros((1, digits.CLASSES)),
    }


def train() -> TrainedModel:
    """The GRU on digits."""
    named = ("gru16-digits", f"GRU: {HIDDEN} hidden units, 8 time steps of 8 pixels, 10 classes", digits.ATTRIBUTION)
    return trained_classifier(named, PROGRAM, start(RECIPE.seed), scores, digits.load_split(), RECIPE)
