"""Bonsai (Kumar et al., ICML 2017; SeeDot Section 7, Shiftry Section 8): a shallow tree on a sparse projection.

Every node k on the path of a sample adds W_k z * tanh(V_k z) to the scores, with z = Z x. The paths are soft while
training, sharper and sharper, and hard at the end.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from kilotune.experiments.models.train import digits
from kilotune.experiments.models.train.bundle import TrainedArray, TrainedModel, declarations, parameter_count
from kilotune.experiments.models.train.fitting import Parameters, TrainingSettings, accuracy_line, fit, to_arrays

PROJECTION = 10
INNER = 3  # nodes 0, 1, 2; the children of k are 2k + 1 and 2k + 2
NODES = 7
HARD_FROM = 0.6  # share of the training after which paths are hard
RECIPE = TrainingSettings(epochs=200, noise=0.25, bound=1.95, keep={"Z": 0.5})

PROGRAM = """\
// Bonsai: {features} features, sparse projection to 10, a tree of depth 2 (7 nodes), {classes} classes
// Rows {classes}k .. {classes}k+{last} of W and V belong to node k; the children of k are 2k+1 (T_k z >= 0) and 2k+2
let X = ({features}, 1) in [-1.0, 1.0] in
{declarations}
let z = Z |*| X in
let node = (W * z) <*> tanh(V * z) in
let side = T * z in
let leaf1 = side[1:+1][0:+1] >= 0 ? {node3} : {node4} in
let leaf2 = side[2:+1][0:+1] >= 0 ? {node5} : {node6} in
let below1 = {node1} + leaf1 in
let below2 = {node2} + leaf2 in
let below = side[0:+1][0:+1] >= 0 ? below1 : below2 in
argmax({node0} + below)
"""


def scores(parameters: Parameters, features: torch.Tensor, progress: float) -> torch.Tensor:
    """Scores summed over the nodes, each weighted with how much of the sample's path goes through it."""
    projected = features @ parameters["Z"].T
    nodes = (projected @ parameters["W"].T) * torch.tanh(projected @ parameters["V"].T)
    by_node = nodes.reshape(len(features), NODES, -1)
    return (reach(projected @ parameters["T"].T, progress)[:, :, None] * by_node).sum(dim=1)


def reach(sides: torch.Tensor, progress: float) -> torch.Tensor:
    """Share of the path through every node, [samples, nodes]; 0 or 1 once paths are hard."""
    hard = (sides >= 0).to(sides.dtype)
    first = hard if progress >= HARD_FROM else torch.sigmoid(sides * 2.0 * 100.0 ** (progress / HARD_FROM))
    shares = [torch.ones_like(sides[:, 0])]
    for node in range(INNER):
        shares += [shares[node] * first[:, node], shares[node] * (1.0 - first[:, node])]
    return torch.stack(shares, dim=1)


def start(features: int, classes: int, seed: int) -> Parameters:
    """Random weights, small enough that tanh is not saturated."""
    random = torch.Generator().manual_seed(seed)

    def normal(rows: int, columns: int, deviation: float) -> torch.Tensor:
        return deviation * torch.randn((rows, columns), generator=random)

    return {
        "Z": normal(PROJECTION, features, 0.15),
        "W": normal(NODES * classes, PROJECTION, 0.3),
        "V": normal(NODES * classes, PROJECTION, 0.3),
        "T": normal(INNER, PROJECTION, 0.3),
    }


def program_text(features: int, classes: int, shipped: Mapping[str, TrainedArray]) -> str:
    """The program of a Bonsai of depth 2, features in [-1, 1]."""
    nodes = {f"node{k}": f"node[{classes * k}:+{classes}][0:+1]" for k in range(NODES)}
    return PROGRAM.format(
        features=features, classes=classes, last=classes - 1, declarations=declarations(shipped), **nodes
    )


def train() -> TrainedModel:
    """Bonsai on digits."""
    split = digits.load_split()
    fitted = fit(start(digits.FEATURES, digits.CLASSES, RECIPE.seed), scores, split.train, RECIPE)
    shipped = to_arrays(fitted)
    readme = (
        f"Bonsai: projection 10, tree of depth 2, 10 classes; {parameter_count(shipped)}.\n"
        f"{digits.ATTRIBUTION}\n{accuracy_line(fitted, scores, split.train, split.test)}\n"
    )
    program = program_text(digits.FEATURES, digits.CLASSES, shipped)
    return TrainedModel("bonsai-digits", program, shipped, readme, split.train, split.test)
