"""What quantised programs take besides (`codegen.emit.requantising`), in features of cost tables that were fitted without them."""

from __future__ import annotations

from kilotune.codegen import ir
from kilotune.evaluators.cost_collector import Collector
from kilotune.evaluators.cost_features import number, width_position

PRODUCTS_AN_ELEMENT = 5
"""One with a factor of 32 bits has 64 bits and is rounded twice: about as much as so many products of 32 bits."""


def count_rescaled(c: Collector, elements: float, products: int) -> None:
    """So many elements, each of which takes so many products with a fixed multiplier."""
    wide = width_position(32)
    c.add(elements * products * PRODUCTS_AN_ELEMENT, number("product", wide, wide, wide))


def products_of(operation: ir.QuantisedElements) -> int:
    """How many products with fixed multipliers one element takes."""
    match operation:
        case ir.QuantisedSum():
            return 3
        case ir.QuantisedProduct() | ir.EvenSum():
            return 1
        case _:
            return 0
