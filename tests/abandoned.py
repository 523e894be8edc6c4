"""Calls that are abandoned in the middle of a module, as `search.abandoning` abandons them wherever they are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType
from typing import Any


class Left(BaseException):
    """The call is abandoned."""


def abandoned_everywhere(module: ModuleType, begin: Callable[[], Callable[[], object]]) -> Iterator[None]:
    """Abandons what `begin` returns at the first line of `module` that it comes to, then a new one at the second, and so on; after each one
    it is the caller's turn. Ends with a call that comes to its end."""
    line, ended = 0, False
    while not ended:
        line += 1
        ended = _comes_to_its_end(begin(), module, line)
        yield


def _comes_to_its_end(call: Callable[[], object], module: ModuleType, last_line: int) -> bool:
    lines = 0

    def at_line(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal lines
        if event == "line":
            lines += 1
            if lines == last_line:
                raise Left
        return at_line

    def at_call(frame: FrameType, _event: str, _argument: object) -> Any:
        return at_line if frame.f_code.co_filename == module.__file__ else None

    before = sys.gettrace()
    sys.settrace(at_call)
    try:
        call()
    except Left:
        return False
    finally:
        sys.settrace(before)
    return True
