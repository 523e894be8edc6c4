"""An object of a hardware file, and the errors of its fields: each names the field, what was expected, and what was found."""

from __future__ import annotations

import json
from typing import Any

from kilotune.codegen.diagnostics import InputError

LARGEST_COUNT = 1 << 20
LARGEST_NUMBER = 1e12


class DescribedSection:
    """An object of the file, and the errors of its fields."""

    def __init__(self, path: str, place: str, fields: Any) -> None:
        self.path, self._place = path, place
        if not isinstance(fields, dict):
            raise InputError(path, place=place or "top level", expected="an object", found=shown(fields))
        self.fields: dict[str, Any] = fields

    def error(self, key: str, expected: str, found: str) -> InputError:
        """Names the field."""
        place = ".".join(part for part in (self._place, key) if part) or "top level"
        return InputError(self.path, place=place, expected=expected, found=found)

    def value(self, key: str) -> Any:
        if key not in self.fields:
            raise self.error(key, "a value", "none")
        return self.fields[key]

    def section(self, key: str) -> DescribedSection:
        return DescribedSection(self.path, ".".join(part for part in (self._place, key) if part), self.value(key))

    def text(self, key: str) -> str:
        value = self.value(key)
        if not isinstance(value, str) or not value:
            raise self.error(key, "a name", shown(value))
        return value

    def choice(self, key: str, names: tuple[str, ...]) -> str:
        value = self.value(key)
        if value not in names:
            raise self.error(key, f"one of {', '.join(names)}", shown(value))
        return str(value)

    def count(self, key: str, most: int = LARGEST_COUNT) -> int:
        value = self.value(key)
        if type(value) is not int or not 1 <= value <= most:
            raise self.error(key, f"a whole number from 1 to {most}", shown(value))
        return value

    def optional_count(self, key: str, most: int = LARGEST_COUNT) -> int:
        """0 where it is not there."""
        return self.count(key, most) if key in self.fields else 0

    def number(self, key: str) -> float:
        value = self.value(key)
        if type(value) not in (int, float) or not 0 <= value < LARGEST_NUMBER:
            raise self.error(key, "a number from 0", shown(value))
        return float(value)

    def core(self, key: str, cores: int) -> int:
        value = self.value(key)
        if type(value) is not int or not 0 <= value < cores:
            raise self.error(key, f"a core from 0 to {cores - 1}", shown(value))
        return value

    def ports(self, key: str, cores: int) -> list[int]:
        value = self.value(key)
        right = isinstance(value, list) and value and all(type(p) is int and 0 <= p < cores for p in value)
        if not right or len(set(value)) < len(value):
            raise self.error(key, f"a list of different cores from 0 to {cores - 1}", shown(value))
        return list(value)

    def only(self, keys: tuple[str, ...]) -> None:
        """InputError for a field that is not among `keys`."""
        for key in self.fields:
            if key not in keys:
                raise self.error(key, f"one of {', '.join(keys)}", "an unknown field")


def shown(value: Any) -> str:
    """A value of JSON, cut where it is long."""
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
