"""Which feature of the model a feature of a frame is, in C."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.codegen import ir
from kilotune.codegen.emit.interface import Interface, header
from kilotune.codegen.feature_order import FeatureOrder


def evaluated(formula: str, i: int) -> int:
    """A formula of C's whole numbers, whose / has no rest."""
    return int(eval(formula.replace("/", "//"), {"i": i}))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_the_formula_is_the_order_of_permuted_axes(shape: list[int], random: object) -> None:
    axes = list(range(len(shape)))
    random.shuffle(axes)  # type: ignore[attr-defined]
    places = np.arange(int(np.prod(shape))).reshape(shape).transpose(axes).reshape(-1)
    order = FeatureOrder(tuple(places.tolist()))
    if len(places) > 1:
        assert [evaluated(order.formula, i) for i in range(len(places))] == places.tolist()


@given(st.permutations(range(7)))
def test_an_order_that_no_loops_count_has_no_formula(places: list[int]) -> None:
    formula = FeatureOrder(tuple(places)).formula
    assert not formula or [evaluated(formula, i) for i in range(7)] == places


def test_channels_of_a_moment_side_by_side() -> None:
    assert FeatureOrder((0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11)).formula == "i / 3 + i % 3 * 4"


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ((0, 2, 1, 3), "feature number i / 2 + i % 2 * 2"),
        ((1, 0, 2, 3), "feature_order of decisions.json"),
        (None, None),
    ],
)
def test_the_header_says_which_feature_is_which(places: tuple[int, ...] | None, said: str | None) -> None:
    order = None if places is None else FeatureOrder(places)
    text = header(Interface(ir.ResultKind.CLASS, 4, 16, 8, 1, 16, 0, 3, order=order), "", "model", "int predict(void)")
    assert ("frame by frame" in text) == (said is not None)
    assert said is None or said in text
