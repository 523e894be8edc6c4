"""Random kernels and plans for the properties."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

from kilotune.codegen.scamp.instructions import instruction_set
from kilotune.codegen.scamp.kernel import Kernel
from kilotune.codegen.scamp.plan import Plan, PlanStep
from kilotune.codegen.scamp.sums import DIRECTIONS, Sum

TARGETS = st.sampled_from(("auke", "scamp5"))


@st.composite
def kernels(draw: st.DrawFn, sides: int = 4, depth: int = 3) -> Kernel:
    rows, columns = draw(st.integers(1, sides)), draw(st.integers(1, sides))
    counts = draw(st.lists(st.integers(-12, 12), min_size=rows * columns, max_size=rows * columns))
    weights = [Fraction(count, 1 << depth) for count in counts]
    return Kernel.of_rows([weights[row * columns : (row + 1) * columns] for row in range(rows)])


@st.composite
def sums(draw: st.DrawFn) -> Sum:
    cells = st.tuples(st.integers(-3, 3), st.integers(-3, 3))
    return Sum.of(draw(st.dictionaries(cells, st.integers(-9, 9), max_size=5)))


@st.composite
def plans(draw: st.DrawFn, longest: int = 7) -> Plan:
    """Any steps on any earlier values: dead ones, repeated operands and repeated results too."""
    target = draw(TARGETS)
    rows = [row for row in instruction_set(target).rows if not (row.name == "res" and row.left)]
    steps, halvings = [], 0
    for number in range(draw(st.integers(0, longest))):
        row = draw(st.sampled_from(rows))
        operands = draw(st.lists(st.integers(0, number), min_size=row.operands, max_size=row.operands))
        directions = draw(
            st.lists(st.sampled_from(sorted(DIRECTIONS)), min_size=row.directions, max_size=row.directions)
        )
        steps.append(PlanStep(row.name, tuple(operands), tuple(directions)))
        halvings += row.halvings
    results = draw(st.lists(st.integers(0, len(steps)), min_size=1, max_size=2))
    return Plan(target, halvings, tuple(steps), tuple(results))
