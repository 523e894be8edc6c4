"""A fingerprint is of the content: what must change it does, and nothing else."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilotune.search.fingerprint import NOT_CONTENT, absent_as, fingerprint, named

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary() | st.fractions()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner), max_leaves=12
)


def of(*content: object) -> str:
    return fingerprint("test", 1, *content)


def test_golden_values_hold_stored_studies_together() -> None:
    weights = np.array([[1.0, -0.5]], dtype=np.float32)
    assert of() == "c9c3f2a41171a88d2ebd5ecb1879e6b0"
    assert of({"a": (1, 2.5, None), "b": Fraction(1, 3)}, weights) == "6e27ef140748d9df180689e087313396"


@given(VALUES, VALUES)
def test_two_contents_share_a_fingerprint_only_when_they_are_the_same(first: Any, second: Any) -> None:
    assert (of(first) == of(second)) == (typed(first) == typed(second))


def typed(value: Any) -> Any:
    """Content as it counts: numbers by value, whatever their type; but True is no number, nor is -0.0 the number 0."""
    if isinstance(value, tuple):
        return ("tuple", *(typed(item) for item in value))
    if isinstance(value, dict):
        return ("dict", frozenset((key, typed(item)) for key, item in value.items()))
    if isinstance(value, float | Fraction | int) and not isinstance(value, bool):
        whole = not isinstance(value, float) or (math.isfinite(value) and str(value) != "-0.0")
        return ("number", Fraction(value) if whole else repr(value))
    return (type(value).__name__, repr(value))


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_texts_beside_one_another_do_not_run_together(first: list[str], second: list[str]) -> None:
    assert (of(*first) == of(*second)) == (first == second)


def test_a_class_is_its_fields() -> None:
    @dataclass(frozen=True)
    class Before:
        size: int
        path: str = field(metadata=NOT_CONTENT)
        weights: tuple[float, ...] = ()

    @dataclass(frozen=True)
    class AfterRenaming:
        shape: tuple[float, ...] = field(metadata=named("weights"))
        size: int = 0
        rounding: str = field(default="floor", metadata=absent_as("floor"))
        path: str = field(default="", metadata=NOT_CONTENT)

    stored = of(Before(3, "/here/model.sd", (0.5,)))
    assert stored == of(Before(3, "/there/model.sd", (0.5,)))
    assert stored == of(AfterRenaming((0.5,), 3))
    assert stored != of(AfterRenaming((0.5,), 4))
    assert stored != of(AfterRenaming((0.25,), 3))
    assert stored != of(AfterRenaming((0.5,), 3, rounding="nearest"))


def test_classes_of_equal_fields_are_told_apart_by_their_kind() -> None:
    @dataclass(frozen=True)
    class Add:
        content_kind = "add"
        a: int

    @dataclass(frozen=True)
    class Subtract:
        content_kind = "subtract"
        a: int

    assert of(Add(1)) != of(Subtract(1))


def test_arrays_are_told_apart_by_type_shape_and_elements_not_by_layout() -> None:
    whole = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert of(whole) == of(np.asfortranarray(whole)) == of(whole.astype(">f4"))
    others = [whole.astype(np.float64), whole.reshape(3, 2), whole + 1, whole.ravel(), whole.T]
    assert len({of(whole), *map(of, others)}) == 6


def test_numbers_of_numpy_are_numbers_and_an_enumeration_is_its_value() -> None:
    class Rounding(enum.Enum):
        FLOOR = "floor"

    assert of(np.int64(3), np.float64(0.5), np.bool_(True)) == of(3, 0.5, True)
    assert of(Rounding.FLOOR) == of("floor")


def test_the_subject_and_the_semantics_count() -> None:
    assert len({fingerprint("seedot", 1, 0), fingerprint("seedot", 2, 0), fingerprint("shiftry", 1, 0)}) == 3


@pytest.mark.parametrize("content", [object(), {"options": [1, object()]}, np.array([object()]), int])
def test_what_has_no_canonical_form_is_refused(content: object) -> None:
    with pytest.raises(TypeError, match="no canonical form"):
        of(content)


def test_the_place_of_what_has_none_is_named() -> None:
    content: Mapping[str, object] = {"options": [1, object()]}
    with pytest.raises(TypeError, match=r"test\[2\]\.options\[1\]"):
        of(content)


def test_every_field_of_a_data_class_counts() -> None:
    @dataclass(frozen=True)
    class Options:
        limit: int = 1
        mode: str = "a"
        scale: float = 1.0

    one = Options()
    changed = [
        dataclasses.replace(one, **{name: value}) for name, value in [("limit", 2), ("mode", "b"), ("scale", 0.5)]
    ]
    assert len({of(one), *map(of, changed)}) == 4
