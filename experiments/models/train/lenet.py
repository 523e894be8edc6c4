"""A LeNet-style CNN (LeCun et al., 1998; SeeDot Section 7.4): two convolutions with pooling and a dense layer.

On digits of 8 x 8 pixels, and smaller on MNIST's of 28 x 28, so that an image and its first layer fit 2 KB of RAM.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch.nn import functional

from kilotune.experiments.models.train import digits, mnist
from kilotune.experiments.models.train.bundle import TrainedModel
from kilotune.experiments.models.train.fitting import Parameters, TrainingSettings, trained_classifier

DIGITS_RECIPE = TrainingSettings(epochs=120, noise=0.25, bound=1.95)
MNIST_RECIPE = TrainingSettings(epochs=30, noise=0.25, bound=1.95)

PROGRAM = """\
// LeNet-style CNN: {size}x{size} pixels, two 3x3 convolutions ({one} and {two} channels) with 2x2 max pooling, a dense layer, 10 classes
// Activations are (N, H, W, C), filters (groups, kH, kW, Cin, Cout)
let X = ({features}, 1) in [-1.0, 1.0] in
{declarations}
let image = reshape(X, (1, {size}, {size}, 1), (1, 2)) in
let conv1 = relu(conv2d(image, F1, {{s 1 1}}, {{p 1 1 1 1}}, {{d 1 1}}, {{g 1}}) <+> B1) in
let pool1 = maxpool(conv1, {{k 2 2}}, {{p 0 0 0 0}}, {{s 2 2}}) in
let conv2 = relu(conv2d(pool1, F2, {{s 1 1}}, {{p 1 1 1 1}}, {{d 1 1}}, {{g 1}}) <+> B2) in
let pool2 = maxpool(conv2, {{k 2 2}}, {{p 0 0 0 0}}, {{s 2 2}}) in
let flat = reshape(pool2, (1, {flat}), (1, 2, 3, 4)) in
argmax((flat * FC) + FCbias)
"""


@dataclass(frozen=True)
class Layers:
    """Images of `size` x `size` pixels, of so many classes; the channels of both convolutions."""

    size: int
    channels: tuple[int, int]
    classes: int

    @property
    def flat(self) -> int:
        """How many values the dense layer reads: a quarter of the height and of the width is left."""
        return (self.size // 4) ** 2 * self.channels[1]

    @property
    def program(self) -> str:
        """The text of the program, with the place of its declarations."""
        first, second = self.channels
        sizes = {"size": self.size, "features": self.size**2, "one": first, "two": second, "flat": self.flat}
        # what the operators have in braces stays doubled, for the formatting that fills in the declarations
        return PROGRAM.replace("{{", "{{{{").replace("}}", "}}}}").format(declarations="{declarations}", **sizes)


DIGITS = Layers(8, (6, 12), digits.CLASSES)
MNIST = Layers(mnist.SIZE, (4, 8), mnist.CLASSES)


def scores(layers: Layers, parameters: Parameters, features: torch.Tensor, progress: float) -> torch.Tensor:
    """Class scores; filters are (1, kH, kW, Cin, Cout) as in the program."""
    image = features.reshape(-1, 1, layers.size, layers.size)
    for layer in ("1", "2"):
        filters = parameters[f"F{layer}"][0].permute(3, 2, 0, 1)
        image = functional.max_pool2d(
            torch.relu(functional.conv2d(image, filters, parameters[f"B{layer}"], padding=1)), 2
        )
    flat = image.permute(0, 2, 3, 1).reshape(-1, layers.flat)
    return flat @ parameters["FC"] + parameters["FCbias"]


def start(layers: Layers, seed: int) -> Parameters:
    """Random weights of the variance that keeps activations level through rectifiers."""
    random = torch.Generator().manual_seed(seed)

    def normal(shape: tuple[int, ...], inputs: int) -> torch.Tensor:
        return torch.randn(shape, generator=random) * math.sqrt(2.0 / inputs)

    first, second = layers.channels
    return {
        "F1": normal((1, 3, 3, 1, first), 9),
        "B1": torch.zeros(first),
        "F2": normal((1, 3, 3, first, second), 9 * first),
        "B2": torch.zeros(second),
        "FC": normal((layers.flat, layers.classes), 2 * layers.flat),
        "FCbias": torch.zeros((1, layers.classes)),
    }


def train() -> TrainedModel:
    """The CNN on digits."""
    about = "LeNet-style CNN: convolutions of 6 and 12 channels, a dense layer, 10 classes"
    named, of_digits = ("lenet-digits", about, digits.ATTRIBUTION), functools.partial(scores, DIGITS)
    initial = start(DIGITS, DIGITS_RECIPE.seed)
    return trained_classifier(named, DIGITS.program, initial, of_digits, digits.load_split(), DIGITS_RECIPE)


def train_on_mnist() -> TrainedModel:
    """The CNN on MNIST."""
    about = "LeNet-style CNN: convolutions of 4 and 8 channels over 28 x 28 pixels, a dense layer, 10 classes"
    named, of_mnist = ("lenet-mnist", about, mnist.ATTRIBUTION), functools.partial(scores, MNIST)
    initial = start(MNIST, MNIST_RECIPE.seed)
    return trained_classifier(named, MNIST.program, initial, of_mnist, mnist.load_split(), MNIST_RECIPE)
