"""A parameter whose codes are trained: what its weights stand for in its encoding, and how far they may go."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.arrays import FloatArray, IntArray
from kilotune.codegen.fixed.encoding import ParameterEncoding


@dataclass(frozen=True)
class TrainedParameter:
    """A parameter whose codes are trained. `unit`: what a step between codes is worth, for each element, 0 for a codebook, whose numbers
    are `table`; `lowest` and `highest`: what elements may become; `moves`: the length of a step of an element of the model's `values`, 0
    for zeros that are not stored. All are [elements]."""

    encoding: ParameterEncoding
    values: FloatArray
    unit: FloatArray
    table: FloatArray
    lowest: FloatArray
    highest: FloatArray
    moves: FloatArray

    @classmethod
    def of(cls, encoding: ParameterEncoding, variable: ir.Variable, values: FloatArray, scale: int) -> TrainedParameter:
        """That of a variable at a scale, with the model's values [elements]."""
        values = np.asarray(values, dtype=np.float64).reshape(-1)
        kept = values != 0.0 if variable.sparse else np.ones(len(values), dtype=bool)
        moves = kept * max(float(np.sqrt(np.square(values).mean())), 1e-30)
        ones, table = np.ones(variable.shape, dtype=np.int64), np.zeros(0)
        if encoding.codebook:
            table = np.ldexp(np.sort(encoding.table(np.zeros(variable.shape), scale)).astype(np.float64), -scale)
            unit, lowest, highest = np.zeros(len(values)), table[0] + 0.0 * values, table[-1] + 0.0 * values
        else:
            integers = encoding.with_codes(ones).integers(ones.astype(np.float64), scale)
            unit = np.ldexp(integers.astype(np.float64), -scale).reshape(-1)
            half = 1 << (encoding.width - 1)
            lowest, highest = (-unit, unit) if encoding.width == 1 else (-half * unit, (half - 1) * unit)
        return cls(encoding, values, unit, table, lowest, highest, moves)

    def rounded(self, weights: FloatArray) -> FloatArray:
        """What a program computes with for weights [elements]."""
        if self.encoding.codebook:
            return np.asarray(self.table[self._places(weights)])
        if self.encoding.width == 1:
            return np.where(weights < 0, self.lowest, self.highest)
        return np.asarray(np.clip(np.floor(weights / self.unit + 0.5) * self.unit, self.lowest, self.highest))

    def codes(self, weights: FloatArray) -> IntArray:
        """The codes of weights [elements], of the parameter's own shape; zeros that are not stored keep theirs."""
        given = self.encoding.given
        assert given is not None
        if self.encoding.codebook:
            assert given.table is not None
            codes = np.argsort(given.table, kind="stable")[self._places(weights)] - len(given.table) // 2
        elif self.encoding.width == 1:
            codes = np.where(weights < 0, -1, 1)
        else:
            codes = np.rint(self.rounded(weights) / self.unit).astype(np.int64)
        kept = np.where(self.moves > 0.0, codes, given.codes.reshape(-1))
        return np.asarray(kept.reshape(given.codes.shape))

    def _places(self, weights: FloatArray) -> IntArray:
        return np.searchsorted((self.table[1:] + self.table[:-1]) / 2, weights)
