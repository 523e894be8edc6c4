"""A gated recurrent unit (Cho et al., EMNLP 2014; the variant that resets after the product, as PyTorch and cuDNN compute it).

An 8 x 8 digit is read as 8 time steps of 8 pixels, like FastGRNN's; a window of a sensor as its steps of 6 channels;
an utterance as its steps of 12 coefficients, a spoken digit as its frames of 16 bands.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch

from kilotune.experiments.models.train import activities, digits, spoken_digits, vowels
from kilotune.experiments.models.train.bundle import TrainedModel
from kilotune.experiments.models.train.fitting import Parameters, TrainingSettings, trained_classifier

HIDDEN = 16
DIGITS_RECIPE = TrainingSettings(epochs=150, noise=0.25, bound=1.95)
ACTIVITIES_RECIPE = TrainingSettings(epochs=100, noise=0.05, bound=1.95, weight_decay=1e-2)
VOWELS_RECIPE = TrainingSettings(epochs=150, noise=0.1, bound=1.95, weight_decay=1e-2)
SPOKEN_RECIPE = TrainingSettings(epochs=100, noise=0.05, bound=1.95, weight_decay=1e-2)
OPEN_GATE = 1.0
"""Where the biases of z begin for long windows, so that the first steps are not forgotten before anything is learnt of them."""

PROGRAM = """\
// GRU, 16 hidden units; {read}
// Gates: z keeps the state, r resets what the new state takes of it, n is the new state
let X = ({features}, 1) in [-1.0, 1.0] in
{declarations}
let steps = reshape(X, ({steps}, 1, {channels}), (1, 2)) in
let H = init([1, 16], 0.0) in
let last = loop(t = [0:{steps}], H)
(
	let z = sigmoid(((steps[t] * Wz) + (H * Uz)) + Bz) in
	let r = sigmoid(((steps[t] * Wr) + (H * Ur)) + Br) in
	let n = tanh(((steps[t] * Wn) + Bn) + (r <*> ((H * Un) + Cn))) in
	let H = (z <*> H) + ((1.0 - z) <*> n) in
	H
) in
argmax((last * FC) + FCbias)
"""


@dataclass(frozen=True)
class Sequence:
    """What is read: `steps` of `channels` features each, of so many classes; `read`: how a sample becomes steps, in words."""

    steps: int
    channels: int
    classes: int
    read: str

    @property
    def program(self) -> str:
        """The text of the program, with the place of its declarations."""
        size = {"steps": self.steps, "channels": self.channels, "features": self.steps * self.channels}
        return PROGRAM.format(read=self.read, declarations="{declarations}", **size)


DIGITS = Sequence(8, 8, digits.CLASSES, "an 8x8 digit is read as 8 time steps of 8 pixels")
ACTIVITIES = Sequence(
    activities.STEPS, activities.CHANNELS, activities.CLASSES, "1.28 s are read as 32 time steps of 6 channels"
)

VOWELS = Sequence(
    vowels.STEPS, vowels.CHANNELS, vowels.CLASSES, "an utterance is read as 25 time steps of 12 coefficients"
)

SPOKEN = Sequence(
    spoken_digits.STEPS, spoken_digits.CHANNELS, spoken_digits.CLASSES, "a recording is read as 32 frames of 16 bands"
)


def scores(sequence: Sequence, parameters: Parameters, features: torch.Tensor, progress: float) -> torch.Tensor:
    """Class scores of the last hidden state."""
    p = parameters
    hidden = features.new_zeros((len(features), HIDDEN))
    for values in features.reshape(-1, sequence.steps, sequence.channels).unbind(dim=1):
        keep = torch.sigmoid(values @ p["Wz"] + hidden @ p["Uz"] + p["Bz"])
        reset = torch.sigmoid(values @ p["Wr"] + hidden @ p["Ur"] + p["Br"])
        new = torch.tanh(values @ p["Wn"] + p["Bn"] + reset * (hidden @ p["Un"] + p["Cn"]))
        hidden = keep * hidden + (1.0 - keep) * new
    return hidden @ p["FC"] + p["FCbias"]


def start(sequence: Sequence, seed: int, kept: float = 0.0) -> Parameters:
    """Random weights; biases of zero, but `kept` for the gate that keeps the state."""
    random = torch.Generator().manual_seed(seed)

    def normal(rows: int, columns: int) -> torch.Tensor:
        return torch.randn((rows, columns), generator=random) / math.sqrt(rows)

    gates = ("z", "r", "n")
    return {
        **{f"W{gate}": normal(sequence.channels, HIDDEN) for gate in gates},
        **{f"U{gate}": 0.5 * normal(HIDDEN, HIDDEN) for gate in gates},
        **{f"B{gate}": torch.full((1, HIDDEN), kept if gate == "z" else 0.0) for gate in gates},
        "Cn": torch.zeros((1, HIDDEN)),
        "FC": normal(HIDDEN, sequence.classes),
        "FCbias": torch.zeros((1, sequence.classes)),
    }


def train() -> TrainedModel:
    """The GRU on digits."""
    about = f"GRU: {HIDDEN} hidden units, 8 time steps of 8 pixels, 10 classes"
    named = ("gru16-digits", about, digits.ATTRIBUTION)
    initial, of_digits = start(DIGITS, DIGITS_RECIPE.seed), functools.partial(scores, DIGITS)
    return trained_classifier(named, DIGITS.program, initial, of_digits, digits.load_split(), DIGITS_RECIPE)


def train_on_activities() -> TrainedModel:
    """The GRU on activities."""
    about = f"GRU: {HIDDEN} hidden units, 32 time steps of 6 channels, 6 classes"
    named = ("gru16-activities", about, activities.ATTRIBUTION)
    recipe, split = ACTIVITIES_RECIPE, activities.load_split()
    initial = start(ACTIVITIES, recipe.seed, OPEN_GATE)
    return trained_classifier(named, ACTIVITIES.program, initial, functools.partial(scores, ACTIVITIES), split, recipe)


def train_on_vowels() -> TrainedModel:
    """The GRU on vowels, which names the speaker."""
    about = f"GRU: {HIDDEN} hidden units, 25 time steps of 12 coefficients, 9 speakers"
    named = ("gru16-vowels", about, vowels.ATTRIBUTION)
    initial = start(VOWELS, VOWELS_RECIPE.seed, OPEN_GATE)
    of_vowels = functools.partial(scores, VOWELS)
    return trained_classifier(named, VOWELS.program, initial, of_vowels, vowels.load_split(), VOWELS_RECIPE)


def train_on_spoken_digits() -> TrainedModel:
    """The GRU on spoken digits."""
    about = f"GRU: {HIDDEN} hidden units, 32 frames of 16 bands, 10 classes (a frame at a time on an Uno: docs/results-streaming.md)"
    named = ("gru16-spoken", about, spoken_digits.ATTRIBUTION)
    initial, of_spoken = start(SPOKEN, SPOKEN_RECIPE.seed, OPEN_GATE), functools.partial(scores, SPOKEN)
    return trained_classifier(named, SPOKEN.program, initial, of_spoken, spoken_digits.load_split(), SPOKEN_RECIPE)
