"""LeNets of the sizes of SeeDot's Table 1, for images of 28 x 28 pixels: two convolutions of 5 x 5 with pooling and three dense layers.

The paper's are of CIFAR-10, whose images are not at hand. Needs torch (`pip install 'kilotune[train]'`).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch.nn import functional

from kilotune.experiments.models.train.bundle import (
    FeatureRows,
    TrainedModel,
    declarations,
    parameter_count,
)
from kilotune.experiments.models.train.fitting import Parameters, TrainingSettings, accuracy_line, fit, to_arrays

SIDE, KERNEL, CLASSES = 28, 5, 10
RECIPE = TrainingSettings(epochs=20, learning_rate=0.004, noise=0.1, bound=1.95)

PROGRAM = """\
// LeNet: {side}x{side} pixels, two 5x5 convolutions ({one} and {two} channels) with 2x2 max pooling, hidden layers of {first} and {second}
let X = ({pixels}, 1) in [-1.0, 1.0] in
{declarations}
let image = reshape(X, (1, {side}, {side}, 1), (1, 2)) in
let conv1 = relu(conv2d(image, F1, {{s 1 1}}, {{p 0 0 0 0}}, {{d 1 1}}, {{g 1}}) <+> B1) in
let pool1 = maxpool(conv1, {{k 2 2}}, {{p 0 0 0 0}}, {{s 2 2}}) in
let conv2 = relu(conv2d(pool1, F2, {{s 1 1}}, {{p 0 0 0 0}}, {{d 1 1}}, {{g 1}}) <+> B2) in
let pool2 = maxpool(conv2, {{k 2 2}}, {{p 0 0 0 0}}, {{s 2 2}}) in
let flat = reshape(pool2, (1, {flat}), (1, 2, 3, 4)) in
let h1 = relu((flat * D1) + C1) in
let h2 = relu((h1 * D2) + C2) in
argmax((h2 * D3) + C3)
"""


@dataclass(frozen=True)
class LeNetLayers:
    """The channels of both convolutions and the units of both hidden layers."""

    channels: tuple[int, int]
    units: tuple[int, int]

    @property
    def flat(self) -> int:
        """How many values the first dense layer reads."""
        side = ((SIDE - KERNEL + 1) // 2 - KERNEL + 1) // 2
        return side**2 * self.channels[1]


SIZES = MappingProxyType({"lenet-50k": LeNetLayers((6, 16), (136, 84)), "lenet-105k": LeNetLayers((8, 20), (248, 82))})
"""By the number of parameters that the paper names."""


def scores(layers: LeNetLayers, parameters: Parameters, features: torch.Tensor, progress: float) -> torch.Tensor:
    """Class scores; filters are (1, kH, kW, Cin, Cout) as in the program."""
    image = features.reshape(-1, 1, SIDE, SIDE)
    for layer in ("1", "2"):
        filters = parameters[f"F{layer}"][0].permute(3, 2, 0, 1)
        image = functional.max_pool2d(torch.relu(functional.conv2d(image, filters, parameters[f"B{layer}"])), 2)
    values = image.permute(0, 2, 3, 1).reshape(-1, layers.flat)
    for layer in ("1", "2"):
        values = torch.relu(values @ parameters[f"D{layer}"] + parameters[f"C{layer}"])
    return values @ parameters["D3"] + parameters["C3"]


def start(layers: LeNetLayers, seed: int) -> Parameters:
    """Random weights of the variance that keeps activations level through rectifiers."""
    random = torch.Generator().manual_seed(seed)

    def normal(shape: tuple[int, ...]) -> torch.Tensor:
        return torch.randn(shape, generator=random) * math.sqrt(2.0 / math.prod(shape[:-1]))

    (one, two), (first, second) = layers.channels, layers.units
    found = {"F1": normal((1, KERNEL, KERNEL, 1, one)), "B1": torch.zeros(one)}
    found |= {"F2": normal((1, KERNEL, KERNEL, one, two)), "B2": torch.zeros(two)}
    for layer, (inputs, outputs) in enumerate(((layers.flat, first), (first, second), (second, CLASSES)), 1):
        found |= {f"D{layer}": normal((inputs, outputs)), f"C{layer}": torch.zeros((1, outputs))}
    return found


def trained_lenet(size: str, name: str, train: FeatureRows, test: FeatureRows) -> TrainedModel:
    """The network of one of SIZES on rows of labels and pixels in [-1, 1]. `name`: of the data set."""
    layers = SIZES[size]
    scored = functools.partial(scores, layers)
    fitted = fit(start(layers, RECIPE.seed), scored, train, RECIPE)
    shipped = to_arrays(fitted)
    (one, two), (first, second) = layers.channels, layers.units
    program = PROGRAM.format(
        side=SIDE,
        pixels=SIDE**2,
        one=one,
        two=two,
        first=first,
        second=second,
        classes=CLASSES,
        flat=layers.flat,
        declarations=declarations(shipped),
    )
    readme = f"{size} on {name}: {parameter_count(shipped)}. {accuracy_line(fitted, scored, train, test)}\n"
    return TrainedModel(name, program, shipped, readme, train, test)
