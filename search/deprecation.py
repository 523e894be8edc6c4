"""Names that are about to go: they work for one minor version more, and say so."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

ArgumentsT = ParamSpec("ArgumentsT")
ReturnedT = TypeVar("ReturnedT")


def deprecated(
    instead: str, *, since: str, removed: str
) -> Callable[[Callable[ArgumentsT, ReturnedT]], Callable[ArgumentsT, ReturnedT]]:
    """Make a function warn (DeprecationWarning, at the caller's line) when it is called, and work as before.

    instead: what to use, as somebody writes it ("kilotune.tune"). since, removed: versions, "MAJOR.MINOR"; the second is at least
    one minor version later. ValueError when it is not.
    """
    if _numbers(removed) <= _numbers(since):
        raise ValueError(f"removed={removed!r}: expected a version after {since}, so that there is one that warns.")

    def mark(function: Callable[ArgumentsT, ReturnedT]) -> Callable[ArgumentsT, ReturnedT]:
        message = (
            f"{function.__module__}.{function.__qualname__} is deprecated since kilotune {since} and will be removed in "
            f"{removed}: use {instead}."
        )

        @functools.wraps(function)
        def warning(*arguments: ArgumentsT.args, **keywords: ArgumentsT.kwargs) -> ReturnedT:
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            return function(*arguments, **keywords)

        return warning

    return mark


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
