"""What runs of products with several steps a round (`codegen.emit.unrolled`) take, counted for whole batches."""

from __future__ import annotations

from collections import Counter

from kilotune.codegen import ir
from kilotune.codegen.arrays import IntArray
from kilotune.codegen.emit.unrolled import steps_for
from kilotune.evaluators.cost_collector import Collector, Mask
from kilotune.evaluators.cost_features import number


def steps_of(program: ir.Program, most: int) -> int:
    """How many steps stand in a round of the runs of a program, where at most `most` may; 0 for none."""
    lengths: Counter[int] = Counter()
    for operation, times in ir.executions(program.body):
        if isinstance(operation, ir.Product):
            lengths[operation.taps] += times * operation.out.size
    return steps_for(most, lengths) if most and lengths else 0


def count_products(
    c: Collector, labels: tuple[int | IntArray, ...], products: float, rounds: tuple[int, int], stepped: Mask
) -> None:
    """Plain products of runs. `labels`: positions of places and widths of both factors, and the width of the sum; `rounds`: the length of a
    run, and how many steps are in a round; `stepped`: for which candidates there are rounds at all."""
    length, steps = rounds
    with c.only(~stepped):
        c.add(products, number("dot", *labels))
    if not steps:
        return
    rest = length % steps / length
    with c.only(stepped):
        c.add(products * (1.0 - rest), number("straight", *labels))
        c.add(products * rest, number("dot", *labels))
        c.add(products / length * (length // steps), number("round"))
        c.add(products / length * (length >= steps and length % steps > 0), number("rest"))
