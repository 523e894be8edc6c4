"""Weights of a network as integers: an exponent for each output channel, few enough bits that every partial sum is exact in float32."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.arrays import Array, FloatArray
from kilotune.codegen.onnx.bounds import Bounds
from kilotune.codegen.onnx.graph import AffineNode, ConvNode, known

EXACT_LIMIT = 2**24
"""Integers of smaller magnitude are exact in float32, and so are their sums in any order."""

ROUNDED_BITS = 25
"""Shifts by more bits give 0 of sums below EXACT_LIMIT, in float32 as well, whatever half of their unit is."""


def integer_convolution(
    node: ConvNode, exponent: int, operand: Bounds, target: int, means: FloatArray, limit: int
) -> tuple[ConvNode, NDArray[np.int64]]:
    """The convolution with integers and the exponents of its weights, by output channel.

    exponent, operand: of what it reads, whose channels have these `means`. target: the exponent that its sums are shifted to.
    limit: the largest magnitude of a weight. ValueError when only zeros keep the sums exact.
    """
    real_weight, real_bias = known(node.weight).astype(np.float64), known(node.bias).astype(np.float64)
    rows = real_weight.reshape(len(real_weight), -1)
    peaks = np.abs(rows).max(axis=1, initial=0)
    scales = np.where(peaks > 0, _fits(peaks, limit), _fits(np.abs(real_bias), EXACT_LIMIT // 4) - exponent)
    while True:
        integers = np.rint(np.ldexp(rows, -scales[:, None]))
        bias = np.rint(np.ldexp(real_bias + _bias_error(node, means, rows, integers, scales), -(scales + exponent)))
        excessive = _largest_sums(integers, operand, bias) + _half(target - scales - exponent) >= EXACT_LIMIT
        if not excessive.any():
            break
        scales = scales + excessive
    if peaks.any() and not integers.any():
        raise ValueError(f"{node.output!r}: no weights keep its sums below 2**24: bias {_peak(real_bias):g}")
    weight = integers.astype(np.int16).reshape(real_weight.shape)
    return dataclasses.replace(node, weight=weight, bias=bias.astype(np.int64)), scales


def _bias_error(
    node: ConvNode, means: FloatArray, rows: FloatArray, integers: FloatArray, scales: NDArray[np.int64]
) -> FloatArray:
    """By how much rounded weights make the mean of each output channel too small, with the inputs' means; borders of
    padding count as the inside, and what is between spread pixels as nothing."""
    groups, taps = node.groups, math.prod(node.window.kernel)
    repeated = np.repeat(means.reshape(groups, -1), taps, axis=1) / math.prod(node.window.spread)  # by group and row
    lost = (rows - np.ldexp(integers, scales[:, None])).reshape(groups, -1, rows.shape[1])
    return np.asarray((lost @ repeated[:, :, None]).reshape(-1))


def integer_affine(
    node: AffineNode, exponent: int, operand: Bounds, target: int, limit: int
) -> tuple[AffineNode, NDArray[np.int64]]:
    """Factors and offsets as integers and the exponents of the factors, by channel; the arguments are those of `integer_convolution`."""
    real_scale, real_offset = known(node.scale).astype(np.float64), known(node.offset).astype(np.float64)
    scales = _fits(np.abs(real_scale), limit)
    while True:
        factors = np.rint(np.ldexp(real_scale, -scales))
        offset = np.rint(np.ldexp(real_offset, -(scales + exponent)))
        sums = _largest_sums(factors[:, None], operand, offset)
        excessive = sums + _half(target - scales - exponent) >= EXACT_LIMIT
        if not excessive.any():
            break
        scales = scales + excessive
    return dataclasses.replace(node, scale=factors.astype(np.int64), offset=offset.astype(np.int64)), scales


def _largest_sums(rows: FloatArray, operand: Bounds, bias: FloatArray) -> FloatArray:
    """By row of integer weights the largest magnitude of any partial sum with operands in these bounds or 0, and of its bias."""
    low, high = min(operand[0], 0), max(operand[1], 0)
    positive, negative = np.maximum(rows, 0).sum(axis=1), np.maximum(-rows, 0).sum(axis=1)
    return np.asarray(np.maximum(positive * high - negative * low, negative * high - positive * low) + np.abs(bias))


def _half(right: NDArray[np.int64]) -> FloatArray:
    """What rounding adds to a sum before it is shifted by so many bits."""
    return np.asarray(
        np.where((right > 0) & (right <= ROUNDED_BITS), 2.0 ** (np.clip(right, 1, ROUNDED_BITS) - 1), 0.0)
    )


def _peak(array: Array) -> float:
    return float(max(array.max(initial=0), -array.min(initial=0)))


def _fits(maxima: FloatArray, limit: int) -> NDArray[np.int64]:
    """By element the smallest exponent e with maximum <= limit * 2**e; 0 where it is 0."""
    fraction, exponent = np.frexp(maxima / limit)
    return np.asarray(np.where(maxima == 0, 0, exponent - (fraction == 0.5)), dtype=np.int64)
