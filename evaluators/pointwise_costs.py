"""What pointwise operators cost: `codegen.ir.numbers` over widths, where every operation is counted as the feature that it is like."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kilotune.codegen.ir.numbers import Constant
from kilotune.evaluators.cost_collector import Collector
from kilotune.evaluators.cost_features import FREE, Ints, kind_position, number, width_position

WIDEST = 32
"""No feature is wider."""


@dataclass
class CountedNumbers:
    """Numbers are widths in bits [candidates]; what is done to them is done `count` times. `counted`: whether anything was."""

    collector: Collector
    count: float
    accumulator_bits: Ints
    counted: bool = False

    def apply(self, kind: str, width: Ints) -> Ints:
        """The work of an operation of that kind at that width, but for its loop, loads and store."""
        self.counted = True
        self.collector.add(self.count, number("apply", kind_position(kind), width_position(width)))
        return width

    def negative(self, a: Ints) -> Ints:
        return self.apply("Negate", self.accumulator_bits)

    def positive(self, a: Ints) -> Ints:
        return self.apply("Relu", a)

    def clip(self, a: Ints, limit: Constant) -> Ints:
        return self.apply("Relu6", a)

    def plus(self, a: Ints, constant: Constant) -> Ints:
        return self.apply("Add", a)

    def scaled(self, a: Ints, constant: Constant) -> Ints:
        value = np.asarray(constant, dtype=np.int64)
        width = np.where(np.abs(value) < 1 << 7, 8, np.where(np.abs(value) < 1 << 15, 16, WIDEST))
        return np.where(value == 1, a, self._multiplied(a, width, value == 1))

    def times(self, a: Ints, b: Ints) -> Ints:
        return self._multiplied(a, b, np.zeros(1, dtype=bool))

    def down(self, a: Ints, shift: Constant) -> Ints:
        self.counted = True
        self.collector.down(self.count, a, np.asarray(shift, dtype=np.int64), a)
        return a

    def narrow(self, a: Ints, like: Ints) -> Ints:
        return like

    def where_negative(self, a: Ints, then: Ints, otherwise: Ints) -> Ints:
        return self.apply("Relu", np.maximum(then, otherwise))

    def _multiplied(self, a: Ints, b: Ints, spared: np.ndarray) -> Ints:
        """A product as wide as both factors together; none where it is `spared`."""
        self.counted = True
        result = np.where(a + b <= 16, 16, WIDEST)
        factors = width_position(np.maximum(a, b)), width_position(np.minimum(a, b))
        self.collector.add(self.count, np.where(spared, FREE, number("product", *factors, width_position(result))))
        return result
