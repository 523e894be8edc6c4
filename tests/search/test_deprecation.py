"""A deprecated function works as before, and says where it is called what to use instead."""

from __future__ import annotations

import inspect
import warnings

import pytest

from kilotune.search.deprecation import deprecated


@deprecated("tests.new", since="1.4", removed="1.5")
def old(number: int, *, times: int = 2) -> int:
    """Multiply."""
    return number * times


def test_it_warns_at_the_callers_line_and_works() -> None:
    with pytest.warns(DeprecationWarning, match="is deprecated") as said:
        assert old(3, times=5) == 15
    (warning,) = said
    assert str(warning.message) == (
        "tests.search.test_deprecation.old is deprecated since kilotune 1.4 and will be removed in 1.5: use tests.new."
    )
    assert warning.filename == __file__


def test_it_looks_like_the_function() -> None:
    assert old.__name__ == "old"
    assert old.__doc__ == "Multiply."
    assert str(inspect.signature(old)) == "(number: 'int', *, times: 'int' = 2) -> 'int'"


@pytest.mark.parametrize("removed", ["1.4", "1.3", "0.9"])
def test_one_version_must_warn(removed: str) -> None:
    with pytest.raises(ValueError, match=r"expected a version after 1\.4"):
        deprecated("tests.new", since="1.4", removed=removed)


def test_versions_are_numbers() -> None:
    deprecated("tests.new", since="1.9", removed="1.10")


def test_the_old_place_of_tune_says_the_new_one() -> None:
    from kilotune.experiments.notebook import tune

    with pytest.warns(DeprecationWarning, match="use kilotune.tune"), pytest.raises(ValueError, match="no space"):
        tune("no-space")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from kilotune import tune as public

        with pytest.raises(ValueError, match="no space"):
            public("no-space")
