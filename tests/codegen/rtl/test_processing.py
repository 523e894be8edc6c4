"""Columns of sparse matrices on processing elements."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.rtl.processing import (
    ColumnShares,
    column_nonzeros,
    element_steps,
    least_cycles,
    longest_first_shares,
    papers_shares,
)
from tests.codegen.rtl.models import candidate

counts = st.lists(st.integers(0, 9), min_size=1, max_size=7)


def test_bonsai_on_sixteen_elements() -> None:
    """320 non-zero values: the paper's way, longest first, and the bound, by hand from the matrix."""
    bundle, _ = candidate("bonsai-digits")
    sparse = next(o for o in ir.operations(bundle.program.body) if isinstance(o, ir.MatMul) and o.sparse)
    nonzeros = column_nonzeros(bundle.parameters[sparse.a.variable])
    assert sum(nonzeros) == 320
    assert papers_shares(nonzeros, 16).cycles(nonzeros) == 26
    assert longest_first_shares(nonzeros, 16).cycles(nonzeros) == 21
    assert least_cycles(nonzeros, 16) == 20


def test_the_paper_gives_the_last_quarter_to_who_is_idle() -> None:
    nonzeros = [5, 1, 1, 1, 1, 1, 3, 3]
    assert papers_shares(nonzeros, 2).columns == ((0, 1, 2), (3, 4, 5, 6, 7))
    assert papers_shares(nonzeros, 2, dynamic=0.0).columns == ((0, 1, 2, 3), (4, 5, 6, 7))


@given(counts, st.integers(1, 3))
def test_every_column_once_and_never_below_the_bound(nonzeros: list[int], elements: int) -> None:
    best = min(
        max(sum(n for n, e in zip(nonzeros, choice, strict=True) if e == own) for own in range(elements))
        for choice in itertools.product(range(elements), repeat=len(nonzeros))
    )
    for shares in (papers_shares(nonzeros, elements), longest_first_shares(nonzeros, elements)):
        assert sorted(itertools.chain(*shares.columns)) == list(range(len(nonzeros)))
        assert shares.elements == elements
        assert least_cycles(nonzeros, elements) <= best <= shares.cycles(nonzeros)
    # Graham's bound for longest processing time first
    assert 3 * elements * longest_first_shares(nonzeros, elements).cycles(nonzeros) <= (4 * elements - 1) * best


def test_an_element_knows_the_first_value_of_each_row() -> None:
    matrix = np.array([[1, 0, 2], [0, 0, 3], [4, 5, 0]])
    steps = element_steps(matrix, (2, 0))
    assert [(s.first, s.row, s.column, s.value) for s in steps] == [
        (True, 0, 2, 2), (True, 1, 2, 3), (False, 0, 0, 1), (True, 2, 0, 4),
    ]  # fmt: skip
    assert ColumnShares(((2, 0), (1,))).cycles(column_nonzeros(matrix)) == 4
