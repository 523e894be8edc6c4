"""The accuracy of a network while single weights of its kernels change: only what depends on the weight is computed again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kilotune.codegen.scamp.network import ChipNetwork, CountArray
from kilotune.codegen.scamp.sums import Cell, Sum
from kilotune.evaluators.scamp5.array import shifted


class KernelAccuracy:
    """Exact results of kernels `sums` (units of `2**-depth`) on images [images, side, side], and the share of `labels` found."""

    def __init__(
        self, network: ChipNetwork, sums: Sequence[Sum], depth: int, images: npt.ArrayLike, labels: npt.ArrayLike
    ) -> None:
        is_set = np.asarray(images) >= network.binarised_at
        self._network, self._labels = network, np.asarray(labels)
        self._image = np.where(is_set, np.float32(network.level / 2.0**depth), np.float32(0.0))
        self._results = [self._convolved(total) for total in sums]
        self._counts = np.concatenate([self._counted(k, result) for k, result in enumerate(self._results)], axis=1)

    @property
    def accuracy(self) -> float:
        """The share of labels that the kernels as they stand lead to."""
        return self._share(self._counts)

    def accuracy_with(self, kernel: int, cell: Cell, change: int) -> float:
        """If the weight of a cell changed by so many units."""
        counts = self._counts.copy()
        self._replace(counts, kernel, self._results[kernel] + change * shifted(self._image, cell))
        return self._share(counts)

    def change(self, kernel: int, cell: Cell, change: int) -> None:
        """From now on it has."""
        self._results[kernel] = self._results[kernel] + change * shifted(self._image, cell)
        self._replace(self._counts, kernel, self._results[kernel])

    def _convolved(self, total: Sum) -> npt.NDArray[np.float32]:
        result = np.zeros_like(self._image)
        for cell, weight in total:
            result += weight * shifted(self._image, cell)
        return result

    def _counted(self, kernel: int, result: npt.NDArray[np.float32]) -> CountArray:
        above = result > np.float32(self._network.thresholds[kernel])
        counts = [above[:, r.top : r.bottom, r.left : r.right].sum(axis=(1, 2)) for r in self._network.regions]
        return np.stack(counts, axis=1).astype(np.int64)

    def _replace(self, counts: CountArray, kernel: int, result: npt.NDArray[np.float32]) -> None:
        regions = len(self._network.regions)
        counts[:, kernel * regions : (kernel + 1) * regions] = self._counted(kernel, result)

    def _share(self, counts: CountArray) -> float:
        return float(np.mean(self._network.classes(counts) == self._labels))
