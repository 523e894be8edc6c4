"""What a database holds is checked cell by cell: SQLite keeps a text in a column of numbers, and a file may be damaged or edited."""

from __future__ import annotations

import json
import math
from typing import Any

MOST_SHOWN = 60
_NUMBERS = frozenset((int, float))


class CellError(ValueError):
    """A cell holds something else than its column is for: "column elapsed_s: expected a number, found 'x'"."""

    def __init__(self, column: str, expected: str, found: Any) -> None:
        text = repr(found)
        shown = text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."
        super().__init__(f"column {column}: expected {expected}, found {shown}")


def text_of(value: Any, column: str) -> str:
    """The cell as text. CellError: it is none."""
    if not isinstance(value, str):
        raise CellError(column, "a text", value)
    return value


def text_or_none_of(value: Any, column: str) -> str | None:
    """The cell as text, or None for NULL. CellError."""
    return None if value is None else text_of(value, column)


def count_of(value: Any, column: str) -> int:
    """The cell as a whole number from 0. CellError: it is none."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise CellError(column, "a whole number from 0", value)
    return value


def number_of(value: Any, column: str) -> float:
    """The cell as a finite number. CellError: it is none."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise CellError(column, "a finite number", value)
    return value


def number_or_none_of(value: Any, column: str) -> float | None:
    """The cell as a finite number, or None for NULL. CellError."""
    return None if value is None else number_of(value, column)


def choice_of(value: Any, column: str, known: tuple[str, ...]) -> str:
    """The cell as one of the known words. CellError: it is another."""
    if value not in known:
        raise CellError(column, f"one of {', '.join(known)}", value)
    return str(value)


def object_of(value: Any, column: str) -> dict[str, Any]:
    """The cell as a JSON object. CellError: it is none."""
    content = _json_of(value, column, "a JSON object")
    if not isinstance(content, dict):
        raise CellError(column, "a JSON object", value)
    return content


def list_of(value: Any, column: str) -> list[Any]:
    """The cell as a JSON list. CellError: it is none."""
    content = _json_of(value, column, "a JSON list")
    if not isinstance(content, list):
        raise CellError(column, "a JSON list", value)
    return content


def names_of(value: Any, column: str) -> tuple[str, ...]:
    """The cell as a JSON list of texts that differ. CellError: it is none."""
    content = list_of(value, column)
    if not all(isinstance(name, str) for name in content) or len(set(content)) < len(content):
        raise CellError(column, "a JSON list of texts that differ", value)
    return tuple(content)


def numbers_of(value: Any, column: str) -> list[float]:
    """The cell as a JSON list of numbers; NaN and infinity are some. CellError."""
    content = list_of(value, column)
    if not _NUMBERS.issuperset(map(type, content)) or not _are_doubles(content):
        raise CellError(column, "a JSON list of numbers", value)
    return content


def _json_of(value: Any, column: str, expected: str) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else None
    except (ValueError, RecursionError):
        raise CellError(column, expected, value) from None


def _are_doubles(numbers: list[float]) -> bool:
    try:
        list(map(float, numbers))
    except OverflowError:
        return False
    return True
