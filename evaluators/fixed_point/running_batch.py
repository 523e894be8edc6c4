"""A batch of candidates on its way through the samples, in the compiled kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kilotune.codegen.arrays import Int32Array, IntArray
from kilotune.codegen.fixed.arithmetic import Rounding
from kilotune.evaluators.fixed_point.formatted import address_of
from kilotune.evaluators.fixed_point.known_runs import KnownRun
from kilotune.evaluators.fixed_point.label_limits import LabelLimits
from kilotune.evaluators.fixed_point.margins import MarginSums


class RunsBlocks(Protocol):
    """A program that the kernel runs."""

    lanes: int

    @property
    def blocks(self) -> int:
        """How many blocks of `lanes` samples there are; the last one may have fewer."""

    def run_blocks(self, c_batch: ctypes.Structure, rounding: Rounding) -> None:
        """Run candidates on blocks of samples, as the structure says. MemoryError."""

    def count_labels(self, c_batch: ctypes.Structure, rounding: Rounding) -> None:
        """Count the labels of candidates whose outputs are known, as the structure says."""


class RunningBatch:
    """Candidates on their way through the samples: they need not all go to the end.

    `outputs` [candidates, samples, elements of the result], and `margin_sums`: of the samples that a candidate has met. `arrays`: what
    the members of the C structure point to.
    """

    def __init__(
        self,
        program: RunsBlocks,
        rounding: Rounding,
        c_batch: ctypes.Structure,
        arrays: Mapping[str, np.ndarray],
    ) -> None:
        self.blocks, self.lanes = program.blocks, program.lanes
        self._program, self._rounding, self._c_batch, self.arrays = program, rounding, c_batch, dict(arrays)
        self._next_block = 0

    @property
    def outputs(self) -> npt.NDArray[np.signedinteger]:
        return self.arrays["outputs"]

    @property
    def met(self) -> Int32Array:
        """How many samples each candidate has met, where there are limits."""
        return self.arrays["met"]

    @property
    def others_left(self) -> Int32Array:
        """How many labels of each may be others than expected after those that are [candidates, 2], where there are limits."""
        return self.arrays["left"]

    def outputs_of(self, candidates: list[int]) -> npt.NDArray[np.signedinteger]:
        """Those of some candidates; the batch's own where these are all."""
        return self.outputs if len(candidates) == len(self.outputs) else self.outputs[candidates]

    def margin_sums(self, candidates: Sequence[int]) -> list[MarginSums]:
        """A contest's sums of some candidates."""
        sums = self.arrays["margin_sums"][list(candidates)]
        if sums.shape[2] == 1:
            return [MarginSums(*one) for one in sums[:, :, 0].tolist()]
        return [MarginSums(*(low + (high << 64) for low, high in one)) for one in _unsigned_low(sums)]

    def take_over(self, known: Mapping[int, KnownRun]) -> None:
        """What some candidates come to, which do not run."""
        for candidate, run in known.items():
            self.outputs[candidate], self.arrays["margin_sums"][candidate] = run

    def copies(self, candidates: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """The outputs and sums of some candidates, which do not change when those of the batch do."""
        return self.outputs[candidates], self.arrays["margin_sums"][candidates]

    def hold_against(self, limits: LabelLimits, known: Sequence[int]) -> None:
        """From now on candidates run no further when they are out by the limits. `known`: those that have been taken over."""
        expected = np.ascontiguousarray(limits.expected, dtype=self.outputs.dtype)
        added = {"expected": expected, "left": limits.most.copy(), "met": np.zeros(len(self.outputs), dtype=np.int32)}
        self.arrays |= added
        for name, array in added.items():
            setattr(self._c_batch, name, address_of(array))
        if len(known):
            self._choose(known)
            self._program.count_labels(self._c_batch, self._rounding)

    def go_on(self, candidates: Sequence[int], end_block: int) -> None:
        """Run some candidates up to a block. Who has been left out once must stay out. MemoryError."""
        if not len(candidates):
            return
        self._choose(candidates)
        self._c_batch.first_block, self._c_batch.end_block = self._next_block, end_block
        self._program.run_blocks(self._c_batch, self._rounding)
        self._next_block = end_block

    def _choose(self, candidates: Sequence[int]) -> None:
        """Have the structure name these candidates."""
        chosen = self.arrays["chosen"] = np.array(candidates, dtype=np.int32)
        self._c_batch.count, self._c_batch.chosen = len(chosen), address_of(chosen)


def _unsigned_low(sums: IntArray) -> list[list[tuple[int, int]]]:
    """Low and high words of integers of 128 bits [candidates, sums, 2]."""
    return [[(low % (1 << 64), high) for low, high in one] for one in sums.tolist()]
