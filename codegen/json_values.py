"""Values of a JSON file as an error message shows them. Numbers of kernel files are read as integers and fractions, exactly."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

MOST_SHOWN = 60
"""Characters of a value."""


@dataclass(frozen=True)
class JsonConstant:
    """NaN, Infinity or -Infinity, which Python's JSON reads and no kernel has."""

    text: str


def shown(value: Any) -> str:
    """At most `MOST_SHOWN` characters."""
    if isinstance(value, JsonConstant):
        return value.text
    if isinstance(value, Fraction):
        return f"{float(value):g}" if abs(value) < 10**300 else "a number beyond all bounds"
    text = _as_written(value)
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + "..."


def shown_at(content: Mapping[str, Any], key: str) -> str:
    """The value of an object's key; "nothing" where there is none."""
    return shown(content[key]) if key in content else "nothing"


def _as_written(value: Any, nested: int = 0) -> str:
    """With the file's words for null, true, false and what is no finite number; as much of it as a message has room for, at least."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (Fraction, JsonConstant)):
        return shown(value)
    if isinstance(value, float):
        return json.dumps(value)
    if not isinstance(value, (list, dict)) or nested > MOST_SHOWN:
        return repr(value) if not isinstance(value, (list, dict)) else "..."
    if isinstance(value, list):
        return f"[{', '.join(_as_written(one, nested + 1) for one in value[:MOST_SHOWN])}]"
    pairs = itertools.islice(value.items(), MOST_SHOWN)
    return f"{{{', '.join(f'{key!r}: {_as_written(one, nested + 1)}' for key, one in pairs)}}}"
