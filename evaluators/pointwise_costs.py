"""What pointwise operators cost: `codegen.ir.numbers` over widths, where every operation is counted as the feature that it is like."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kilotune.codegen.arrays import IntArray
from kilotune.codegen.ir.numbers import Constant
from kilotune.evaluators.cost_collector import Collector
from kilotune.evaluators.cost_features import FREE, kind_position, number, width_position

WIDEST = 32
"""No feature is wider."""


@dataclass
class CountedNumbers:
    """Numbers are widths in bits [candidates]; what is done to them is done `count` times. `counted`: whether anything was."""

    collector: Collector
    count: float
    accumulator_bits: IntArray
    counted: bool = False

    def apply(self, kind: str, width: IntArray) -> IntArray:
        """The work of an operation of that kind at that width, but for its loop, loads and store."""
        self.counted = True
        self.collector.add(self.count, number("apply", kind_position(kind), width_position(width)))
        return width

    def negative(self, a: IntArray) -> IntArray:
        return self.apply("Negate", self.accumulator_bits)

    def positive(self, a: IntArray) -> IntArray:
        return self.apply("Relu", a)

    def clip(self, a: IntArray, limit: Constant) -> IntArray:
        return self.apply("Relu6", a)

    def plus(self, a: IntArray, constant: Constant) -> IntArray:
        return self.apply("Add", a)

    def scaled(self, a: IntArray, constant: Constant) -> IntArray:
        value = np.asarray(constant, dtype=np.int64)
        width = np.where(np.abs(value) < 1 << 7, 8, np.where(np.abs(value) < 1 << 15, 16, WIDEST))
        return np.where(value == 1, a, self._multiplied(a, width, value == 1))

    def times(self, a: IntArray, b: IntArray) -> IntArray:
        return self._multiplied(a, b, np.zeros(1, dtype=bool))

    def down(self, a: IntArray, shift: Constant) -> IntArray:
        self.counted = True
        self.collector.down(self.count, a, np.asarray(shift, dtype=np.int64), a)
        return a

    def narrow(self, a: IntArray, like: IntArray) -> IntArray:
        return like

    def where_negative(self, a: IntArray, then: IntArray, otherwise: IntArray) -> IntArray:
        return self.apply("Relu", np.maximum(then, otherwise))

    def _multiplied(self, a: IntArray, b: IntArray, spared: np.ndarray) -> IntArray:
        """A product as wide as both factors together; none where it is `spared`."""
        self.counted = True
        result = np.where(a + b <= 16, 16, WIDEST)
        factors = width_position(np.maximum(a, b)), width_position(np.minimum(a, b))
        self.collector.add(self.count, np.where(spared, FREE, number("product", *factors, width_position(result))))
        return result
