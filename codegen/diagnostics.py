"""Errors in what a user wrote: one sentence that names the file, the place in it, what was expected and what was found."""

from __future__ import annotations

from kilotune.codegen.ir import Location


class InputError(ValueError):
    """A program, parameter or data file that cannot be used.

    The message is `path:line:column: subject: expected X, found Y`; files without lines have a `place`
    ("row 3", "element (0, 2)") instead of line and column.
    """

    def __init__(
        self,
        path: str,
        subject: str,
        expected: str,
        found: str,
        *,
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
        return cls(location.path, subject, expected, found, line=location.line, column=location.column)

    def _sentence(self) -> str:
        where = self.path
        if self.line is not None:
            where += f":{self.line}:{self.column}"
        if self.place is not None:
            where += f": {self.place}"
        return f"{where}: {self.subject}: expected {self.expected}, found {self.found}"

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions with keyword arguments do not survive pickling by default, and errors cross process borders.
        return _restore, (self.path, self.subject, self.expected, self.found, self.line, self.column, self.place)


def _restore(
    path: str, subject: str, expected: str, found: str, line: int | None, column: int | None, place: str | None
) -> InputError:
    return InputError(path, subject, expected, found, line=line, column=column, place=place)
