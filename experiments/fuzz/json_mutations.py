"""Mutations of JSON values: every one is well-formed, and one value in it is not what was expected."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 255, 1 << 20, 1 << 31, 1 << 40, 1 << 63, 1 << 64, 10**30, 10**300),
    *(0.5, -0.0, 1e-320, 1e308, float("nan"), float("inf"), float("-inf")),
    *("", "x", "0", "nan", "\0", "a\nb", "\x1b[2J", "../../etc/passwd", "1/3", "\ud800", "x" * 300),
    *([], {}, [[]], [None], {"": None}, [0] * 70, [[0] * 70] * 70),
)
"""One of every type, and of every size that a type has."""

DEPTHS = (3, 90, 600)


def mutate_json(data: bytes, random: Random) -> bytes:
    """One value of the document replaced, removed, repeated, renamed, moved or nested; other text as it is."""
    try:
        return json.dumps(mutate_value(json.loads(data), random)).encode()
    except (ValueError, RecursionError):
        return data


def mutate_value(document: Any, random: Random) -> Any:
    """A changed copy of a JSON value. RecursionError where it is nested too deeply already."""
    top = [copy.deepcopy(document)]
    places = _places(top)
    holder, key = random.choice(places)
    value = holder[key]
    match random.randrange(8):
        case 0 | 1 | 2:
            holder[key] = copy.deepcopy(random.choice(VALUES))
        case 3 if holder is not top:
            del holder[key]
        case 4 if isinstance(holder, dict):
            holder[random.choice(("", "x", key.upper(), key + " ", "__class__"))] = holder.pop(key)
        case 4 | 5 if isinstance(value, list) and value:
            value.extend(copy.deepcopy(value[: random.choice((1, 4))]) * random.choice((1, 3, 100)))
        case 6:
            other, elsewhere = random.choice(places)
            holder[key] = copy.deepcopy(other[elsewhere])
        case _:
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                holder[key] = _near(value, random)
            else:
                holder[key] = _nested(value, random)
    return top[0]


def _places(top: list[Any]) -> list[tuple[Any, Any]]:
    """Every value as (what holds it, under which key or index)."""
    found: list[tuple[Any, Any]] = []
    waiting: list[Any] = [top]
    while waiting:
        holder = waiting.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        for key in keys:
            found.append((holder, key))
            if isinstance(holder[key], (dict, list)):
                waiting.append(holder[key])
    return found


def _near(value: float, random: Random) -> Any:
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    return random.choice(
        (value + 1, value - 1, -value, value * 1000, float(value) if abs(value) < 1e300 else 0, str(value))
    )


def _nested(value: Any, random: Random) -> Any:
    for _ in range(random.choice(DEPTHS)):
        value = [value]
    return value
