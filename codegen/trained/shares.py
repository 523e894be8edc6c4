"""Softmax in the middle of a model, where later operators use the shares themselves: by what programs have already."""

from __future__ import annotations

import math

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.ir import View
from kilotune.codegen.ir.quantised_softmax import SUM_BITS
from kilotune.codegen.language.views import permuted, reshaped
from kilotune.codegen.trained.builder import Builder, inverse
from kilotune.codegen.trained.elementwise import apply, combine, maker, scale
from kilotune.codegen.trained.endings import WHOLE_ROWS_BEFORE
from kilotune.codegen.trained.model import TrainedNode
from kilotune.codegen.trained.rearranging import axis_of
from kilotune.codegen.trained.windows import largest_of_rows, rows_of


def softmax(builder: Builder, node: TrainedNode) -> None:
    """exp(x) over the sum of all of a row. Programs divide by Euclidean lengths alone, so it is (e / |e|) ** 2 with e = exp((x - max) / 2),
    whose squares are what is summed; without the largest, exp is never above 1. ValueError "expected X, found Y" for an axis that
    is none, and for more elements of kept integers than 32 bits can sum.
    """
    view = builder.view(builder.tensor(node.inputs[0]))
    if "powers" in node.attributes:  # of a file whose integers are kept
        _require_sum_in_32_bits(view)
        out = builder.temporary(view.shape, node.output)
        builder.emit(ir.QuantisedSoftmax(out, builder.location, view, node.attributes["powers"]))
        builder.bind(node.output, out)
        return
    whole = node.opset < WHOLE_ROWS_BEFORE  # one row is all axes from that one on
    axis = axis_of(node.integer("axis", 1 if whole else -1), max(1, len(view.shape)))
    if whole:
        order = tuple(range(len(view.shape)))
        count = math.prod(view.shape[axis:])
    else:
        order = (*(k for k in range(len(view.shape)) if k != axis), axis)
        count = view.shape[axis] if view.shape else 1
    turned = permuted(view, order)
    shares = _of_rows(builder, rows_of(builder, turned, count), node.output)
    shaped = reshaped(shares, turned.shape)
    assert shaped is not None  # a variable of its own, in row-major order
    builder.bind(node.output, permuted(shaped, inverse(order)))


def _require_sum_in_32_bits(view: View) -> None:
    """Each power of a sum is at most 2 ** (31 - SUM_BITS), for the largest element."""
    length, most = view.shape[-1] if view.shape else 1, (1 << 1 + SUM_BITS) - 1
    if length > most:
        raise ValueError(f"expected a Softmax over at most {most} elements, found {length}")


def _of_rows(builder: Builder, rows: View, name: str) -> View:
    largest = reshaped(largest_of_rows(builder, rows, name), (rows.shape[0], 1))
    assert largest is not None
    below = combine(builder, ir.Subtract, rows, largest, ("", name))
    halves = scale(builder, below, np.asarray(0.5), "half", name)
    powers = apply(builder, halves, name, maker(builder, "exp"))
    roots = builder.temporary(rows.shape, name)
    builder.emit(ir.NormaliseL2(roots, builder.location, powers))
    return combine(builder, ir.Multiply, roots, roots, ("", name))
