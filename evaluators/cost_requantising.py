"""What quantised programs take besides (`codegen.emit.requantising`): products with ratios of scales, and tables of all integers."""

from __future__ import annotations

from kilotune.codegen import ir
from kilotune.evaluators.cost_collector import Collector
from kilotune.evaluators.cost_features import number


def count_completed(c: Collector, elements: float, completion: ir.Completion) -> None:
    """So many sums of products become integers of 8 bits."""
    even = isinstance(completion, ir.Requantisation) and isinstance(completion.factors[0], ir.EvenMultiplier)
    c.add(elements, number("rescaled", int(even)))


def count_quantised(c: Collector, elements: float, operation: ir.QuantisedElements) -> None:
    """So many elements of an operation."""
    match operation:
        case ir.QuantisedSum():
            c.add(3 * elements, number("rescaled", 0))
        case ir.QuantisedProduct(factor=factor):
            c.add(elements, number("rescaled", int(isinstance(factor, ir.EvenMultiplier))))
        case ir.EvenSum():
            c.add(elements, number("rescaled", 1))
        case ir.Lookup():
            c.add(elements, number("looked"))


def count_shares(c: Collector, elements: float) -> None:
    """So many shares of a Softmax, each of which takes one product."""
    c.add(elements, number("rescaled", 0))
