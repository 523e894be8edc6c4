"""Errors in what a user wrote: one sentence that names the file, the place in it, what was expected and what was found."""

from __future__ import annotations

from typing import Any

from kilotune.codegen.ir import Location


class InputError(ValueError):
    """A program, parameter or data file that cannot be used.

    The message is `path:line:column: subject: expected X, found Y`; files without lines have a `place`
    ("row 3", "element (0, 2)") instead of line and column.
    """

    def __init__(
        self,
        path: str,
        *,
        expected: str,
        found: str,
        subject: str = "",
        line: int | None = None,
        column: int | None = None,
        place: str | None = None,
    ) -> None:
        self.path = path
        self.line = line
        self.column = column
        self.place = place
        self.subject = subject
        self.expected = expected
        self.found = found
        super().__init__(self._sentence())

    @classmethod
    def at(cls, location: Location, subject: str, expected: str, found: str) -> InputError:
        """An error at a place of a program's source."""
        path, line, column = location.path, location.line, location.column
        return cls(path, expected=expected, found=found, subject=subject, line=line, column=column)

    def _sentence(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}:{self.column}"
        parts = [where, self.place, self.subject, f"expected {self.expected}, found {self.found}"]
        return ": ".join(part for part in parts if part)

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders, and exceptions with keyword arguments do not survive pickling by default.
        return _restore, (dict(self.__dict__),)


def _restore(fields: dict[str, Any]) -> InputError:
    return InputError(**fields)
