"""Activations that are a straight line above 0 and an exponential below (ELU, SELU, CELU), and the sigmoid made of three lines."""

from __future__ import annotations

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.ir import View
from kilotune.codegen.trained.builder import Builder
from kilotune.codegen.trained.elementwise import add, apply, bounded, combine, maker, scale
from kilotune.codegen.trained.model import TrainedNode

SELU = 1.6732632423543772, 1.0507009873554805
"""Alpha and gamma (Klambauer et al., NeurIPS 2017), as ONNX has them where a file names none."""


def elu(builder: Builder, node: TrainedNode) -> None:
    """x above 0, alpha * (exp(x) - 1) below (Clevert et al., ICLR 2016)."""
    _unit(builder, node, below=node.number("alpha", 1.0), width=1.0, gain=1.0)


def selu(builder: Builder, node: TrainedNode) -> None:
    """As `elu`, all of it times gamma."""
    alpha, gamma = SELU
    _unit(builder, node, below=node.number("alpha", alpha), width=1.0, gain=node.number("gamma", gamma))


def celu(builder: Builder, node: TrainedNode) -> None:
    """x above 0, alpha * (exp(x / alpha) - 1) below (Barron, 2017). ValueError for an alpha that is not positive."""
    alpha = node.number("alpha", 1.0)
    if alpha <= 0:
        raise ValueError(f"expected an alpha above 0, found {alpha:g}")
    _unit(builder, node, below=alpha, width=alpha, gain=1.0)


def _unit(builder: Builder, node: TrainedNode, *, below: float, width: float, gain: float) -> None:
    """gain * (relu(x) + below * (exp(min(x, 0) / width) - 1)), where min(x, 0) is -relu(-x): no exponential is above 1."""
    view, name, location = builder.view(builder.tensor(node.inputs[0])), node.output, builder.location
    relu, exponential = maker(builder, "relu"), maker(builder, "exp")

    def negate(operand: View) -> View:
        return apply(builder, operand, name, lambda out, a: ir.Negate(out, location, a))

    def times(operand: View, factor: float) -> View:
        return operand if factor == 1.0 else scale(builder, operand, np.asarray(factor), "factor", name)

    under = times(negate(apply(builder, negate(view), name, relu)), 1.0 / width)
    curve = add(builder, apply(builder, under, name, exponential), np.asarray(-1.0), "one", name)
    above = times(apply(builder, view, name, relu), gain)
    builder.bind(name, combine(builder, ir.Add, above, times(curve, gain * below), ("", name)))


def hard_sigmoid(builder: Builder, node: TrainedNode) -> None:
    """alpha * x + beta between 0 and 1."""
    alpha, beta = node.number("alpha", 0.2), node.number("beta", 0.5)
    view = builder.view(builder.tensor(node.inputs[0]))
    line = add(
        builder, scale(builder, view, np.asarray(alpha), "alpha", node.output), np.asarray(beta), "beta", node.output
    )
    builder.bind(node.output, bounded(builder, line, 0.0, 1.0, node.output))
