"""QuantizeLinear and DequantizeLinear of an ONNX file: on which grid integers of 8 bits stand, and what constants are on them.

Integers without sign are taken 128 lower, with their zero points, so that all have a sign. ValueError "expected X, found Y" for others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kilotune.codegen.arrays import Array, IntArray
from kilotune.codegen.quantisation_grid import LEAST, MOST, QuantisationGrid
from kilotune.codegen.trained.model import TrainedNode

UNSIGNED_SHIFT = 128


@dataclass(frozen=True, eq=False)
class ConstantIntegers:
    """Constants as a file has them: `(integer - zero) * scale`, with one scale and zero point, or one each for the places of `axis`.
    Biases have integers of 32 bits, everything else of 8."""

    name: str
    integers: IntArray
    scales: NDArray[np.float32]
    zeros: IntArray
    axis: int

    @property
    def grid(self) -> QuantisationGrid:
        """The one grid of all. ValueError for several."""
        if self.scales.size != 1 or self.zeros.size != 1:
            raise ValueError(f"expected one scale for all of {self.name!r}, found {self.scales.size}")
        return QuantisationGrid(float(self.scales[0]), int(self.zeros[0]), even=True)

    @property
    def centred(self) -> IntArray:
        """The integers less their zero points. ValueError where these have more than 8 bits."""
        shape = [1] * self.integers.ndim
        if self.zeros.size > 1:
            shape[self.axis] = -1
        found = self.integers - self.zeros.reshape(shape)
        if found.size and not (found.min() >= LEAST and found.max() <= MOST):
            expected = "weights of 8 bits less their zero point (quantise them symmetrically)"
            raise ValueError(f"expected {expected}, found {found.min()} to {found.max()} in {self.name!r}")
        return found

    def transposed(self, name: str, order: tuple[int, ...]) -> ConstantIntegers:
        """With the axes in another order."""
        axis = order.index(self.axis) if self.integers.ndim else 0
        return replace(self, name=name, integers=self.integers.transpose(order), axis=axis)


def grid_of(node: TrainedNode, constants: Mapping[str, Array]) -> QuantisationGrid:
    """The one grid of a QuantizeLinear or DequantizeLinear of what is computed."""
    scales, zeros, kind = _scales(node, constants)
    if scales.size != 1 or zeros.size != 1 or kind not in ("int8", "uint8"):
        raise ValueError(f"expected integers of 8 bits with one scale, found {kind} with {scales.size}")
    return QuantisationGrid(float(scales[0]), int(zeros[0]) - _shift(kind), even=True)


def dequantised(node: TrainedNode, constants: Mapping[str, Array]) -> ConstantIntegers:
    """What a DequantizeLinear of a constant stands for."""
    scales, zeros, _ = _scales(node, constants)
    integers = constants[node.inputs[0]]
    kind = str(integers.dtype)
    if kind not in ("int8", "uint8", "int32"):
        raise ValueError(f"expected constant integers of 8 bits, or biases of 32, found {kind}")
    axis = node.integer("axis", 1)
    axis = axis + integers.ndim if axis < 0 else axis
    if max(scales.size, zeros.size) > 1:
        if not 0 <= axis < integers.ndim or integers.shape[axis] != scales.size:
            raise ValueError(f"expected scales along an axis of {list(integers.shape)}, found {scales.size}")
        zeros = np.broadcast_to(zeros, scales.shape)
    shift = _shift(kind)
    return ConstantIntegers(node.inputs[0], integers.astype(np.int64) - shift, scales, zeros - shift, axis)


def quantised_constant(node: TrainedNode, constants: Mapping[str, Array]) -> Array:
    """The integers that a QuantizeLinear makes of real constants."""
    scales, zeros, kind = _scales(node, constants)
    reals = constants[node.inputs[0]]
    if kind not in ("int8", "uint8") or reals.dtype.kind != "f":
        raise ValueError(f"expected real constants as integers of 8 bits, found {reals.dtype} as {kind}")
    shape = [1] * reals.ndim
    if scales.size > 1:
        axis = node.integer("axis", 1)
        if not -reals.ndim <= axis < reals.ndim or reals.shape[axis] != scales.size:
            raise ValueError(f"expected scales along an axis of {list(reals.shape)}, found {scales.size}")
        shape[axis] = -1
    scaled = reals.astype(np.float32) / scales.reshape(shape)
    whole = np.rint(scaled) + (zeros.reshape(shape) if zeros.size > 1 else zeros[0])
    limits = np.iinfo(kind)
    return np.asarray(np.clip(whole, limits.min, limits.max), dtype=kind)


def _scales(node: TrainedNode, constants: Mapping[str, Array]) -> tuple[NDArray[np.float32], IntArray, str]:
    """Scales and zero points, one or several each, and what integers they are for."""
    if node.integer("block_size", 0):
        raise ValueError("expected one scale for all or for each channel, found blocks")
    named = [node.inputs[place] if len(node.inputs) > place else "" for place in (1, 2)]
    if named[0] not in constants or (named[1] and named[1] not in constants):
        raise ValueError("expected constant scales and zero points, found computed ones")
    scales = constants[named[0]].reshape(-1)
    zeros = constants[named[1]].reshape(-1) if named[1] else np.zeros(1, np.uint8)
    if not named[1] and node.kind == "DequantizeLinear":
        zeros = zeros.astype(constants[node.inputs[0]].dtype if node.inputs[0] in constants else np.uint8)
    if scales.dtype != np.float32 or not scales.size or not (np.isfinite(scales).all() and (scales > 0).all()):
        wrong = next((s for s in scales.tolist() if not 0 < s < math.inf), scales.dtype)
        raise ValueError(f"expected finite scales above 0 as floats of 32 bits, found {wrong}")
    return scales, zeros.astype(np.int64), str(zeros.dtype)


def _shift(kind: str) -> int:
    return UNSIGNED_SHIFT if kind == "uint8" else 0
