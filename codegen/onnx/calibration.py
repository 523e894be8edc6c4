"""What calibration images say of a network's tensors: their ranges, and the means of their channels."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from kilotune.codegen.arrays import Array, FloatArray
from kilotune.codegen.onnx.batches import tensors_of_images
from kilotune.codegen.onnx.graph import Graph

LOWEST_EXPONENT = -1100
"""Below those of all floats."""

SEARCHED_EXPONENTS = 12
"""How many are tried, from the one with which nothing saturates downwards."""

_BINS = 2300


@dataclass(frozen=True, eq=False)
class TensorRange:
    """How the magnitudes of a tensor's elements are distributed, by the smallest exponent e with magnitude <= limit * 2**e:
    how many elements other than 0, their sum and their sum of squares; and the mean of each channel.

    finite: whether none was infinite or no number; such elements count nowhere else.
    """

    limit: int
    counts: FloatArray
    sums: FloatArray
    squares: FloatArray
    means: FloatArray
    finite: bool

    def exponent(self) -> int:
        """The exponent with the least mean squared error of rounding and saturating at limit * 2**e; 0 when all is 0.

        Saturated elements are short by magnitude - limit * 2**e, those below half a step are lost whole, and rounding errors of
        the others are uniform (Nagel et al. 2021, "A White Paper on Neural Network Quantization", Section 3.1). On a tie the
        larger one, which saturates less.
        """
        there = np.flatnonzero(self.counts)
        if not len(there):
            return 0
        top = int(there[-1])
        candidates = range(top, max(top - SEARCHED_EXPONENTS, 0), -1)
        return min(candidates, key=lambda place: self._squared_error(place, top)) + LOWEST_EXPONENT

    def largest_exponent(self) -> int:
        """The smallest exponent with which nothing saturates; 0 when all is 0."""
        there = np.flatnonzero(self.counts)
        return int(there[-1]) + LOWEST_EXPONENT if len(there) else 0

    def _squared_error(self, place: int, top: int) -> float:
        """Expected, with the exponent of a bin; `top`: the highest that holds anything."""
        step = 2.0 ** (place + LOWEST_EXPONENT)
        above, edge = slice(place + 1, top + 1), self.limit * step
        n, total, square = (float(a[above].sum()) for a in (self.counts, self.sums, self.squares))
        lost = max(0, place + 1 - (2 * self.limit).bit_length())
        rounded = float(self.counts[lost : place + 1].sum()) * step * step / 12
        return max(square - 2 * edge * total + n * edge * edge, 0.0) + rounded + float(self.squares[:lost].sum())


def tensor_ranges(
    graph: Graph, images: Array, limit: int, limits: Mapping[str, int] = MappingProxyType({})
) -> Mapping[str, TensorRange]:
    """The ranges of every tensor, over all `images` [images, channels, height, width]. limit: the largest magnitude of an activation;
    limits: of those tensors that have another one."""
    gathered: dict[str, _Gathered] = {}
    for name, tensor in tensors_of_images(graph, np.asarray(images, np.float32)):
        gathered.setdefault(name, _Gathered(len(tensor))).add(tensor, limits.get(name, limit))
    return {name: found.result(limits.get(name, limit)) for name, found in gathered.items()}


class RememberedRanges:
    """`tensor_ranges` of one network and one set of images, for one limit of most tensors and some limits of others: the network is
    executed twice."""

    def __init__(self, graph: Graph, images: Array, limits: Collection[int]) -> None:
        """limits: all that will be asked for, for the tensors that are asked for by name first."""
        self._graph, self._images, self._limits = graph, np.asarray(images, np.float32), limits
        self._found: dict[tuple[str, int], TensorRange] = {}

    def of(self, limit: int, limits: Mapping[str, int]) -> Mapping[str, TensorRange]:
        """What `tensor_ranges` says."""
        if not any(known == limit for _, known in self._found):
            self._found |= {(name, limit): r for name, r in tensor_ranges(self._graph, self._images, limit).items()}
        if any((name, other) not in self._found for name, other in limits.items()):
            self._gather(limits)
        names = dict.fromkeys(name for name, _ in self._found)
        return {name: self._found[name, limits.get(name, limit)] for name in names}

    def _gather(self, names: Collection[str]) -> None:
        """All limits of these tensors."""
        gathered: dict[tuple[str, int], _Gathered] = {}
        for name, tensor in tensors_of_images(self._graph, self._images):
            for limit in self._limits if name in names else ():
                gathered.setdefault((name, limit), _Gathered(len(tensor))).add(tensor, limit)
        self._found |= {(name, limit): found.result(limit) for (name, limit), found in gathered.items()}


class _Gathered:
    """A tensor's range in the making."""

    def __init__(self, channels: int) -> None:
        self._bins = np.zeros((3, _BINS))
        self._totals = np.zeros(channels)
        self._elements = 0
        self._finite = True

    def add(self, tensor: Array, limit: int) -> None:
        """One more batch, [channels, images, height, width]."""
        finite = np.isfinite(tensor)
        if not finite.all():
            self._finite = False
            tensor = np.where(finite, tensor, 0)
        self._totals += tensor.sum(axis=(1, 2, 3), dtype=np.float64)
        self._elements += tensor[0].size
        magnitudes = np.abs(tensor[tensor != 0]).astype(np.float64)
        fraction, exponent = np.frexp(magnitudes / limit)
        places = exponent - (fraction == 0.5) - LOWEST_EXPONENT
        for row, weights in enumerate((None, magnitudes, magnitudes * magnitudes)):
            self._bins[row] += np.bincount(places, weights, minlength=_BINS)

    def result(self, limit: int) -> TensorRange:
        """After the last batch."""
        counts, sums, squares = self._bins
        return TensorRange(limit, counts, sums, squares, self._totals / max(1, self._elements), self._finite)
